"""The same answers on a CUDA device as on the CPU. Run where there is one; skipped elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from benchmarks.gpu_step import SMALL, few_graphs
from benchmarks.training import trainer_of
from megae import MEGAEImputer
from megae.kernels import FilterOperator, apply, apply_adjoint, sparse, use_backend
from megae.spectral import TightFrame, chebyshev_coefficients, normalized_laplacian
from megae.training import loop
from megae.training.captured import CapturedStep

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch sees none here"),
]

TINY = {"hidden": 32, "band_width": 8, "max_steps": 120, "random_state": 0, "diagnose": False}


def random_graph(n: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=4 / n, rng=rng)
    return sp.csr_array(A + A.T)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_filter_agrees_with_the_cpu(shared: bool, dtype: torch.dtype) -> None:
    L = normalized_laplacian(random_graph(300, 0))
    C = chebyshev_coefficients(TightFrame(6, "log"), 10)
    Z = torch.randn(300, 1 if shared else 6, 20, dtype=dtype, generator=torch.Generator().manual_seed(0))
    here = Z.clone().requires_grad_()
    there = Z.cuda().requires_grad_()
    out_here = apply(FilterOperator.from_laplacian(L, dtype), here, C)
    out_there = apply(FilterOperator.from_laplacian(L, dtype, "cuda"), there, C)
    out_here.sin().sum().backward()
    out_there.sin().sum().backward()
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(out_there.cpu(), out_here, atol=tolerance, rtol=0)
    torch.testing.assert_close(there.grad.cpu(), here.grad, atol=tolerance, rtol=0)
    torch.testing.assert_close(
        apply_adjoint(L, out_there.detach(), C).cpu(), apply_adjoint(L, out_here.detach(), C), atol=tolerance, rtol=0
    )


def test_fit_on_the_gpu_fills_and_moves_to_the_cpu() -> None:
    A = random_graph(200, 1)
    rng = np.random.default_rng(0)
    truth = (sp.eye_array(200) + 0.2 * A) @ rng.normal(size=(200, 3))
    X = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    imputer = MEGAEImputer(device="cuda", **TINY).fit(X, graph=A)
    filled = imputer.transform(X, graph=A)
    assert np.array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    on_cpu = imputer.set_params(device="cpu").transform(X, graph=A)
    np.testing.assert_allclose(on_cpu, filled, atol=1e-3)


class Killed(Exception):
    pass


def test_a_run_killed_on_the_gpu_goes_on_from_its_checkpoint(tmp_path, monkeypatch) -> None:
    A = random_graph(60, 2)
    X = np.random.default_rng(1).normal(size=(60, 3))
    X[::7, 0] = np.nan
    whole = MEGAEImputer(device="cuda", **TINY).fit(X, graph=A)
    path, write = tmp_path / "c.safetensors", loop.write_state

    def write_and_die(trainer, seconds) -> None:
        write(trainer, seconds)
        if trainer.outcome.steps >= 60:
            raise Killed

    monkeypatch.setattr(loop, "write_state", write_and_die)
    with pytest.raises(Killed):
        MEGAEImputer(device="cuda", **TINY).fit(X, graph=A, checkpoint=path)
    monkeypatch.setattr(loop, "write_state", write)
    again = MEGAEImputer(device="cuda", **TINY).fit(X, graph=A, checkpoint=path, resume=True)
    np.testing.assert_allclose(again.transform(X, graph=A), whole.transform(X, graph=A), atol=1e-4)


def mixed_table(n: int, A: sp.csr_array) -> pd.DataFrame:
    """Columns of every kind, smooth over a graph, a sixth of the cells missing."""
    rng = np.random.default_rng(3)
    smooth = (sp.eye_array(n) + 0.3 * A) @ rng.normal(size=(n, 4))
    table = pd.DataFrame(
        {
            "number": smooth[:, 0],
            "flag": pd.array(smooth[:, 1] > 0, dtype="boolean"),
            "kind": pd.Categorical(np.array(["a", "b", "c"])[np.digitize(smooth[:, 2], [-0.5, 0.5])]),
            "visits": np.floor(np.exp(0.5 * smooth[:, 3])),
        }
    )
    return table.mask(rng.random(table.shape) < 1 / 6)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"preset": "paper"},
        {"regularize": False},
        {"use_graph": False},
        {"decoder": "mlp"},
        {"decoder": "gcn"},
        {"frame": "heat"},
        {"frame": "adapted"},
        {"partitions": 6},
        {"dropout": 0.2},
    ],
    ids=str,
)
def test_fit_replays_captured_steps_and_learns_as_much_as_without(settings, monkeypatch) -> None:
    A = random_graph(240, 4)
    X = mixed_table(240, A)
    if settings.get("preset") == "paper":
        X = X[["number"]]
    captured = []
    record = CapturedStep._record

    def spy(self, room: int, warm_up: int = 3):
        captured.append(room)
        return record(self, room, warm_up)

    monkeypatch.setattr(CapturedStep, "_record", spy)
    options = {**TINY, "max_steps": 200, "column_types": {"visits": "count"}} | settings
    if "visits" not in X:
        del options["column_types"]
    fitted = MEGAEImputer(device="cuda", **options).fit(X, graph=A)
    assert captured
    monkeypatch.setattr(CapturedStep, "pays", staticmethod(lambda trainer: False))
    captured.clear()
    eager = MEGAEImputer(device="cuda", **options).fit(X, graph=A)
    assert not captured
    mine, others = fitted.diagnostics_["rmse"]["megae"], eager.diagnostics_["rmse"]["megae"]
    assert mine == pytest.approx(others, rel=0.15)
    assert not fitted.transform(X, graph=A).isna().any().any()


@pytest.fixture
def filters(request: pytest.FixtureRequest):
    """A filter by name, while the test lasts."""
    if request.param == "triton":
        pytest.importorskip("triton")
    with use_backend(request.param):
        yield request.param


@pytest.mark.parametrize("filters", ["torch", "triton"], indirect=True)
@pytest.mark.parametrize("form", ["bandwise", "expand", "contract"])
@pytest.mark.parametrize(("M", "K", "h"), [(6, 10, 24), (3, 0, 5), (4, 1, 7), (2, 4, 70), (1, 7, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_forms_and_their_gradients_agree_with_the_cpu(
    filters: str, form: str, M: int, K: int, h: int, dtype
) -> None:
    L = normalized_laplacian(random_graph(400, 3))
    C = np.random.default_rng(0).standard_normal((M, K + 1))
    function = apply_adjoint if form == "contract" else apply
    Z = torch.randn(400, 1 if form == "expand" else M, h, dtype=dtype, generator=torch.Generator().manual_seed(0))
    here, there = Z.clone().requires_grad_(), Z.cuda().requires_grad_()
    out_there = function(FilterOperator.from_laplacian(L, dtype, "cuda"), there, C)
    out_there.sin().sum().backward()
    with use_backend("auto"):
        out_here = function(FilterOperator.from_laplacian(L, dtype), here, C)
        out_here.sin().sum().backward()
    tolerance = 2e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(out_there.cpu(), out_here, atol=tolerance, rtol=tolerance)
    torch.testing.assert_close(there.grad.cpu(), here.grad, atol=tolerance, rtol=tolerance)


def hub_graph(n: int) -> sp.csr_array:
    """A random graph, isolated nodes among it, with a node that every hundredth other one hangs on."""
    rng = np.random.default_rng(5)
    i, j = rng.integers(0, n - 50, (2, 8 * n))
    A = sp.csr_array((np.ones(8 * n), (i, j)), shape=(n, n)).tolil()
    A[7, ::100] = 1.0
    A = sp.csr_array(A)
    A.setdiag(0)
    return sp.csr_array(A + A.T)


@pytest.mark.parametrize(
    "shape", [{}, {"rows": 1, "neighbours": 32, "warps": 1}, {"row_bytes": 1024, "rows": 4}], ids=str
)
def test_triton_on_a_large_graph_agrees_with_torch(shape: dict[str, int]) -> None:
    gpu = pytest.importorskip("megae.kernels.gpu")
    n = 150_000
    assert n > gpu.SORT_FROM
    operator = FilterOperator.from_laplacian(normalized_laplacian(hub_graph(n)), device="cuda")
    C = torch.as_tensor(chebyshev_coefficients(TightFrame(4, "log"), 10), dtype=torch.float32, device="cuda")
    Z = torch.randn(n, 4, 40, device="cuda", generator=torch.Generator("cuda").manual_seed(0))
    token = gpu.tile.set(gpu.Tile(**shape))
    try:
        found = gpu.bandwise(operator, Z, C), gpu.expand(operator, Z[:, :1], C), gpu.contract(operator, Z, C)
    finally:
        gpu.tile.reset(token)
    wanted = sparse.bandwise(operator, Z, C), sparse.expand(operator, Z[:, :1], C), sparse.contract(operator, Z, C)
    for a, b in zip(found, wanted, strict=True):
        assert float((a - b).norm() / b.norm()) < 1e-5


@pytest.mark.parametrize("filters", ["torch", "triton"], indirect=True)
def test_captured_steps_are_the_steps_not_captured(filters: str) -> None:
    made = [trainer_of(few_graphs(), "cuda", **SMALL) for _ in range(2)]
    steps = [CapturedStep(t, capture) for t, capture in zip(made, (True, False), strict=True)]
    start = [w.detach().clone() for w in made[0].weights]
    for i in range(30):
        losses = [float(step(i, i / 60)[0]) for step in steps]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert max(float((a - b).abs().max()) for a, b in zip(start, made[0].weights, strict=True)) > 1e-3
    for a, b in zip([*made[0].weights, *made[0].average], [*made[1].weights, *made[1].average], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-4)


def test_a_captured_step_never_waits_for_the_card() -> None:
    step = CapturedStep(trainer_of(few_graphs(), "cuda", **SMALL))
    for i in range(10):
        step(i, i / 60)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for i in range(10):
            step(i, i / 60)
    finally:
        torch.cuda.set_sync_debug_mode("default")

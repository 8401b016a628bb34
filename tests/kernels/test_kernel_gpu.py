"""The Triton filter: on a card, or through Triton's interpreter on the CPU in a process of its own.

Triton decides when it is imported whether it interprets, so the tests that need it to are skipped here and run again by
``test_through_the_interpreter``.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys

import pytest
import scipy.sparse as sp
import torch
from kernel_cases import LAPLACIANS, coefficients, distance, random_laplacian, signal, twin

from megae.kernels import FilterOperator, functional
from megae.spectral import normalized_laplacian

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed; pip install triton (Linux)"
)
pytestmark = needs_triton
runs_here = pytest.mark.skipif(
    not INTERPRETED and DEVICE == "cpu",
    reason="no card and TRITON_INTERPRET is not 1; test_through_the_interpreter runs it",
)


@pytest.fixture
def gpu():
    from megae.kernels import gpu

    return gpu


def random_with_a_hub(n: int = 40):
    """Degrees from 0 to n - 1."""
    import numpy as np
    import scipy.sparse as sp

    from megae.spectral import normalized_laplacian

    A = np.triu(np.random.default_rng(0).random((n, n)) < 0.05, 1).astype(float)
    A[:, n - 2 :] = 0.0
    A[0, 1 : n - 2] = 1.0
    return sp.csr_array(normalized_laplacian(sp.csr_array(A + A.T)))


def check(gpu, L, M, K, h, dtype=torch.float64) -> None:
    """All three forms against the eigendecomposition; arrays nobody has written to hold NaN."""
    operator = FilterOperator.from_laplacian(L, dtype, DEVICE)
    C = coefficients(M, K)
    weights = torch.from_numpy(C).to(DEVICE, dtype)
    Z, x = signal(L.shape[0], M, h, dtype), signal(L.shape[0], 1, h, dtype, seed=1)
    exact = twin(L, Z, C)
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(3).isnan().all()
        by_band = gpu.bandwise(operator, Z.to(DEVICE), weights).cpu()
        spread = gpu.expand(operator, x.to(DEVICE), weights).cpu()
        summed = gpu.contract(operator, Z.to(DEVICE), weights).cpu()
    finally:
        torch.use_deterministic_algorithms(False)
    assert distance(by_band, exact) < TOLERANCE[dtype]
    assert distance(spread, twin(L, x, C)) < TOLERANCE[dtype]
    assert distance(summed, exact.sum(axis=1, keepdims=True)) < TOLERANCE[dtype]


@runs_here
@pytest.mark.parametrize(("M", "K", "h"), [(3, 5, 4), (2, 0, 3), (4, 1, 5), (1, 2, 2), (2, 3, 9), (2, 4, 1)])
@pytest.mark.parametrize("name", ["isolated", "no edges", "one node", "two nodes"])
def test_three_forms_against_the_eigendecomposition(gpu, name, M, K, h):
    check(gpu, LAPLACIANS[name], M, K, h)


@runs_here
def test_three_forms_in_single_precision(gpu):
    check(gpu, LAPLACIANS["random"], 3, 5, 6, torch.float32)


@runs_here
@pytest.mark.parametrize("sort_from", [0, 1 << 16], ids=["sorted", "in order"])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"rows": 1, "neighbours": 32, "warps": 1},
        {"rows": 8, "neighbours": 2, "row_bytes": 32},
        {"rows": 16, "row_bytes": 32, "resident": 0},
        {"rows": 64, "neighbours": 8, "row_bytes": 128, "warps": 4},
    ],
    ids=str,
)
def test_any_tile_and_any_order_of_rows(gpu, monkeypatch, shape, sort_from):
    monkeypatch.setattr(gpu, "SORT_FROM", sort_from)
    token = gpu.tile.set(gpu.Tile(**shape))
    try:
        check(gpu, random_with_a_hub(), 2, 3, 5)
    finally:
        gpu.tile.reset(token)


@runs_here
def test_hubs_go_first_and_all_other_rows_stay_in_order(gpu):
    operator = FilterOperator.from_laplacian(random_laplacian(19), device=DEVICE)
    assert gpu._order(operator).tolist() == list(range(19))
    n, hubs = 400, [399, 7]  # 399 has more neighbours
    A = sp.lil_array((n, n))
    for hub, last in zip(hubs, (300, 100), strict=True):
        A[hub, 10:last] = A[10:last, hub] = 1.0
    operator = FilterOperator.from_laplacian(normalized_laplacian(sp.csr_array(A)), device=DEVICE)
    assert gpu._order(operator).tolist() == [*hubs, *(i for i in range(n) if i not in hubs)]
    assert gpu._order(operator) is gpu._order(operator)


@runs_here
def test_strided_input_is_read_right_and_left_as_it_was(gpu):
    L, C = random_laplacian(19), coefficients(3, 4)
    operator, weights = FilterOperator.from_laplacian(L, torch.float64, DEVICE), torch.from_numpy(C).to(DEVICE)
    Z = signal(4, 3, 19).to(DEVICE).transpose(0, 2)
    x = signal(19, 2, 8).to(DEVICE)[:, :1, ::2]
    before = Z.clone(), x.clone(), operator.values.clone()
    assert distance(gpu.bandwise(operator, Z, weights).cpu(), twin(L, Z.cpu(), C)) < 1e-12
    assert distance(gpu.expand(operator, x, weights).cpu(), twin(L, x.cpu(), C)) < 1e-12
    summed = twin(L, Z.cpu(), C).sum(axis=1, keepdims=True)
    assert distance(gpu.contract(operator, Z, weights).cpu(), summed) < 1e-12
    assert all(torch.equal(a, b) for a, b in zip(before, (Z, x, operator.values), strict=True))


@runs_here
def test_no_columns_at_all(gpu):
    operator = FilterOperator.from_laplacian(random_laplacian(5), device=DEVICE)
    C = torch.ones(3, 2, device=DEVICE)
    assert gpu.bandwise(operator, torch.zeros(5, 3, 0, device=DEVICE), C).shape == (5, 3, 0)
    assert gpu.expand(operator, torch.zeros(5, 1, 0, device=DEVICE), C).shape == (5, 3, 0)
    assert gpu.contract(operator, torch.zeros(5, 3, 0, device=DEVICE), C).shape == (5, 1, 0)


@runs_here
def test_gradients(gpu):
    L, C = random_laplacian(5, p=0.6), torch.from_numpy(coefficients(2, 3)).to(DEVICE)
    operator = FilterOperator.from_laplacian(L, torch.float64, DEVICE)
    Z, x = signal(5, 2, 1).to(DEVICE).requires_grad_(), signal(5, 1, 1).to(DEVICE).requires_grad_()
    for function, z in ((functional._Bandwise, Z), (functional._Expand, x), (functional._Contract, Z)):
        assert torch.autograd.gradcheck(lambda v, f=function: f.apply(v, operator, C, gpu), (z,))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(INTERPRETED, reason="this is the process that it starts")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the tests above run on the card itself")
def test_through_the_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", __file__]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, env=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= 35, done.stdout[-1000:]


POINTERS = ("indptr", "indices", "values", "order", "current", "previous", "out", "Z", "Y", "weights")
ALIGNED = {*POINTERS, "width", "stride", "band_step", "Z_row", "out_row", "h"}


@pytest.mark.skipif(INTERPRETED, reason="what is interpreted is not compiled")
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_compiles_for_hopper_with_gathers_of_16_bytes(gpu, monkeypatch, tmp_path, dtype):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    shared = {"SUBTRACT": True, "SORTED": True, "BANDS": 6}
    shared |= {"ROWS": 1, "NEIGHBOURS": 4, "COLUMNS": 256 if dtype == "fp32" else 128}
    for kernel, own in (
        (gpu.clenshaw_step, {"GATHER": True, "LAST": False}),
        (gpu.expand_step, {"TERMS": 3, "FIRST": False}),
    ):
        constants = {**shared, **own}
        names = kernel.arg_names
        kinds = {**dict.fromkeys(names, "i32"), **dict.fromkeys(POINTERS, f"*{dtype}"), "scale": "fp32"}
        kinds |= dict.fromkeys(("indptr", "indices", "order"), "*i32") | dict.fromkeys(constants, "constexpr")
        source = ASTSource(
            kernel,
            {name: kinds[name] for name in names},
            {(names.index(name),): value for name, value in constants.items()},
            {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in ALIGNED},
        )
        ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
        gathers = re.findall(r"ld\.global\.L1::evict_last\S*", ptx)
        assert gathers
        assert all(g.endswith("v4.b32" if dtype == "fp32" else "v2.b64") for g in gathers), gathers

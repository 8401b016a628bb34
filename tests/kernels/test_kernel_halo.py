"""A graph filtered in parts against the graph filtered whole."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kernel_cases import LAPLACIANS, coefficients, distance, random_laplacian, signal, twin
from torch.utils._python_dispatch import TorchDispatchMode

from megae.kernels import FilterOperator, apply, apply_adjoint, halo_cpu, use_backend
from megae.kernels.halo import PartitionedOperator
from megae.kernels.partition import partition_nodes

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def disconnected() -> sp.csr_array:
    """Three components of 9, 9 and 5 nodes, and two nodes without edges."""
    blocks = [random_laplacian(9, seed=2), random_laplacian(9, seed=3), random_laplacian(5, seed=4), sp.eye_array(2)]
    return sp.csr_array(sp.block_diag(blocks, format="csr"))


GRAPHS = {**LAPLACIANS, "disconnected": disconnected(), "larger": random_laplacian(150, seed=5, isolated=6, p=0.03)}


def owners(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    return {
        "one part": np.zeros(n, np.int64),
        "two runs": np.arange(n) * 2 // n,
        "at random": rng.integers(0, 4, n),
        "an empty part": 2 * (np.arange(n) % 2),
        "a node a part": rng.permutation(n),
    }


@pytest.fixture(params=["numba", "torch"])
def backend(request):
    with use_backend(request.param):
        yield request.param


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float32", "float64"])
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("K", [0, 1, 8])
def test_parts_agree_with_the_whole(dtype, name, K):
    L, C = GRAPHS[name], coefficients(3, K)
    whole, weights = FilterOperator.from_laplacian(L, dtype), torch.from_numpy(C).to(dtype)
    Z, x = signal(whole.n, 3, 4, dtype), signal(whole.n, 1, 5, dtype, seed=1)
    exact, shared = twin(L, Z, C), twin(L, x, C)
    for owner in owners(whole.n).values():
        parts = PartitionedOperator.from_operator(whole, owner)
        assert (parts.n, parts.has_edges, parts.dtype) == (whole.n, whole.has_edges, dtype)
        assert distance(apply(parts, Z, C), exact) < TOLERANCE[dtype]
        assert distance(apply(parts, x, C), shared) < TOLERANCE[dtype]
        assert distance(apply_adjoint(parts, Z, C), exact.sum(axis=1, keepdims=True)) < TOLERANCE[dtype]
        assert distance(parts.bandwise(Z, weights), apply(whole, Z, C).double().numpy()) < TOLERANCE[dtype]


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", ["isolated", "disconnected"])
def test_gradients_of_first_and_second_order(name):
    L, C = GRAPHS[name], coefficients(2, 4)
    n = L.shape[0]
    owner = np.random.default_rng(0).integers(0, 3, n)
    parts = PartitionedOperator.from_operator(FilterOperator.from_laplacian(L, torch.float64), owner)
    Z, x = signal(n, 2, 1).requires_grad_(), signal(n, 1, 2).requires_grad_()
    for function, z in ((apply, Z), (apply, x), (apply_adjoint, Z)):
        assert torch.autograd.gradcheck(lambda v, f=function: f(parts, v, C), (z,))
        assert torch.autograd.gradgradcheck(lambda v, f=function: f(parts, v, C).square().sum(), (z,))


def test_gradients_agree_with_the_whole():
    L, C = GRAPHS["larger"], coefficients(3, 7)
    whole = FilterOperator.from_laplacian(L, torch.float32)
    parts = PartitionedOperator.from_operator(whole, partition_nodes(whole, 4, "bfs"))
    for function, bands in ((apply, 3), (apply, 1), (apply_adjoint, 3)):
        Z = signal(whole.n, bands, 6, torch.float32).requires_grad_()
        ours, theirs = (torch.autograd.grad(function(A, Z, C).pow(3).sum(), Z)[0] for A in (parts, whole))
        assert distance(ours, theirs.double().numpy()) < 1e-5


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("columns", [1, 4, 7, 1000])
def test_columns_in_blocks_change_nothing(columns):
    L, C = GRAPHS["isolated"], coefficients(3, 5)
    whole = FilterOperator.from_laplacian(L, torch.float64)
    parts = PartitionedOperator.from_operator(whole, np.arange(whole.n) % 3, columns=columns)
    Z, x = signal(whole.n, 3, 5), signal(whole.n, 1, 9)
    assert distance(apply(parts, Z, C), twin(L, Z, C)) < 1e-12
    assert distance(apply(parts, x, C), twin(L, x, C)) < 1e-12
    assert distance(apply_adjoint(parts, Z, C), twin(L, Z, C).sum(axis=1, keepdims=True)) < 1e-12
    assert apply(parts, torch.zeros(whole.n, 3, 0, dtype=torch.float64), C).shape == (whole.n, 3, 0)


def test_strided_input_is_read_right_and_left_as_it_was():
    L, C = random_laplacian(19), coefficients(3, 6)
    parts = PartitionedOperator.from_operator(FilterOperator.from_laplacian(L, torch.float64), np.arange(19) % 2)
    Z, x = signal(4, 3, 19).transpose(0, 2), signal(19, 2, 8)[:, :1, ::2]
    before = Z.clone(), x.clone()
    assert distance(apply(parts, Z, C), twin(L, Z.contiguous(), C)) < 1e-12
    assert distance(apply(parts, x, C), twin(L, x.contiguous(), C)) < 1e-12
    assert torch.equal(Z, before[0])
    assert torch.equal(x, before[1])


def test_own_and_halo_rows_are_those_of_the_graph():
    L = GRAPHS["larger"]
    whole, owner = FilterOperator.from_laplacian(L), np.random.default_rng(3).integers(0, 4, L.shape[0])
    S = (L - sp.eye_array(L.shape[0])).toarray() != 0
    parts = PartitionedOperator.from_operator(whole, owner)
    expected = []
    for p in range(4):
        reached = S[owner == p].any(axis=0)
        expected.append((int((owner == p).sum()), int((reached & (owner != p)).sum())))
    assert parts.sizes == expected
    assert sum(own for own, _ in parts.sizes) == whole.n


def test_components_in_parts_of_their_own_have_no_halo():
    L = disconnected()
    owner = np.repeat([0, 1, 2, 3], [9, 9, 5, 2])
    parts = PartitionedOperator.from_operator(FilterOperator.from_laplacian(L), owner)
    assert parts.sizes == [(9, 0), (9, 0), (5, 0), (2, 0)]


class Allocations(TorchDispatchMode):
    """Shapes of the tensors that operations create rather than view or write into."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        known = {t.untyped_storage().data_ptr() for t in (*args, *(kwargs or {}).values()) if torch.is_tensor(t)}
        if torch.is_tensor(out) and out.untyped_storage().data_ptr() not in known:
            self.shapes.append(tuple(out.shape))
        return out


@pytest.mark.parametrize("form", ["bandwise", "expand", "contract"])
def test_a_part_holds_its_own_and_halo_rows_alone_and_as_many_blocks_for_any_degree(form):
    whole = FilterOperator.from_laplacian(GRAPHS["larger"], torch.float64)
    parts = PartitionedOperator.from_operator(whole, partition_nodes(whole, 3, "bfs"), columns=6)
    Z = signal(whole.n, 1 if form == "expand" else 2, 12)
    most = max(own + halo for own, halo in parts.sizes)
    assert most < whole.n

    def made(K: int) -> list[tuple[int, ...]]:
        C = torch.from_numpy(coefficients(2, K))
        with Allocations() as seen:
            getattr(parts, form)(Z, C)
        return [shape for shape in seen.shapes if len(shape) > 1 and shape[0] > K + 1]

    shapes = made(3)
    assert shapes == made(40)
    whole_signals = [shape for shape in shapes if shape[0] == whole.n]
    assert len(whole_signals) == 1  # the result, on the caller's device
    assert max(shape[0] for shape in shapes if shape[0] != whole.n) == most
    assert max(int(np.prod(shape[1:])) for shape in shapes if shape[0] != whole.n) <= 6


def test_threads_share_the_rows_of_a_part_and_change_nothing(monkeypatch):
    C = coefficients(3, 8)
    whole = FilterOperator.from_laplacian(GRAPHS["larger"], torch.float64)
    parts = PartitionedOperator.from_operator(whole, np.repeat([0, 1, 3], [2, 98, 50]))
    Z = signal(whole.n, 3, 4)
    alone = apply(parts, Z, C)
    used, pool = [], halo_cpu._pool
    monkeypatch.setattr(halo_cpu, "SERIAL_WORK", 0)
    monkeypatch.setattr(halo_cpu, "_pool", lambda n: used.append(n) or pool(n))
    for threads in (2, 5):
        monkeypatch.setattr(halo_cpu.torch, "get_num_threads", lambda n=threads: n)
        assert torch.equal(apply(parts, Z, C), alone)
        assert used.pop() == threads


def test_another_precision_and_devices_given_by_name():
    L, C = GRAPHS["random"], coefficients(2, 5)
    owner = np.arange(L.shape[0]) % 2
    placed = PartitionedOperator.from_operator(FilterOperator.from_laplacian(L), owner, ["cpu", "cpu", "cpu"])
    assert placed.sizes[2] == (0, 0)
    assert placed.dtype == torch.float32
    assert placed.to(dtype=torch.float64).dtype == torch.float64
    Z = signal(L.shape[0], 2, 3)
    # the operator was rounded to float32 before, so only that much agrees
    assert distance(apply(placed, Z, C), twin(L, Z, C)) < 1e-5
    assert apply(placed, Z, C).dtype == torch.float64


@pytest.mark.parametrize(
    ("owner", "keywords", "message"),
    [
        (np.zeros(4, np.int64), {}, r"each of the 5 nodes, got int64 of shape \(4,\)"),
        (np.zeros(5), {}, "got float64"),
        (np.array([0, 1, 2, 0, 0]), {"devices": ["cpu", "cpu"]}, r"0\.\.1 for 2 devices, got 0\.\.2"),
        (np.array([0, -1, 0, 0, 0]), {}, r"got -1\.\.0"),
        (np.zeros(5, np.int64), {"columns": 0}, "columns must be at least 1, got 0"),
    ],
)
def test_wrong_requests_are_refused(owner, keywords, message):
    with pytest.raises(ValueError, match=message):
        PartitionedOperator.from_operator(FilterOperator.from_laplacian(random_laplacian(5)), owner, **keywords)


@pytest.mark.gpu
@pytest.mark.parametrize("home", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "devices", [None, ["cuda", "cuda", "cuda"], ["cuda", "cpu", "cuda"]], ids=["home", "gpu", "both"]
)
def test_parts_on_a_gpu_agree_with_the_whole(home, devices):
    L, C = GRAPHS["larger"], coefficients(3, 8)
    whole = FilterOperator.from_laplacian(L, torch.float64, home)
    parts = PartitionedOperator.from_operator(whole, partition_nodes(whole, 3, "bfs"), devices)
    for function, bands in ((apply, 3), (apply, 1), (apply_adjoint, 3)):
        Z = signal(whole.n, bands, 6).to(home).requires_grad_()
        out = function(parts, Z, C)
        assert out.device == Z.device
        (grad,) = torch.autograd.grad(out.square().sum(), Z)
        z = Z.detach().cpu().requires_grad_()
        expected = function(L, z, C)
        (expected_grad,) = torch.autograd.grad(expected.square().sum(), z)
        assert distance(out.cpu(), expected.detach().numpy()) < 1e-10
        assert distance(grad.cpu(), expected_grad.numpy()) < 1e-10


@pytest.mark.gpu
def test_a_gpu_never_holds_a_whole_signal():
    n, h = 20_000, 64
    A = sp.diags_array([np.full(n - 1, 0.5)] * 2, offsets=[-1, 1], shape=(n, n))
    whole = FilterOperator.from_laplacian(sp.csr_array(sp.eye_array(n) - A))
    owner = np.arange(n) * 8 // n
    parts = PartitionedOperator.from_operator(whole, owner, ["cuda"] + ["cpu"] * 7, columns=32)
    Z = signal(n, 4, h, torch.float32)
    apply(parts, Z, coefficients(4, 12))
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    apply(parts, Z, coefficients(4, 12))
    # an eighth of the rows, an eighth of the columns, in a handful of blocks
    assert torch.cuda.max_memory_allocated() - before < Z.numel() * 4 / 4

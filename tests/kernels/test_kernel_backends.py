"""Both implementations of the filter against the eigendecomposition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kernel_cases import LAPLACIANS, coefficients, distance, random_laplacian, signal, twin

from megae.kernels import FilterOperator, apply, blocks, compiled, cpu, small_graphs, sparse, warm_up
from megae.kernels.dense import chebyshev_response, exact_filter

SEVERAL = [random_laplacian(n, seed=n, p=0.5) for n in (12, 9, 30, 14)]
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}
backends = pytest.mark.parametrize("backend", [cpu, sparse, blocks], ids=["numba", "torch", "dense"])
precisions = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float32", "float64"])
shapes = pytest.mark.parametrize(
    ("M", "K", "h"), [(3, 5, 4), (2, 0, 3), (4, 1, 5), (1, 7, 2), (5, 10, 70), (6, 10, 24), (2, 12, 129)]
)


@backends
@precisions
@shapes
@pytest.mark.parametrize("name", LAPLACIANS)
def test_three_forms_against_the_eigendecomposition(backend, dtype, name, M, K, h):
    L = LAPLACIANS[name]
    operator, C = FilterOperator.from_laplacian(L, dtype), coefficients(M, K)
    weights = torch.from_numpy(C).to(dtype)
    Z, x = signal(L.shape[0], M, h, dtype), signal(L.shape[0], 1, h, dtype, seed=1)
    exact = twin(L, Z, C)
    assert distance(backend.bandwise(operator, Z, weights), exact) < TOLERANCE[dtype]
    assert distance(backend.expand(operator, x, weights), twin(L, x, C)) < TOLERANCE[dtype]
    assert distance(backend.contract(operator, Z, weights), exact.sum(axis=1, keepdims=True)) < TOLERANCE[dtype]


@backends
def test_strided_input_is_read_right(backend):
    L, C = random_laplacian(19), coefficients(3, 6)
    operator, weights = FilterOperator.from_laplacian(L, torch.float64), torch.from_numpy(C)
    Z = signal(4, 3, 19).transpose(0, 2)
    x = signal(19, 2, 8)[:, :1, ::2]
    assert not Z.is_contiguous()
    assert not x.is_contiguous()
    assert distance(backend.bandwise(operator, Z, weights), twin(L, Z.contiguous(), C)) < 1e-12
    assert distance(backend.expand(operator, x, weights), twin(L, x.contiguous(), C)) < 1e-12
    summed = twin(L, Z.contiguous(), C).sum(axis=1, keepdims=True)
    assert distance(backend.contract(operator, Z, weights), summed) < 1e-12


def test_input_is_left_as_it_was():
    operator = FilterOperator.from_laplacian(random_laplacian(12), torch.float64)
    Z, C = signal(12, 2, 3), torch.from_numpy(coefficients(2, 4))
    before = Z.clone(), C.clone(), operator.values.clone()
    for backend in (cpu, sparse, blocks):
        backend.bandwise(operator, Z, C)
        backend.expand(operator, Z[:, :1], C)
        backend.contract(operator, Z, C)
    assert all(torch.equal(a, b) for a, b in zip(before, (Z, C, operator.values), strict=True))


def test_nothing_is_compiled_after_warming_up():
    def signatures() -> dict[str, int]:
        parts = ("bandwise_rows", "expand_rows", "contract_rows"), ("multiply", "_fill")
        modules = compiled, small_graphs
        return {
            name: len(getattr(m, name).signatures) for m, names in zip(modules, parts, strict=True) for name in names
        }

    warm_up("cpu")
    before = signatures()
    assert min(before.values()) > 0
    L, C = random_laplacian(40), torch.from_numpy(coefficients(3, 8)).float()
    for h in (5, 40):
        Z = signal(40, 3, h, torch.float32)
        apply(L, Z.requires_grad_(), C).sum().backward()
        apply(L, Z[:, :1], C).sum().backward()
    assert signatures() == before


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("h", [1, 37, 200])
def test_result_does_not_depend_on_threads(monkeypatch, threads, h):
    L, C = sp.csr_array(sp.block_diag([random_laplacian(40), *SEVERAL])), torch.from_numpy(coefficients(3, 8)).float()
    operator = FilterOperator.from_laplacian(L)
    Z = signal(L.shape[0], 3, h, torch.float32)
    forms = [(cpu.bandwise, Z), (cpu.expand, Z[:, :1]), (cpu.contract, Z)]
    alone = [form(operator, z, C) for form, z in forms]
    used = []
    pool = cpu._pool
    monkeypatch.setattr(cpu, "SERIAL_WORK", 0)
    monkeypatch.setattr(cpu.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(cpu, "_pool", lambda n: used.append(n) or pool(n))
    for (form, z), expected in zip(forms, alone, strict=True):
        assert torch.equal(form(operator, z, C), expected)
    assert set(used) <= {threads}
    assert used or h == 1


@pytest.mark.parametrize("name", ["random", "many graphs"])
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("columns", [1, 2, 63, 64, 65, 129, 1000])
def test_tiles_cover_every_cell_once(monkeypatch, name, threads, columns):
    operator = FilterOperator.from_laplacian(LAPLACIANS[name])
    monkeypatch.setattr(cpu.torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(cpu, "SERIAL_WORK", 0)
    monkeypatch.setattr(cpu, "TILE_ROWS", 2)
    times = np.zeros((operator.n, columns), dtype=int)

    def note(indptr, indices, values, places, bounds, start, stop):
        assert 0 < stop - start <= max(cpu.BLOCK_COLUMNS, cpu.TILE_BYTES // (12 * np.diff(bounds).max()))
        times[bounds[0] : bounds[-1], start:stop] += 1

    cpu._over_tiles(note, operator, np.empty(0, np.int64), columns, 3)
    assert (times == 1).all()


def test_closed_rows_are_those_that_no_edge_leaves():
    L = LAPLACIANS["many graphs"]
    operator = FilterOperator.from_laplacian(L)
    csr = operator.indptr.numpy(), operator.indices.numpy()
    for least in (1, 5, 32):
        bounds = compiled.closed_rows(*csr, least)
        assert bounds[0] == 0
        assert bounds[-1] == operator.n
        assert (np.diff(bounds)[:-1] >= least).all()
        group = np.searchsorted(bounds, np.arange(operator.n), side="right")
        row, column = L.nonzero()
        assert (group[row] == group[column]).all()
    assert compiled.closed_rows(*csr, 1).size > 8


def test_an_asymmetric_pattern_is_one_tile():
    indptr, indices = np.array([0, 0, 0, 1], dtype=np.int32), np.array([0], dtype=np.int32)
    assert compiled.closed_rows(indptr, indices, 1).tolist() == [0, 3]


def test_many_graphs_on_many_threads(monkeypatch):
    L, C = LAPLACIANS["many graphs"], coefficients(3, 8)
    operator, Z = FilterOperator.from_laplacian(L, torch.float64), signal(L.shape[0], 3, 90)
    monkeypatch.setattr(cpu, "SERIAL_WORK", 0)
    monkeypatch.setattr(cpu, "TILE_ROWS", 3)
    monkeypatch.setattr(cpu.torch, "get_num_threads", lambda: 2)
    weights = torch.from_numpy(C)
    assert distance(cpu.bandwise(operator, Z, weights), twin(L, Z, C)) < 1e-12
    assert distance(cpu.expand(operator, Z[:, :1], weights), twin(L, Z[:, :1], C)) < 1e-12
    assert distance(cpu.contract(operator, Z, weights), twin(L, Z, C).sum(axis=1, keepdims=True)) < 1e-12


def test_dense_twin_on_a_graph_done_by_hand():
    L = np.array([[1.0, -1.0], [-1.0, 1.0]])
    Z = np.array([[[2.0]], [[0.0]]])
    # eigenvalues 0 (constant) and 2 (alternating): the projections of Z are (1, 1) and (1, -1)
    out = exact_filter(L, Z, lambda e: np.stack([1.0 * (e < 1), 1.0 * (e > 1)]))
    assert np.allclose(out[:, 0, 0], [1, 1])
    assert np.allclose(out[:, 1, 0], [1, -1])
    C = np.array([[0.5, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    l = np.array([0.0, 0.5, 2.0])
    assert np.allclose(chebyshev_response(C, l), [[0.5] * 3, l - 1, 2 * (l - 1) ** 2 - 1])

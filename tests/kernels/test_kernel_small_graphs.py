"""Dense products of small graphs on CPU: which graphs take them, what is kept, and mixtures with large ones."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kernel_cases import LAPLACIANS, coefficients, distance, random_laplacian, signal, twin

from megae.kernels import FilterOperator, blocks, cpu, panel
from megae.kernels import small_graphs as module
from megae.spectral import normalized_laplacian

LANES = {np.float32: panel.VECTOR_BYTES // 4, np.float64: panel.VECTOR_BYTES // 8}


def ring(n: int) -> sp.csr_array:
    return sp.csr_array(
        normalized_laplacian(sp.csr_array(np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)))
    )


def mixture() -> sp.csr_array:
    """Rings too long to be worth a dense matrix between small graphs and lone nodes."""
    small = [random_laplacian(n, seed=n, p=0.9) for n in (9, 15, 7, 16, 13, 8, 12, 16)]
    lone = sp.csr_array(sp.eye_array(2))
    return sp.csr_array(sp.block_diag([*small[:2], ring(97), lone, *small[2:], ring(6)]))


def made(L: sp.csr_array, C: np.ndarray, h: int, dtype: torch.dtype = torch.float64) -> module.SmallGraphs | None:
    operator = FilterOperator.from_laplacian(L, dtype)
    return module.small_graphs(operator, torch.from_numpy(C).to(dtype).numpy(), h)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("h", [16, 17, 24, 64, 70, 131])
def test_a_mixture_is_filtered_as_its_eigendecomposition_says(dtype, h):
    L, C = mixture(), coefficients(3, 6)
    operator, weights = FilterOperator.from_laplacian(L, dtype), torch.from_numpy(C).to(dtype)
    small = module.small_graphs(operator, weights.numpy(), h)
    assert small is not None
    assert small.rest is not None
    assert small.rest.n == 97
    Z, x = signal(L.shape[0], 3, h, dtype), signal(L.shape[0], 1, h, dtype, seed=1)
    limit = 2e-5 if dtype == torch.float32 else 1e-12
    exact = twin(L, Z, C)
    assert distance(cpu.bandwise(operator, Z, weights), exact) < limit
    assert distance(cpu.expand(operator, x, weights), twin(L, x, C)) < limit
    assert distance(cpu.contract(operator, Z, weights), exact.sum(axis=1, keepdims=True)) < limit


@pytest.mark.parametrize("n", range(1, 20))
def test_every_number_of_rows(n):
    L, C = random_laplacian(n, seed=n, p=0.9), coefficients(2, 30)
    operator, weights = FilterOperator.from_laplacian(L, torch.float64), torch.from_numpy(C)
    Z = signal(n, 2, 41)
    assert made(L, C, 41) is not None
    assert distance(cpu.bandwise(operator, Z, weights), twin(L, Z, C)) < 1e-11


def test_neighbours_in_memory_are_left_alone():
    """The last rows and columns are done twice: not one cell beyond the graph or the band may change."""
    L, C, h = random_laplacian(13, p=0.9), coefficients(2, 9), 27
    small = made(L, C, h)
    Y = np.full((13, 2 * h + 5), 7.0)
    Z = np.random.default_rng(0).standard_normal((13, 2 * h))
    module.multiply(small.spans, small.starts, small.matrices, 0, 1, Z, h, 0, Y, h, 2, 1, h)
    assert (Y[:, 2 * h :] == 7.0).all()
    expected = twin(L, torch.from_numpy(Z).view(13, 2, h), C)
    assert np.allclose(Y[:, : 2 * h].reshape(13, 2, h), expected, atol=1e-12)


def test_a_graph_is_dense_where_its_matrix_is_no_larger_than_twice_its_signal():
    C = coefficients(3, 10)
    assert made(ring(50), C, 24) is None
    assert made(ring(50), C, 25).spans.tolist() == [[0, 50]]
    assert made(ring(module.LARGEST + 1), C, 500) is None
    assert made(ring(50), coefficients(3, module.LEAST_STEPS - 1), 50) is None


def test_which_graphs_are_dense_does_not_depend_on_the_degree():
    """Nor does the memory of the filter, then."""
    few, many = (made(mixture(), coefficients(3, K), 16) for K in (5, 40))
    assert few.spans.tolist() == many.spans.tolist()
    assert few.matrices.nbytes == many.matrices.nbytes <= 2 * mixture().shape[0] * 3 * 16 * 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_narrower_than_a_vector_go_by_the_recurrence(dtype):
    C = coefficients(9, 10)
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    triangles = sp.csr_array(sp.block_diag([random_laplacian(3, p=0.9)] * 4))
    assert made(triangles, C, LANES[dtype] - 1, kind) is None
    assert made(triangles, C, LANES[dtype], kind) is not None


def test_matrices_are_made_once_for_the_same_coefficients(monkeypatch):
    calls = []
    inner = module._made
    monkeypatch.setattr(module, "_made", lambda *args: calls.append(args) or inner(*args))
    L = LAPLACIANS["many graphs"]
    operator, Z = FilterOperator.from_laplacian(L, torch.float64), signal(L.shape[0], 3, 32)
    several = [torch.from_numpy(coefficients(3, 5, seed)) for seed in range(module.KEPT + 1)]
    for weights in several[:-1]:
        for _ in range(2):
            cpu.bandwise(operator, Z, weights.clone())
    assert len(calls) == module.KEPT
    cpu.bandwise(operator, Z, several[-1])
    assert len(module._kept[operator]) == module.KEPT
    assert distance(cpu.bandwise(operator, Z, several[0]), twin(L, Z, several[0].numpy())) < 1e-12
    kept = len(module._kept)
    calls.clear()  # they hold the operator
    del operator
    gc.collect()
    assert len(module._kept) == kept - 1


@pytest.mark.parametrize("backend", [cpu, blocks], ids=["numba", "dense"])
def test_what_another_thread_lets_go_of_is_still_used(backend):
    """Threads that filter one operator with more sets of coefficients than are kept take them from each other."""

    class Taken(dict):
        def __setitem__(self, key: object, value: object) -> None:
            """Gone at once."""

    L, C = LAPLACIANS["many graphs"], coefficients(3, 6)
    operator, Z = FilterOperator.from_laplacian(L, torch.float64), signal(L.shape[0], 3, 16)
    (module._kept if backend is cpu else blocks._prepared)[operator] = Taken()
    assert distance(backend.bandwise(operator, Z, torch.from_numpy(C)), twin(L, Z, C)) < 1e-12


def test_one_large_graph_with_lone_nodes_is_not_taken_apart():
    lone = sp.csr_array(sp.eye_array(40))
    assert made(sp.csr_array(sp.block_diag([ring(100), lone])), coefficients(3, 10), 64) is None


def test_shares_cover_every_graph_once():
    small = made(LAPLACIANS["many graphs"], coefficients(3, 10), 64)
    for count in (1, 2, 3, 50):
        shares = small.shares(count)
        assert [a for a, _ in shares] == [0, *(b for _, b in shares[:-1])]
        assert shares[-1][1] == small.spans.shape[0]

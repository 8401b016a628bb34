from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from spectral_cases import KINDS, make_graph

from megae.spectral import laplacian, normalized_laplacian, symmetrized_adjacency

TRIANGLE_AND_TAIL = np.array([[0, 1, 2, 0], [1, 0, 1, 0], [2, 1, 0, 3], [0, 0, 3, 0]], dtype=float)


def dense_twin(A: np.ndarray) -> np.ndarray:
    A = np.maximum(A, A.T).astype(float)
    np.fill_diagonal(A, 0.0)
    L = np.eye(len(A))
    for i in range(len(A)):
        for j in range(len(A)):
            if A[i, j]:
                L[i, j] -= A[i, j] / np.sqrt(A[i].sum() * A[j].sum())
    return L


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(KINDS), st.integers(1, 20), st.integers(0, 10**6))
def test_formula_symmetry_and_spectrum(kind: str, n: int, seed: int) -> None:
    A = make_graph(kind, n, seed)
    L = normalized_laplacian(sp.csr_array(A))
    assert L.dtype == np.float64
    assert L.has_sorted_indices
    np.testing.assert_allclose(L.toarray(), dense_twin(A), atol=1e-14)
    np.testing.assert_array_equal(L.toarray(), L.toarray().T)
    np.testing.assert_array_equal(L.diagonal(), 1.0)
    eigenvalues = np.linalg.eigvalsh(L.toarray())
    assert eigenvalues.min() > -1e-12
    assert eigenvalues.max() < 2 + 1e-12


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_every_sparse_format(form: str, container: type) -> None:
    L = normalized_laplacian(container(TRIANGLE_AND_TAIL).asformat(form))
    np.testing.assert_allclose(L.toarray(), dense_twin(TRIANGLE_AND_TAIL), atol=1e-15)


def test_all_containers_agree() -> None:
    rows, cols = np.nonzero(TRIANGLE_AND_TAIL)
    weights = TRIANGLE_AND_TAIL[rows, cols]
    edge_index = np.stack([rows, cols])
    expected = TRIANGLE_AND_TAIL
    for adjacency in (
        symmetrized_adjacency(TRIANGLE_AND_TAIL),
        symmetrized_adjacency(TRIANGLE_AND_TAIL.tolist()),
        symmetrized_adjacency(nx.from_numpy_array(TRIANGLE_AND_TAIL)),
        symmetrized_adjacency(nx.from_numpy_array(TRIANGLE_AND_TAIL, create_using=nx.DiGraph)),
        symmetrized_adjacency(edge_index, edge_weight=weights),
        symmetrized_adjacency(torch.from_numpy(edge_index), edge_weight=torch.from_numpy(weights), num_nodes=4),
    ):
        np.testing.assert_array_equal(adjacency.toarray(), expected)
        assert adjacency.has_canonical_format


def test_directed_edges_take_the_larger_weight() -> None:
    A = np.array([[0, 5, 0], [2, 0, 0], [0, 7, 0]], dtype=float)
    np.testing.assert_array_equal(symmetrized_adjacency(A).toarray(), [[0, 5, 0], [5, 0, 7], [0, 7, 0]])


def test_duplicates_count_once_with_the_largest_weight() -> None:
    coo = sp.coo_array((np.array([1.0, 4.0, 2.0, 1.0]), ([0, 0, 1, 1], [1, 1, 0, 2])), shape=(3, 3))
    expected = [[0, 4, 0], [4, 0, 1], [0, 1, 0]]
    np.testing.assert_array_equal(symmetrized_adjacency(coo).toarray(), expected)
    assert coo.nnz == 4, "the input is left as it was"
    unsummed = sp.csr_array((np.array([1.0, 4.0, 1.0]), np.array([1, 1, 2]), np.array([0, 2, 3, 3])), shape=(3, 3))
    np.testing.assert_array_equal(symmetrized_adjacency(unsummed).toarray(), expected)
    edge_index = np.array([[0, 0, 1, 1], [1, 1, 0, 2]])
    np.testing.assert_array_equal(symmetrized_adjacency(edge_index, edge_weight=[1, 4, 2, 1]).toarray(), expected)
    multigraph = nx.MultiGraph()
    multigraph.add_nodes_from("abc")
    multigraph.add_weighted_edges_from([("a", "b", 1.0), ("a", "b", 4.0), ("b", "c", 1.0)])
    np.testing.assert_array_equal(symmetrized_adjacency(multigraph).toarray(), expected)


def test_self_loops_and_stored_zeros_are_dropped() -> None:
    coo = sp.coo_array((np.array([9.0, 0.0, 1.0]), ([0, 0, 1], [0, 2, 2])), shape=(3, 3))
    adjacency = symmetrized_adjacency(coo)
    assert adjacency.nnz == 2
    np.testing.assert_array_equal(adjacency.toarray(), [[0, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_isolated_nodes_have_eigenvalue_one() -> None:
    L = normalized_laplacian(np.array([[0, 2], [1, 2]]), num_nodes=5)
    np.testing.assert_array_equal(L.toarray()[[0, 3, 4]][:, [0, 3, 4]], np.eye(3))
    np.testing.assert_allclose(np.linalg.eigvalsh(L.toarray()), [0, 1, 1, 1, 2], atol=1e-15)


def test_no_edges_and_no_nodes() -> None:
    np.testing.assert_array_equal(normalized_laplacian(sp.csr_array((3, 3))).toarray(), np.eye(3))
    assert normalized_laplacian(np.zeros((0, 0))).shape == (0, 0)
    assert normalized_laplacian(np.zeros((2, 0), dtype=int), num_nodes=4).shape == (4, 4)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(KINDS), st.integers(1, 20), st.integers(0, 10**6))
def test_a_clean_matrix_is_taken_as_it_is_and_any_other_is_not(kind: str, n: int, seed: int) -> None:
    adjacency = symmetrized_adjacency(make_graph(kind, n, seed))
    assert laplacian._is_clean(adjacency)
    again = symmetrized_adjacency(adjacency)
    np.testing.assert_array_equal(again.toarray(), adjacency.toarray())
    again.data[:] = 0
    assert (adjacency.data > 0).all(), "a copy"
    if adjacency.nnz:
        row, column = adjacency.nonzero()[0][0], adjacency.nonzero()[1][0]
        for entry, place in ((7.5, (row, column)), (1.0, (row, row)), (0.0, (row, column)), (-1.0, (row, column))):
            spoiled = adjacency.tolil()
            spoiled[place] = entry
            assert not laplacian._is_clean(spoiled.tocsr())
        stored = adjacency.copy()
        stored.data[0] = 0.0
        assert not laplacian._is_clean(stored)


def test_two_by_two_array_is_an_adjacency_unless_said_otherwise() -> None:
    square = np.array([[0, 1], [1, 2]])
    np.testing.assert_array_equal(symmetrized_adjacency(square).toarray(), [[0, 1], [1, 0]])
    assert symmetrized_adjacency(square, num_nodes=3).nnz == 4


def test_extreme_weights() -> None:
    tiny = normalized_laplacian(np.array([[0, 5e-324], [5e-324, 0]]))
    np.testing.assert_array_equal(tiny.toarray(), [[1, -1], [-1, 1]])
    with pytest.raises(ValueError, match="divide all weights"):
        normalized_laplacian(np.array([[0, 1e308, 1e308], [1e308, 0, 0], [1e308, 0, 0]]))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, -np.inf])
def test_bad_weights_are_refused_by_name(weight: float) -> None:
    A = np.zeros((3, 3))
    A[1, 2] = weight
    for graph in (A, sp.csr_array(A), sp.coo_array(A), nx.from_numpy_array(A, create_using=nx.DiGraph)):
        with pytest.raises(ValueError, match=r"edge \(1, 2\) has weight"):
            normalized_laplacian(graph)


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (np.zeros((3, 4)), {}, "square"),
        (sp.csr_array((3, 4)), {}, "square"),
        (np.zeros((2, 5)), {}, "integer node numbers"),
        (np.array([[0, 1, 2], [1, 2, 3]]), {"num_nodes": 3}, "names node 3"),
        (np.array([[0, -1, 2], [1, 2, 3]]), {}, "names node -1"),
        (np.array([[0, 1, 2], [1, 2, 3]]), {"edge_weight": [1.0]}, "1 weights for 3 edges"),
        (np.eye(3), {"num_nodes": 3}, "belong to an edge_index"),
        (np.eye(3) * 1j, {}, "complex"),
        (np.array([["a", "b"], ["c", "d"]]), {}, "must be numbers"),
    ],
)
def test_bad_graphs_are_refused(graph: object, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        symmetrized_adjacency(graph, **options)

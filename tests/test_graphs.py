"""Graphs in every form a user may hold, against one reference matrix."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, InMemoryDataset

from megae.graphs import (
    adjacency,
    collate,
    data_weights,
    is_graph_collection,
    knn_adjacency,
    laplacian,
    to_adjacency,
    to_data,
)

EDGES = [(0, 1, 2.0), (1, 2, 3.0), (4, 2, 0.5)]
EXPECTED = np.zeros((5, 5))
for u, v, w in EDGES:
    EXPECTED[u, v] = EXPECTED[v, u] = w
ENDS = np.array([(u, v) for u, v, _ in EDGES]).T
WEIGHTS = np.array([w for _, _, w in EDGES])


def frame(**extra: object) -> pd.DataFrame:
    return pd.DataFrame({"u": ENDS[0], "v": ENDS[1], "weight": WEIGHTS, **extra})


WEIGHTED = {
    "csr": sp.csr_array(EXPECTED),
    "coo, one direction": sp.coo_array((WEIGHTS, tuple(ENDS)), shape=(5, 5)),
    "coo, duplicates of smaller weight": sp.coo_array(
        (np.r_[WEIGHTS, WEIGHTS / 4], tuple(np.hstack([ENDS, ENDS]))), shape=(5, 5)
    ),
    "two directions of other weight": sp.csr_array(np.triu(EXPECTED) + np.tril(EXPECTED) / 2),
    "self-loops": sp.csr_array(EXPECTED + np.diag([9.0, 0, 9, 0, 9])),
    "dense": EXPECTED,
    "list of lists": EXPECTED.tolist(),
    "tensor": torch.from_numpy(EXPECTED),
    "edge table": frame(),
    "edge table, weight not last": frame(note="x")[["weight", "u", "v", "note"]],
    "edge table, third column": frame().rename(columns={"weight": "strength"}),
    "edge table, nullable": frame().convert_dtypes(),
    "Data.edge_weight": Data(edge_index=torch.from_numpy(ENDS), edge_weight=torch.from_numpy(WEIGHTS)),
    "Data.edge_attr": Data(edge_index=torch.from_numpy(ENDS), edge_attr=torch.from_numpy(WEIGHTS)),
    "Data.edge_attr (E, 1)": Data(edge_index=torch.from_numpy(ENDS), edge_attr=torch.from_numpy(WEIGHTS)[:, None]),
}


@pytest.mark.parametrize("form", WEIGHTED)
def test_weighted_forms(form):
    A = adjacency(WEIGHTED[form], 5)
    assert isinstance(A, sp.csr_array)
    assert A.dtype == np.float64
    np.testing.assert_array_equal(A.toarray(), EXPECTED)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_networkx(kind):
    G = kind()
    G.add_nodes_from([3, 1, 0])
    G.add_weighted_edges_from(EDGES)
    if G.is_multigraph():
        G.add_weighted_edges_from([(1, 0, 1.5)])
    np.testing.assert_array_equal(adjacency(G, 5).toarray(), EXPECTED)


def test_networkx_without_weights_counts_one():
    np.testing.assert_array_equal(adjacency(nx.path_graph(3), 3).toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_networkx_matches_labels_then_positions_then_order():
    G = nx.Graph([("a", "c")])
    by_label = adjacency(G, 3, labels=["c", "b", "a"]).toarray()
    assert by_label[0, 2] == 1
    assert by_label.sum() == 2
    assert adjacency(nx.Graph([(0, 2)]), 3, labels=["c", "b", "a"])[0, 2] == 1
    assert adjacency(nx.path_graph(["x", "y", "z"]), 3)[0, 1] == 1
    assert adjacency(nx.Graph([(5, 7)]), 3, labels=[7, 6, 5])[0, 2] == 1


@pytest.mark.parametrize(("nodes", "labels"), [((0, 2), ["0", "1", "2"]), (("0", "2"), [0, 1, 2])])
def test_networkx_whose_nodes_are_labels_of_another_type_is_refused_not_matched_by_position(nodes, labels):
    with pytest.raises(ValueError, match="give both the same type"):
        adjacency(nx.Graph([nodes]), 3, labels=labels)


@pytest.mark.parametrize(
    "table",
    [
        {"index": [0, 1], "source": [2, 3], "target": [4, 1]},
        {"edge_id": ["x", "y"], "target": [4, 1], "source": [2, 3]},
        {"strength": [8.0, 9.0], "From": [2, 3], "To": [4, 1]},
    ],
)
def test_an_edge_table_goes_by_the_names_of_its_endpoints(table):
    A = adjacency(pd.DataFrame(table), 5).toarray()
    assert A[2, 4] == A[3, 1] == 1
    assert A.sum() == 4


def test_a_weight_that_is_not_named_so_is_told():
    table = pd.DataFrame({"a": [0], "b": [1], "dose": [2.5]})
    with pytest.warns(UserWarning, match="column 'dose' is read as their weight"):
        assert adjacency(table, 2)[0, 1] == 2.5


def test_networkx_with_some_nodes_named_otherwise_is_refused_not_guessed():
    G = nx.path_graph(4)
    with pytest.raises(ValueError, match="node 3 is not a row of X; name the nodes"):
        adjacency(G, 4, labels=[0, 1, 2, 4])
    kept = adjacency(G, 4, labels=[0, 1, 2, 4], unknown_nodes="drop").toarray()
    np.testing.assert_array_equal(kept, np.diag([1, 1, 0], 1) + np.diag([1, 1, 0], -1))


def test_networkx_with_no_node_known_is_refused_even_when_dropping():
    with pytest.raises(ValueError, match="is not a row of X"):
        adjacency(nx.Graph([("x", "y")]), 5, labels=list("abcde"), unknown_nodes="drop")


def test_empty_graphs():
    for empty in (nx.Graph(), nx.empty_graph(3), np.empty((2, 0)), torch.empty((2, 0), dtype=torch.long)):
        A = adjacency(empty, 3)
        assert A.shape == (3, 3)
        assert A.nnz == 0
    assert adjacency(pd.DataFrame({"u": [], "v": []}), 3).nnz == 0
    assert adjacency(sp.csr_array(np.zeros((3, 3))), 3).nnz == 0


def test_zero_weight_is_no_edge():
    A = adjacency(pd.DataFrame({"u": [0, 1], "v": [1, 2], "weight": [0.0, 1.0]}), 3)
    assert A.nnz == 2


def test_edge_index_of_two_edges():
    np.testing.assert_array_equal(adjacency(np.array([[0, 1], [2, 2]]), 3).toarray(), [[0, 0, 1], [0, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_bad_weights_are_refused(weight):
    bad = frame()
    bad.loc[1, "weight"] = weight
    for graph in (bad, bad.convert_dtypes(), sp.coo_array((bad["weight"], tuple(ENDS)), shape=(5, 5))):
        with pytest.raises(ValueError, match=r"edge \(1, 2\) has weight .*; weights must be finite and at least 0"):
            adjacency(graph, 5)


def test_repeated_labels_are_refused():
    for graph in (pd.DataFrame({"u": ["a"], "v": ["b"]}), nx.Graph([("a", "b")])):
        with pytest.raises(ValueError, match=r"repeated labels.*make it unique"):
            adjacency(graph, 3, labels=["a", "b", "a"])


def test_unknown_nodes():
    edges = pd.DataFrame({"u": ["a", "a"], "v": ["b", "z"]})
    with pytest.raises(ValueError, match="edge table row 1: node 'z' is not a row of X; add it there or pass"):
        adjacency(edges, 2, labels=["a", "b"])
    assert adjacency(edges, 2, labels=["a", "b"], unknown_nodes="drop").nnz == 2
    assert adjacency(np.array([[0, 1], [1, 9]]), 2, unknown_nodes="drop").nnz == 2
    with pytest.raises(ValueError, match="unknown_nodes must be 'error' or 'drop', got 'keep'"):
        adjacency(edges, 2, unknown_nodes="keep")


def test_one_column_is_no_edge_table():
    with pytest.raises(ValueError, match="needs two columns"):
        adjacency(pd.DataFrame({"u": [1]}), 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.floats(0, 1e6)), max_size=25))
def test_any_edges_give_a_symmetric_matrix_of_largest_weights(edges):
    expected = np.zeros((7, 7))
    for u, v, w in edges:
        if u != v:
            expected[u, v] = expected[v, u] = max(expected[u, v], w)
    table = pd.DataFrame(edges, columns=["u", "v", "weight"])
    np.testing.assert_array_equal(adjacency(table, 7).toarray(), expected)
    multi = nx.MultiDiGraph()
    multi.add_nodes_from(range(7))
    multi.add_weighted_edges_from(edges)
    np.testing.assert_array_equal(adjacency(multi, 7).toarray(), expected)


def test_data_and_back():
    cells = np.array([[1.0, np.nan]] * 5)
    data = to_data(cells, adjacency(EXPECTED, 5))
    assert data.x.dtype == torch.float64
    np.testing.assert_array_equal(to_adjacency(data).toarray(), EXPECTED)
    both = collate([data, data])
    np.testing.assert_array_equal(to_adjacency(both).toarray(), np.kron(np.eye(2), EXPECTED))
    degree = EXPECTED.sum(axis=1)
    root = np.where(degree > 0, 1 / np.sqrt(np.maximum(degree, 1e-300)), 0)
    expected = np.eye(5) - EXPECTED * np.outer(root, root)
    np.testing.assert_allclose(laplacian(both).toarray(), np.kron(np.eye(2), expected), atol=1e-15)


def test_data_weights_ignores_many_attributes_per_edge():
    assert data_weights(Data(edge_index=torch.from_numpy(ENDS), edge_attr=torch.ones(3, 4))) is None
    assert data_weights(Data(edge_index=torch.from_numpy(ENDS))) is None


def test_knn_graph_links_near_rows():
    cells = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0], [9.1, 9.0]])
    np.testing.assert_array_equal(knn_adjacency(cells, 1).toarray(), np.kron(np.eye(2), [[0, 1], [1, 0]]))
    assert (knn_adjacency(cells, 50).toarray() == 1 - np.eye(4)).all()


def test_knn_graph_agrees_with_scikit_learn_on_mean_filled_standardised_rows():
    from sklearn.impute import SimpleImputer
    from sklearn.neighbors import kneighbors_graph
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    cells = rng.random((40, 3)) * [1, 100, 0.01]
    cells[rng.random(cells.shape) < 0.2] = np.nan
    ready = SimpleImputer().fit_transform(StandardScaler().fit_transform(cells))
    near = kneighbors_graph(ready, 4).toarray()
    np.testing.assert_array_equal(knn_adjacency(cells, 4).toarray(), np.maximum(near, near.T))


@pytest.mark.parametrize("cells", [np.ones((1, 3)), np.ones((4, 2)), np.full((4, 2), np.nan)])
def test_knn_graph_of_rows_that_do_not_differ_has_no_edges(cells):
    assert knn_adjacency(cells, 3).nnz == 0


def test_graph_collections():
    data = Data(x=torch.ones(2, 1))
    assert is_graph_collection([data])
    assert is_graph_collection((data, data))
    assert not is_graph_collection([])
    assert not is_graph_collection([[1.0]])
    assert not is_graph_collection([data, 3])

    class Two(InMemoryDataset):
        def __init__(self):
            super().__init__()
            self.data, self.slices = self.collate([data, data])

    assert is_graph_collection(Two())

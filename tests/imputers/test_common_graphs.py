"""One body over all imputers: a graph gives the same result in whatever form it comes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from imputer_cases import edge_index, make, ring, same_bits, table
from torch_geometric.data import Batch, Data

pytestmark = pytest.mark.filterwarnings("ignore:the (model|graph) does not help")

N = 24


def once(A: sp.csr_array) -> np.ndarray:
    """(2, E / 2): each edge in one direction."""
    ends = edge_index(A)
    return ends[:, ends[0] < ends[1]]


FORMS = {
    "csr array": lambda A: A,
    "csr matrix": lambda A: sp.csr_matrix(A),
    "coo array": lambda A: sp.coo_array(A),
    "csc, one triangle": lambda A: sp.csc_array(sp.triu(A)),
    "dense": lambda A: A.toarray(),
    "dense tensor": lambda A: torch.from_numpy(A.toarray()),
    "networkx": lambda A: nx.from_scipy_sparse_array(A),
    "networkx directed": lambda A: nx.from_scipy_sparse_array(sp.csr_array(sp.triu(A)), create_using=nx.DiGraph),
    "networkx multigraph": lambda A: nx.MultiGraph(np.tile(once(A).T, (2, 1)).tolist()),
    "edge_index": edge_index,
    "edge_index, one direction": once,
    "edge_index tensor": lambda A: torch.from_numpy(edge_index(A)),
    "edge_index, duplicates and self-loops": lambda A: np.hstack([once(A), once(A)[::-1], [[3, 7], [3, 7]]]),
    "edge table": lambda A: pd.DataFrame(once(A).T, columns=["u", "v"]),
    "edge table with weights": lambda A: pd.DataFrame({"weight": 1.0, "u": once(A)[0], "v": once(A)[1]}),
    "PyG Data": lambda A: Data(edge_index=torch.from_numpy(edge_index(A)), num_nodes=N),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_graph_gives_the_same_bits(name, form):
    A = ring(N)
    X = table(N, 2)
    expected = make(name).fit_transform(X, graph=A)
    assert same_bits(make(name).fit_transform(X, graph=FORMS[form](A)), expected)


def test_data_as_input_is_a_table_with_its_graph(name):
    X = table(N, 2)
    data = Data(x=torch.from_numpy(X.copy()), edge_index=torch.from_numpy(edge_index(ring(N))))
    out = make(name).fit_transform(data)
    assert isinstance(out, Data)
    assert same_bits(out.x.numpy(), make(name).fit_transform(X, graph=ring(N)))
    assert data.x.isnan().any()


def test_a_batch_is_the_graphs_it_was_made_of(name):
    from imputer_cases import graphs

    items = graphs(4)
    out = make(name).fit_transform(Batch.from_data_list(items))
    each = make(name).fit_transform(items)
    assert out.num_graphs == 4
    assert same_bits(out.x.numpy(), torch.cat([g.x for g in each]).numpy())


def test_edge_tables_match_rows_by_label_in_any_order(name):
    X = pd.DataFrame(table(N, 2), columns=["a", "b"], index=[f"n{i}" for i in range(N)])
    ends = once(ring(N))[:, ::-1]
    edges = pd.DataFrame({"u": X.index[ends[0]], "v": X.index[ends[1]]})
    expected = make(name).fit_transform(X.to_numpy(), graph=ring(N))
    assert same_bits(make(name).fit_transform(X, graph=edges).to_numpy(), expected)
    named = nx.from_pandas_edgelist(edges, "u", "v")
    assert same_bits(make(name).fit_transform(X, graph=named).to_numpy(), expected)


@pytest.mark.parametrize("method", ["feature-propagation", "megae"])
def test_the_graph_and_its_weights_matter_where_they_should(method):
    X, A = table(N, 2), ring(N)
    other = A.copy()
    other.data = np.where(np.arange(A.nnz) % 2 == 0, 5.0, 1.0)
    plain = make(method).fit_transform(X, graph=A)
    assert not np.allclose(plain, make(method).fit_transform(X, graph=other))
    assert not np.allclose(plain, make(method).fit_transform(X, graph=sp.csr_array((N, N))))

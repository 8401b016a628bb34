"""Partial aggregation against a loop over cells; without holes, the plain convolution; what PaGNN learns."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from downstream_cases import dense_operator, parts, planted
from torch_geometric.data import Data

from megae.downstream import GCNClassifier, PaGNNClassifier, prepare_features
from megae.downstream.pagnn import partial_aggregation
from megae.downstream.reading import normalised_adjacency, read_edges

QUICK = {"random_state": 0, "device": "cpu", "max_epochs": 30}


def holey(n: int = 120, rate: float = 0.3, seed: int = 0, **kw) -> Data:
    graph = planted(n, seed=seed, **kw)
    drawn = torch.rand(graph.x.shape, generator=torch.Generator().manual_seed(seed)) < rate
    graph.x = graph.x.masked_fill(drawn, torch.nan)
    return graph


def loop(x: np.ndarray, B: np.ndarray) -> np.ndarray:
    """sum_j seen B_ij x_jd, times sum_j B_ij over sum_j seen B_ij; cell by cell."""
    out = np.zeros(x.shape)
    for i, d in np.ndindex(x.shape):
        seen = [j for j in range(len(x)) if not np.isnan(x[j, d]) and B[i, j] > 0]
        if seen:
            out[i, d] = sum(B[i, j] * x[j, d] for j in seen) * B[i].sum() / sum(B[i, j] for j in seen)
    return out


@pytest.mark.parametrize("rate", [0.3, 0.9])
def test_partial_aggregation_is_the_loop(rate):
    graph = holey(40, rate)
    graph.x[5] = torch.nan
    x, A = graph.x.double().numpy(), normalised_adjacency(read_edges(graph))
    np.testing.assert_allclose(partial_aggregation(x, A), loop(x, dense_operator(graph)), atol=1e-5)


def test_without_holes_it_is_the_product():
    graph = planted(40)
    x, A = graph.x.numpy(), normalised_adjacency(read_edges(graph))
    np.testing.assert_array_equal(partial_aggregation(x, A), A @ x)


def test_a_node_without_features_gets_those_of_its_neighbours():
    x = np.array([[np.nan, np.nan], [2.0, np.nan], [4.0, np.nan]])
    B = sp.csr_array(np.array([[1.0, 1, 1], [1, 1, 0], [1, 0, 1]]))
    np.testing.assert_allclose(partial_aggregation(x, B), [[9.0, 0], [4.0, 0], [8.0, 0]])


@pytest.mark.parametrize("aggregation", ["normalised", "mean"])
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_predictions_are_those_of_the_dense_equation(aggregation, rate):
    graph = holey(rate=rate)
    train, validation, _ = parts(graph)
    found = PaGNNClassifier(aggregation=aggregation, **QUICK).fit(graph, train, validation)
    net = {k: v.double().numpy() for k, v in found.network_.state_dict().items()}
    X, A = prepare_features(graph.x.double().numpy()), dense_operator(graph)
    if aggregation == "normalised":
        P = loop(X, A)
    else:
        B = (A > 0).astype(float)
        P = loop(X, B) / B.sum(axis=1, keepdims=True)
    H = np.maximum(P @ net["first.weight"].T + net["first.bias"], 0)
    Z = A @ H @ net["second.lin.weight"].T + net["second.bias"]
    gap = np.sort(Z, axis=1)[:, -1] - np.sort(Z, axis=1)[:, -2]
    np.testing.assert_array_equal(found.predict(graph)[gap > 1e-4], Z.argmax(axis=1)[gap > 1e-4])
    assert (gap > 1e-4).mean() > 0.95


def test_without_holes_it_is_about_as_good_as_the_gcn():
    graph = planted(300, noise=2.0)
    train, validation, test = parts(graph, 60, 60)
    settings = {"random_state": 0, "device": "cpu", "max_epochs": 100}
    partial, plain = (c(**settings).fit(graph, train, validation) for c in (PaGNNClassifier, GCNClassifier))
    assert partial.accuracy(graph, test) > plain.accuracy(graph, test) - 0.05


def test_beats_the_gcn_on_zeros_where_most_is_missing():
    graph = holey(200, rate=0.9, noise=1.0)
    train, validation, test = parts(graph, 60, 60)
    settings = {"random_state": 0, "device": "cpu", "max_epochs": 100}
    zeros = Data(x=torch.nan_to_num(graph.x), edge_index=graph.edge_index, y=graph.y)
    partial = PaGNNClassifier(**settings).fit(graph, train, validation).accuracy(graph, test)
    assert partial > 0.7
    assert partial > GCNClassifier(**settings).fit(zeros, train, validation).accuracy(zeros, test) + 0.05


def test_other_labels_change_no_bit():
    graph = holey(60)
    train, validation, test = parts(graph, 15, 20)
    first = PaGNNClassifier(**QUICK).fit(graph, train, validation)
    graph.y[test] = (graph.y[test] + 1) % 3
    second = PaGNNClassifier(**QUICK).fit(graph, train, validation)
    for a, b in zip(first.network_.parameters(), second.network_.parameters(), strict=True):
        assert torch.equal(a, b)
    np.testing.assert_array_equal(first.predict(graph), second.predict(graph))


@pytest.mark.parametrize("wrong", [{"aggregation": "x"}, {"hidden": 0}, {"dropout": 1.0}, {"patience": 0}])
def test_settings_are_checked(wrong):
    graph = holey(40)
    train, validation, _ = parts(graph, 10, 10)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PaGNNClassifier(**{"device": "cpu", **wrong}).fit(graph, train, validation)

"""The GCN of nodes, against a dense twin; its dropout; what it learns."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from downstream_cases import dense_operator, parts, planted
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from megae.downstream import GCN_SETTINGS, NODE_PROTOCOLS, GCNClassifier, node_split, prepare_features
from megae.downstream.dropout import InputDropout
from megae.downstream.reading import normalised_adjacency, read_edges, sparse_tensor

QUICK = {"random_state": 0, "device": "cpu", "max_epochs": 40}


def test_operator_is_the_dense_one_and_pygs():
    graph = planted(30)
    A_hat = normalised_adjacency(read_edges(graph))
    np.testing.assert_allclose(A_hat.toarray(), dense_operator(graph), atol=1e-6)
    plain = GCNConv(6, 4)
    ours = GCNConv(6, 4, normalize=False)
    ours.load_state_dict(plain.state_dict())
    expected = plain(graph.x, graph.edge_index)
    torch.testing.assert_close(ours(graph.x, sparse_tensor(A_hat)), expected, rtol=1e-4, atol=1e-5)


def test_operator_of_a_weighted_graph_with_an_isolated_node():
    graph = Data(x=torch.ones(3, 1), edge_index=torch.tensor([[0], [1]]), edge_weight=torch.tensor([2.0]))
    expected = np.array([[1, 2, 0], [2, 1, 0], [0, 0, 3]]) / 3
    np.testing.assert_allclose(normalised_adjacency(read_edges(graph)).toarray(), expected, atol=1e-6)


def test_predictions_are_those_of_the_dense_equation():
    graph = planted()
    train, validation, _ = parts(graph)
    found = GCNClassifier(**QUICK).fit(graph, train, validation)
    net = {k: v.double().numpy() for k, v in found.network_.state_dict().items()}
    X, A = prepare_features(graph.x.double().numpy()), dense_operator(graph)
    H = np.maximum(A @ X @ net["first.lin.weight"].T + net["first.bias"], 0)
    Z = A @ H @ net["second.lin.weight"].T + net["second.bias"]
    gap = np.sort(Z, axis=1)[:, -1] - np.sort(Z, axis=1)[:, -2]
    np.testing.assert_array_equal(found.predict(graph)[gap > 1e-4], Z.argmax(axis=1)[gap > 1e-4])
    assert (gap > 1e-4).mean() > 0.95
    truth = graph.y.numpy()[validation]
    shifted = Z[validation] - Z[validation].max(axis=1, keepdims=True)
    loss = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(truth)), truth]
    assert found.outcome_.loss == pytest.approx(loss.mean(), rel=1e-3)
    assert found.outcome_.accuracy == pytest.approx((Z[validation].argmax(axis=1) == truth).mean(), abs=0.04)


def test_learns_a_planted_partition_better_than_its_features_alone_allow():
    graph = planted(300, noise=2.0)
    train, validation, test = parts(graph, 60, 60)
    alone = Data(x=graph.x, y=graph.y, edge_index=torch.empty(2, 0, dtype=torch.int64))
    with_edges, without = (
        GCNClassifier(random_state=0, device="cpu").fit(g, train, validation).accuracy(g, test) for g in (graph, alone)
    )
    assert with_edges > 0.9
    assert with_edges > without + 0.1


def test_centring_saves_what_lies_close_to_the_mean():
    graph = planted(300, noise=0.5)
    graph.x = 5.0 + 1e-3 * (graph.x - 5.0)
    train, validation, test = parts(graph, 60, 60)
    found = {
        how: GCNClassifier(features=how, random_state=0, device="cpu").fit(graph, train, validation)
        for how in ("centred", "row-normalised")
    }
    assert found["centred"].accuracy(graph, test) > 0.9
    assert found["row-normalised"].accuracy(graph, test) < 0.7


def test_weights_are_those_of_the_best_epoch_and_not_of_the_last():
    graph = planted(noise=3.0)
    train, validation, _ = parts(graph, 12, 30)
    settings = {"random_state": 0, "device": "cpu", "learning_rate": 0.2, "weight_decay": 0.0, "hidden": 64}
    long = GCNClassifier(**settings, max_epochs=300, patience=20).fit(graph, train, validation)
    assert long.outcome_.stopped == "patience"
    assert long.outcome_.epochs == long.outcome_.best_epoch + 20
    cut = GCNClassifier(**settings, max_epochs=long.outcome_.best_epoch, patience=None)
    cut.fit(graph, train, validation)
    for a, b in zip(long.network_.parameters(), cut.network_.parameters(), strict=True):
        assert torch.equal(a, b)


def test_decay_is_on_the_first_layer_alone():
    graph = planted()
    train, validation, _ = parts(graph)
    norms = {}
    for decay in (0.0, 0.5):
        found = GCNClassifier(weight_decay=decay, random_state=0, device="cpu", max_epochs=100, patience=None)
        weights = found.fit(graph, train, validation).network_.state_dict()
        norms[decay] = [float(weights[f"{layer}.lin.weight"].norm()) for layer in ("first", "second")]
    assert norms[0.5][0] < 0.5 * norms[0.0][0]
    assert norms[0.5][1] > 0.8 * norms[0.0][1]


def test_half_dropout_has_the_law_of_dropout():
    x = torch.full((101, 37), 3.0)
    dropped = InputDropout(x, 0.5, seed=0)
    draws = torch.stack([dropped().clone() for _ in range(200)])
    assert set(draws.unique().tolist()) == {0.0, 6.0}
    kept = (draws > 0).double()
    assert abs(float(kept.mean()) - 0.5) < 0.002
    assert float((kept.mean(dim=0) - 0.5).abs().max()) < 0.2
    pairs = (kept[:, :, 1:] * kept[:, :, :-1]).mean()
    assert abs(float(pairs) - 0.25) < 0.003
    again = InputDropout(x, 0.5, seed=0)
    assert torch.equal(again(), draws[0])


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_other_rates_of_dropout(rate):
    x = torch.ones(400, 50)
    found = InputDropout(x, rate, seed=0)()
    assert float((found == 0).double().mean()) == pytest.approx(rate, abs=0.02)
    assert float(found.max()) == pytest.approx(1 / (1 - rate))


def test_a_time_budget_ends_training():
    graph = planted()
    train, validation, _ = parts(graph)
    found = GCNClassifier(time_budget=1e-6, random_state=0, device="cpu").fit(graph, train, validation)
    assert (found.outcome_.stopped, found.outcome_.epochs) == ("time", 1)


def test_survives_copying_and_pickling_for_workers():
    graph = planted()
    train, validation, _ = parts(graph)
    found = GCNClassifier(**QUICK).fit(graph, train, validation)
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        np.testing.assert_array_equal(other.predict(graph), found.predict(graph))


@pytest.mark.parametrize(
    "wrong",
    [{"hidden": 0}, {"dropout": 1.0}, {"max_epochs": 0}, {"patience": 0}, {"random_state": -1}, {"device": "x"}],
)
def test_settings_are_checked(wrong):
    graph = planted(40)
    train, validation, _ = parts(graph, 10, 10)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GCNClassifier(**{"device": "cpu", **wrong}).fit(graph, train, validation)


@pytest.mark.gpu
def test_gpu_classifies_about_as_well():
    graph = planted(300)
    train, validation, test = parts(graph, 60, 60)
    found = GCNClassifier(random_state=0, device="cuda").fit(graph, train, validation)
    assert found.accuracy(graph, test) > 0.9


@pytest.mark.data("Cora")
@pytest.mark.parametrize("features", ["centred", "row-normalised"])
def test_cora_with_full_features(features, data_root):
    from megae.datasets import load

    graph = load("Cora", data_root)[0]
    train, validation, test = node_split(graph.y, **NODE_PROTOCOLS["Cora"], random_state=0)
    settings = {"features": features, "random_state": 0, "device": "cpu", "max_epochs": 200}
    assert GCNClassifier(**settings).fit(graph, train, validation).accuracy(graph, test) > 0.78


def test_settings_by_dataset_are_settings_of_the_gcn():
    for dataset, settings in GCN_SETTINGS.items():
        assert dataset in NODE_PROTOCOLS
        assert set(settings) <= set(GCNClassifier().get_params())

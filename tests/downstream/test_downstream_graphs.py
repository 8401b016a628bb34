"""The classifier of whole graphs, against PyG's batches and a dense twin."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from downstream_cases import dense_operator, small_graphs
from torch_geometric.data import Batch, Data

from megae.downstream import GraphClassifier, prepare_features
from megae.downstream.reading import normalised_adjacency, read_edges
from megae.downstream.stack import GraphStack

QUICK = {"random_state": 0, "device": "cpu", "max_epochs": 40, "hidden": 16, "batch_size": 10}


def split(graphs):
    return graphs[:30], graphs[30:42], graphs[42:]


def test_a_batch_is_the_chosen_graphs_block_by_block():
    graphs = small_graphs(7)
    stack = GraphStack([g.x for g in graphs], [normalised_adjacency(read_edges(g)) for g in graphs])
    chosen = np.array([5, 0, 3])
    batch = stack.take(chosen)
    oracle = Batch.from_data_list([graphs[i] for i in chosen])
    assert torch.equal(batch.x, oracle.x)
    assert torch.equal(batch.graph_of, oracle.batch)
    assert batch.size == 3
    np.testing.assert_allclose(batch.A_hat.to_dense().numpy(), dense_operator(oracle), atol=1e-6)
    assert stack.all().size == len(stack) == 7


def test_predictions_are_those_of_the_dense_equation_graph_by_graph():
    graphs = small_graphs()
    train, validation, test = split(graphs)
    found = GraphClassifier(**QUICK).fit(train, validation)
    net = {k: v.double().numpy() for k, v in found.network_.state_dict().items()}
    reference = torch.cat([g.x for g in train]).double().numpy()

    def layer(A, H, name):
        Z = A @ H @ net[f"{name}.lin.weight"].T + net[f"{name}.bias"]
        mean, var = net[f"{name}_norm.running_mean"], net[f"{name}_norm.running_var"]
        Z = (Z - mean) / np.sqrt(var + 1e-5) * net[f"{name}_norm.weight"] + net[f"{name}_norm.bias"]
        return np.maximum(Z, 0)

    scores = []
    for g in test:
        H = prepare_features(g.x.double().numpy(), "standardised", reference)
        for name in ("first", "second"):
            H = layer(dense_operator(g), H, name)
        scores.append(net["last.weight"] @ np.concatenate([H.mean(axis=0), H.max(axis=0)]) + net["last.bias"])
    Z = np.array(scores)
    with torch.no_grad():
        scored = found.network_(found._stack(test, "graphs").all())
    np.testing.assert_allclose(scored.numpy(), Z, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(found.predict(test), Z.argmax(axis=1))


def test_learns_and_accuracy_is_the_share_of_right_graphs():
    train, validation, test = split(small_graphs())
    found = GraphClassifier(**QUICK).fit(train, validation)
    truth = np.array([int(g.y) for g in test])
    assert found.accuracy(test) == (found.predict(test) == truth).mean()
    assert found.accuracy(test) > 0.85


def test_the_answer_for_a_graph_does_not_hang_on_its_company():
    train, validation, test = split(small_graphs())
    found = GraphClassifier(**QUICK).fit(train, validation)
    alone = np.concatenate([found.predict([g]) for g in test])
    np.testing.assert_array_equal(found.predict(test), alone)


def test_standardised_columns_make_units_irrelevant():
    train, validation, test = split(small_graphs())
    scaled = []
    for part in (train, validation, test):
        scaled.append([Data(x=g.x * torch.tensor([1.0, 1024.0]), edge_index=g.edge_index, y=g.y) for g in part])
    one = GraphClassifier(**QUICK).fit(train, validation).predict(test)
    two = GraphClassifier(**QUICK).fit(scaled[0], scaled[1]).predict(scaled[2])
    np.testing.assert_array_equal(one, two)


def test_preparation_and_weights_come_from_training_graphs_and_validation_only_chooses():
    train, validation, _ = split(small_graphs())
    far = [Data(x=g.x + 50.0, edge_index=g.edge_index, y=g.y) for g in validation]
    settings = {**QUICK, "max_epochs": 1}
    one, two = (GraphClassifier(**settings).fit(train, v) for v in (validation, far))
    np.testing.assert_array_equal(one.preparation_.mean, two.preparation_.mean)
    for a, b in zip(one.network_.parameters(), two.network_.parameters(), strict=True):
        assert torch.equal(a, b)


def test_seeds_repeat_to_the_bit_and_differ():
    train, validation, _ = split(small_graphs())
    state = torch.get_rng_state()
    one, again, other = (
        GraphClassifier(**{**QUICK, "max_epochs": 3, "random_state": s}).fit(train, validation).network_.state_dict()
        for s in (0, 0, 1)
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[k], again[k]) for k in one)
    assert any(not torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("features", ["row-normalised", "centred"])
def test_other_preparations_are_used(features):
    train, validation, test = split(small_graphs())
    found = GraphClassifier(**{**QUICK, "features": features}).fit(train, validation)
    assert found.preparation_.how == features
    assert set(found.predict(test)) <= {0, 1}


def test_labels_may_be_any_integers_and_test_labels_are_not_read():
    graphs = [Data(x=g.x, edge_index=g.edge_index, y=7 + 3 * g.y) for g in small_graphs()]
    train, validation, test = split(graphs)
    found = GraphClassifier(**QUICK).fit(train, validation)
    assert set(found.predict(test)) <= {7, 10}
    bare = [Data(x=g.x, edge_index=g.edge_index) for g in test]
    np.testing.assert_array_equal(found.predict(bare), found.predict(test))


def test_graphs_without_edges_or_with_one_node_are_fine():
    train, validation, test = split(small_graphs())
    lone = Data(x=test[0].x[:1], edge_index=torch.empty(2, 0, dtype=torch.int64))
    bare = Data(x=test[0].x, y=torch.tensor([0]))
    assert len(GraphClassifier(**QUICK).fit([*train, bare], validation).predict([lone, bare])) == 2


def test_a_time_budget_ends_training():
    train, validation, _ = split(small_graphs())
    found = GraphClassifier(**QUICK, time_budget=1e-6).fit(train, validation)
    assert (found.outcome_.stopped, found.outcome_.epochs) == ("time", 1)


def test_what_cannot_be_fitted_is_refused():
    train, validation, test = split(small_graphs())
    fit = GraphClassifier(**QUICK).fit
    holed = test[0].clone()
    holed.x[1, 1] = torch.nan
    with pytest.raises(ValueError, match=r"validation: graph 0 misses 1 of its \d+ features.*fill them first"):
        fit(train, [holed])
    with pytest.raises(ValueError, match="graphs: graph 1 misses 1"):
        fit(train, validation).predict([test[1], holed])
    with pytest.raises(ValueError, match="train must be a list of PyG Data, at least one"):
        fit([], validation)
    with pytest.raises(ValueError, match="validation: graph 0 has no y"):
        fit(train, [Data(x=test[0].x, edge_index=test[0].edge_index)])
    with pytest.raises(ValueError, match="train: graph 0 has no label"):
        fit([Data(x=test[0].x, edge_index=test[0].edge_index, y=torch.tensor([-1]))], validation)
    with pytest.raises(ValueError, match="graphs: graph 0 has 1 features, but 2 were expected"):
        fit(train, validation).predict([Data(x=test[0].x[:, :1], edge_index=test[0].edge_index)])


@pytest.mark.parametrize("wrong", [{"hidden": 0}, {"batch_size": 0}, {"dropout": 1.0}, {"label_smoothing": 2.0}])
def test_settings_are_checked(wrong):
    train, validation, _ = split(small_graphs())
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GraphClassifier(**{**QUICK, **wrong}).fit(train, validation)

"""What every classifier of nodes promises: honesty about labels, refusals that help, accuracy as defined."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from downstream_cases import parts, planted
from sklearn.base import clone
from torch_geometric.data import Data

from megae.downstream import CLASSIFIERS, NodeClassifier
from megae.downstream.early import Outcome

QUICK = {"random_state": 0, "device": "cpu", "max_epochs": 30}


class Recorder(NodeClassifier):
    """Keeps what its hooks are given; predicts the first class."""

    def _fit(self, graph, labels, train, validation):
        self.given_ = (graph, labels, train, validation)
        self.outcome_ = Outcome(1, 0.0, 0.0, 1, "epochs", 0.0)

    def _predict(self, graph):
        return torch.zeros(len(graph.x), dtype=torch.int64)


class HoleTaker(Recorder):
    takes_holes = True


@pytest.fixture(params=list(CLASSIFIERS))
def method(request) -> type[NodeClassifier]:
    return CLASSIFIERS[request.param]


def test_constructors_are_keyword_only_and_store_their_arguments(method):
    parameters = list(inspect.signature(method.__init__).parameters.values())[1:]
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)
    for name in ("features", "random_state", "device", "verbose", "time_budget"):
        assert name in [p.name for p in parameters]
    given = {p.name: object() for p in parameters}
    assert all(getattr(method(**given), name) is value for name, value in given.items())
    assert clone(method(features="row-normalised")).features == "row-normalised"


@pytest.mark.parametrize("features", ["centred", "row-normalised"])
def test_labels_outside_training_and_validation_change_no_bit(method, features):
    graph = planted()
    train, validation, test = parts(graph)
    other = graph.clone()
    other.y[test] = torch.from_numpy(np.random.default_rng(1).integers(-1, 9, len(test)))
    assert (other.y != graph.y).any()
    one, two = (method(features=features, **QUICK).fit(g, train, validation) for g in (graph, other))
    np.testing.assert_array_equal(one.predict(graph), two.predict(other))
    np.testing.assert_array_equal(one.classes_, two.classes_)
    for a, b in zip(one.network_.parameters(), two.network_.parameters(), strict=True):
        assert torch.equal(a, b)


def test_training_labels_do_change_predictions(method):
    graph = planted()
    train, validation, _ = parts(graph)
    other = graph.clone()
    other.y[np.concatenate([train, validation])] = 2 - other.y[np.concatenate([train, validation])]
    one, two = (method(**QUICK).fit(g, train, validation).predict(g) for g in (graph, other))
    assert (one != two).any()


def test_seeds_repeat_to_the_bit_and_differ(method):
    graph = planted()
    train, validation, _ = parts(graph)
    state = torch.get_rng_state()
    one, again = (method(**QUICK).fit(graph, train, validation).network_.state_dict() for _ in range(2))
    other = method(**{**QUICK, "random_state": 1}).fit(graph, train, validation).network_.state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one[k], again[k]) for k in one)
    assert any(not torch.equal(one[k], other[k]) for k in one)


def test_hooks_see_no_label_but_those_of_training_and_validation():
    graph = planted()
    graph.y = 10 + 5 * graph.y
    train, validation, test = parts(graph)
    found = Recorder().fit(graph, train, validation)
    _, labels, *given = found.given_
    np.testing.assert_array_equal(found.classes_, [10, 15, 20])
    assert (labels[test] == -1).all()
    shown = np.concatenate([train, validation])
    np.testing.assert_array_equal(found.classes_[labels[shown].numpy()], graph.y[shown].numpy())
    np.testing.assert_array_equal(given[0].numpy(), train)
    np.testing.assert_array_equal(given[1].numpy(), validation)


def test_hooks_see_prepared_features_and_undirected_edges():
    graph = planted(40)
    train, validation, _ = parts(graph, 10, 10)
    one_way = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]]
    given = Data(x=graph.x, y=graph.y, edge_index=torch.cat([one_way, torch.tensor([[3], [3]])], dim=1))
    seen = Recorder(features="row-normalised").fit(given, train, validation).given_[0]
    np.testing.assert_allclose(seen.x.numpy(), graph.x.numpy() / graph.x.numpy().sum(axis=1, keepdims=True), rtol=1e-5)
    assert seen.x.dtype == torch.float32
    assert {tuple(e) for e in seen.edge_index.T.tolist()} == {tuple(e) for e in graph.edge_index.T.tolist()}


def test_another_graph_is_centred_on_the_graph_of_fit():
    graph, other = planted(40, seed=0), planted(50, seed=1)
    train, validation, _ = parts(graph, 10, 10)
    found = Recorder().fit(graph, train, validation)
    x = other.x.double().numpy() - graph.x.double().numpy().mean(axis=0)
    seen = found._prepared(other, other.x).x.numpy()
    np.testing.assert_allclose(seen, x / np.linalg.norm(x, axis=1, keepdims=True), rtol=1e-4, atol=1e-6)


def test_masks_are_as_good_as_positions(method):
    graph = planted()
    train, validation, test = parts(graph)
    masks = [torch.zeros(len(graph.x), dtype=torch.bool) for _ in range(3)]
    for mask, part in zip(masks, (train, validation, test), strict=True):
        mask[part] = True
    one = method(**QUICK).fit(graph, train, validation)
    two = method(**QUICK).fit(graph, masks[0], masks[1].numpy())
    assert one.accuracy(graph, test) == two.accuracy(graph, masks[2])


def test_accuracy_is_the_share_of_right_nodes(method):
    graph = planted()
    train, validation, test = parts(graph)
    found = method(**QUICK).fit(graph, train, validation)
    right = found.predict(graph)[test] == graph.y.numpy()[test]
    assert found.accuracy(graph, test) == right.mean()
    assert 0 < found.accuracy(graph, test) <= 1


def test_holes_are_refused_with_advice_unless_the_method_takes_them():
    graph = planted(40)
    graph.x[2, 1] = torch.nan
    train, validation, _ = parts(graph, 10, 10)
    with pytest.raises(ValueError, match=r"misses 1 of its 240 features \(NaN\), and Recorder needs all.*get_imputer"):
        Recorder().fit(graph, train, validation)
    taken = HoleTaker().fit(graph, train, validation)
    assert int(torch.isnan(taken.given_[0].x).sum()) == 1
    assert len(taken.predict(graph)) == 40


def test_holes_are_refused_by_predict_too(method):
    if method.takes_holes:
        pytest.skip("takes holes")
    graph = planted(40)
    train, validation, _ = parts(graph, 10, 10)
    found = method(**QUICK).fit(graph, train, validation)
    graph.x[0, 0] = torch.nan
    with pytest.raises(ValueError, match="fill them first"):
        found.predict(graph)


def test_what_cannot_be_fitted_is_refused():
    graph = planted(40)
    graph.y[5] = -1
    fit = Recorder().fit
    with pytest.raises(ValueError, match=r"train names node 5, which has no label.*node_split"):
        fit(graph, [4, 5], [6])
    with pytest.raises(ValueError, match="node 4 is in train and in validation"):
        fit(graph, [3, 4], [4, 6])
    with pytest.raises(ValueError, match="validation must name at least one node"):
        fit(graph, [3, 4], [])
    with pytest.raises(ValueError, match="train names nodes 3 to 40, but the graph has nodes 0 to 39"):
        fit(graph, [3, 40], [6])
    with pytest.raises(ValueError, match="names a node twice"):
        fit(graph, [3, 3], [6])
    with pytest.raises(ValueError, match="no y to learn from"):
        fit(Data(x=graph.x, edge_index=graph.edge_index), [3], [6])
    with pytest.raises(ValueError, match="40 integer classes"):
        fit(Data(x=graph.x, edge_index=graph.edge_index, y=graph.y.float()), [3], [6])
    with pytest.raises(ValueError, match="whose x holds the features"):
        fit(Data(edge_index=graph.edge_index, y=graph.y), [3], [6])
    with pytest.raises(ValueError, match="nodes names node 5, which has no label"):
        fit(graph, [3], [6]).accuracy(graph, [5])
    with pytest.raises(ValueError, match="x has 5 columns, but its reference has 6"):
        fit(graph, [3], [6]).predict(Data(x=graph.x[:, :5], edge_index=graph.edge_index))

"""What is shown and what is hidden: splits, holes, and nothing of the truth in the task."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from megae.bench.protocol import Answers, Task, column_facts, pose, punch, seed_of
from megae.bench.tuning import validation_task
from megae.datasets import load_digits_graphs


@pytest.fixture(scope="module")
def graphs():
    return load_digits_graphs()[:40]


def one_graph(n: int = 200, d: int = 5) -> Data:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(n, d)).astype(np.float32))
    ends = torch.from_numpy(rng.integers(0, n, size=(2, 4 * n)))
    return Data(x=x, edge_index=ends, y=torch.arange(n))


def pose_mcar(graphs: list[Data]) -> tuple[Task, Answers]:
    return pose("digits", graphs, "mcar", 0.3, 0)


def validation_mcar(graphs: list[Data]) -> tuple[Task, Answers]:
    return validation_task("digits", graphs, 0.3, 0)


def test_many_graphs_are_split_70_10_20_and_training_graphs_are_complete(graphs):
    task, answers = pose("digits", graphs, "mcar", 0.3, 0)
    assert [len(part) for part in answers.parts] == [28, 4, 8]
    assert sorted(np.concatenate(answers.parts)) == list(range(40))
    assert not any(g.x.isnan().any() for g in task.train)
    assert all(g.x.isnan().any() for g in [*task.validation, *task.test])


def test_holes_are_nan_in_the_task_and_nothing_else_changed(graphs):
    task, answers = pose("digits", graphs, "mcar", 0.3, 1)
    for shown, truth, holes in zip(task.test, answers.test, answers.holes, strict=True):
        assert np.array_equal(shown.x.isnan().numpy(), holes)
        assert np.array_equal(shown.x.numpy()[~holes], truth.x.numpy()[~holes])
        assert torch.equal(shown.edge_index, truth.edge_index)


def test_labels_stay_with_the_scorer(graphs):
    task, _ = pose("digits", graphs, "mcar", 0.3, 0)
    assert all(set(g.keys()) == {"x", "edge_index"} for g in [*task.train, *task.validation, *task.test])
    single, _ = pose("one", [one_graph()], "mcar", 0.3, 0)
    assert all(set(g.keys()) == {"x", "edge_index"} for g in [*single.train, *single.test])


def test_weights_of_edges_are_shown():
    graph = one_graph()
    graph.edge_weight = torch.rand(graph.edge_index.shape[1])
    task, _ = pose("one", [graph], "mcar", 0.3, 0)
    assert torch.equal(task.train[0].edge_weight, graph.edge_weight)


@pytest.mark.parametrize("posed", [pose_mcar, validation_mcar])
@pytest.mark.parametrize("count", [1, 20])
def test_what_is_done_to_the_task_does_not_reach_the_answers(graphs, posed, count):
    given = [g.clone() for g in graphs[:count]]
    task, answers = posed(given)
    known = [*given, *answers.test, *answers.validation, *answers.whole]
    before = [(g.x.clone(), g.edge_index.clone()) for g in known]
    for shown in [*task.train, *task.validation]:
        shown.x.fill_(7.0)
        shown.edge_index.fill_(0)
    for g, (x, edges) in zip(known, before, strict=True):
        assert torch.equal(g.x, x)
        assert torch.equal(g.edge_index, edges)
    assert not any((shown.x == 7.0).any() for shown in task.test), "nor the graphs to fill"


def test_one_graph_trains_on_its_own_observed_cells():
    graph = one_graph()
    task, answers = pose("one", [graph], "mcar", 0.4, 0)
    assert answers.single
    assert task.validation == []
    assert torch.equal(task.train[0].x.nan_to_num(9.0), task.test[0].x.nan_to_num(9.0))
    assert abs(answers.holes[0].mean() - 0.4) < 0.05
    seen = task.train[0].x.numpy()
    np.testing.assert_allclose(answers.span, np.nanmax(seen, axis=0) - np.nanmin(seen, axis=0))


def test_every_seed_has_its_own_split_and_holes_and_repeats_them(graphs):
    first, again, other = (pose("digits", graphs, "mcar", 0.3, seed)[1] for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(first.holes, again.holes, strict=True))
    assert not np.array_equal(first.parts[2], other.parts[2])
    assert len({seed_of(d, s, p) for d in ("a", "b") for s in range(50) for p in ("split", "test")}) == 200


@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar", "whole-node"])
def test_the_rate_holds_over_all_graphs_together(graphs, mechanism):
    holes = np.concatenate(punch(graphs, mechanism, 0.3, 0))
    assert abs(holes.mean() - 0.3) < 0.02


def test_a_single_column_at_random_is_driven_by_degree():
    star = torch.tensor([[0] * 30, list(range(1, 31))])
    graphs = [Data(x=torch.randn(31, 1), edge_index=star) for _ in range(40)]
    holes = np.stack(punch(graphs, "mar", 0.3, 0))[:, :, 0]
    assert holes[:, 0].mean() > 0.9 > holes[:, 1:].mean()


def test_units_come_from_what_training_shows(graphs):
    loud = [g.clone() for g in graphs]
    _, before = pose("digits", loud, "mcar", 0.3, 0)
    for i in before.parts[2]:
        loud[i].x[:, 0] = 1000.0
    _, after = pose("digits", loud, "mcar", 0.3, 0)
    np.testing.assert_array_equal(before.span, after.span)
    np.testing.assert_array_equal(before.mean, after.mean)


def test_a_column_without_variation_or_values_has_range_one():
    x = torch.tensor([[1.0, float("nan")], [1.0, float("nan")]])
    span, mean = column_facts([Data(x=x)])
    assert span.tolist() == [1.0, 1.0]
    assert mean.tolist() == [1.0, 0.0]


def test_bad_questions_are_refused(graphs):
    with pytest.raises(ValueError, match="choose one of mcar"):
        pose("digits", graphs, "often", 0.1, 0)
    with pytest.raises(ValueError, match="too few"):
        pose("digits", graphs[:2], "mcar", 0.1, 0)

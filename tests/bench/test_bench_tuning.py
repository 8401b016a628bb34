"""Tuning judges on validation cells, and nothing of the test part can reach it."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

from megae.bench.protocol import pose
from megae.bench.running import validation_rmse
from megae.bench.trials import Trial
from megae.bench.tuning import validation_task
from megae.datasets import load_digits_graphs


def everything(graphs: list[Data]) -> list[np.ndarray]:
    task, answers = validation_task("digits", graphs, 0.3, 0)
    parts = [*task.train, *task.validation, *answers.validation, *answers.whole]
    return [g.x.numpy() for g in parts] + answers.validation_holes + [answers.span, answers.mean]


def test_test_graphs_do_not_reach_the_search():
    graphs = load_digits_graphs()[:30]
    before = everything(graphs)
    _, answers = pose("digits", graphs, "mcar", 0.3, 0)
    other = [g.clone() for g in graphs]
    for i in answers.parts[2]:
        other[i].x += 5.0
    after = everything(other)
    assert len(before) == len(after)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True))


def test_test_holes_of_one_graph_do_not_reach_the_search():
    graph = load_digits_graphs()[0]
    _, answers = pose("digits", [graph], "mcar", 0.3, 0)
    other = graph.clone()
    other.x[torch.from_numpy(answers.holes[0])] = 9.0
    for a, b in zip(everything([graph]), everything([other]), strict=True):
        assert np.array_equal(a, b, equal_nan=True)


def test_on_one_graph_judged_cells_are_observed_cells_hidden_on_top():
    graph = load_digits_graphs()[3]
    task, answers = validation_task("digits", [graph], 0.3, 0)
    [judged] = answers.validation_holes
    hidden = task.train[0].x.isnan().numpy()
    assert judged.any()
    assert (judged <= hidden).all()
    assert (hidden & ~judged).any(), "the test holes stay hidden and are not judged"
    np.testing.assert_array_equal(answers.validation[0].x.numpy()[judged], graph.x.numpy()[judged])


def test_the_error_is_that_on_validation_holes_alone():
    graphs = load_digits_graphs()[:40]
    task, answers = validation_task("digits", graphs, 0.3, 0)
    found = validation_rmse(Trial("digits", "mcar", 0.3, 0, "zero"), task, answers, "cpu")
    by_graph = [
        np.sqrt(np.mean((g.x.numpy() / answers.span)[h] ** 2))
        for g, h in zip(answers.validation, answers.validation_holes, strict=True)
    ]
    np.testing.assert_allclose(found, np.mean(by_graph), rtol=1e-6)

"""Scores against sums done by hand, in both units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from megae.bench.protocol import Answers, pose
from megae.bench.scoring import score
from megae.bench.units import PAPER_UNITS, proportional, scale
from megae.datasets import CATALOGUE

EDGES = torch.tensor([[0, 1], [1, 0]])


def two_graphs(dataset: str = "made") -> Answers:
    a = Data(x=torch.tensor([[0.0, 10.0], [2.0, 30.0]]), edge_index=EDGES)
    b = Data(x=torch.tensor([[4.0, -50.0], [6.0, 20.0]]), edge_index=EDGES)
    holes = [np.array([[True, False], [False, True]]), np.array([[True, True], [False, False]])]
    return Answers(dataset, [a, b], holes, np.array([2.0, 10.0]), np.array([1.0, 0.0]), [a, b])


def off_by(answers: Answers, error: float) -> list[np.ndarray]:
    return [np.where(h, g.x.numpy() + error, g.x.numpy()) for g, h in zip(answers.test, answers.holes, strict=True)]


def test_per_graph_and_pooled_by_hand():
    answers = two_graphs()
    filled = [np.array([[3.0, 10.0], [2.0, 35.0]]), np.array([[4.0, -30.0], [6.0, 20.0]])]
    found = score(filled, answers)
    # errors over range: graph a 1.5, 0.5; graph b 0, 2
    of_graphs = [np.sqrt((1.5**2 + 0.5**2) / 2), np.sqrt(2.0)]
    ours = found["scores"]["ours"]
    assert found["pairs"]["over"] == "test graph"
    assert found["pairs"]["rmse"]["ours"] == pytest.approx(of_graphs)
    assert ours["per_graph_rmse"] == pytest.approx(np.mean(of_graphs))
    assert ours["pooled_rmse"] == pytest.approx(np.sqrt((2.25 + 0.25 + 4.0) / 4))
    assert ours["rmse"] == ours["per_graph_rmse"]
    assert ours["mae"] == pytest.approx((1.5 + 0.5 + 0 + 2) / 4)
    # against the mean (1, 0): errors over range 0.5, -3, -1.5, 5
    assert ours["r2"] == pytest.approx(1 - 6.5 / (0.25 + 9 + 2.25 + 25))
    assert found["holes"] == 4


def test_one_graph_is_pooled_and_paired_over_columns():
    graph = Data(x=torch.tensor([[0.0, 1.0, 5.0], [1.0, 0.0, 5.0]]), edge_index=EDGES)
    holes = np.array([[True, True, False], [True, False, False]])
    answers = Answers("made", [graph], [holes], np.ones(3), np.zeros(3), [graph])
    found = score([np.array([[3.0, 1.5, 5.0], [5.0, 0.0, 5.0]])], answers)
    assert found["pairs"]["over"] == "column"
    assert found["pairs"]["rmse"]["ours"] == [pytest.approx(np.sqrt((9 + 16) / 2)), pytest.approx(0.5), None]
    assert found["scores"]["ours"]["rmse"] == pytest.approx(np.sqrt((9 + 16 + 0.25) / 3))


def test_a_graph_without_holes_has_no_error_and_does_not_dilute_the_mean():
    answers = two_graphs()
    answers.holes[1][:] = False
    found = score(off_by(answers, 1.0), answers)
    for unit in ("ours", "paper"):
        assert found["pairs"]["rmse"][unit][1] is None
        assert found["scores"][unit]["per_graph_rmse"] == found["pairs"]["rmse"][unit][0]


def test_pairs_are_kept_in_both_units():
    found = score(off_by(two_graphs("PROTEINS_full"), 6.0), two_graphs("PROTEINS_full"))
    # errors of 6 over the largest value of the row: graph a 10 and 30, graph b 50 and 50
    by_hand = [np.sqrt(((6 / 10) ** 2 + (6 / 30) ** 2) / 2), 6 / 50]
    assert found["pairs"]["rmse"]["paper"] == pytest.approx(by_hand)
    assert found["pairs"]["rmse"]["ours"] == pytest.approx([np.sqrt((3.0**2 + 0.6**2) / 2)] * 2)
    assert np.mean(found["pairs"]["rmse"]["paper"]) == pytest.approx(found["scores"]["paper"]["rmse"])


def test_pairs_of_one_graph_are_columns_in_both_units():
    graph = Data(x=torch.tensor([[0.0, 4.0], [1.0, 0.0]]), edge_index=EDGES)
    answers = Answers("Pubmed", [graph], [np.ones((2, 2), dtype=bool)], np.array([1.0, 4.0]), np.zeros(2), [graph])
    found = score([graph.x.numpy() + 2.0], answers)["pairs"]
    assert (found["over"], found["rmse"]) == ("column", {"ours": [2.0, 0.5], "paper": [2.0, 2.0]})


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("ENZYMES", [[6.0, 80.0]] * 2),
        ("Synthie", [[2.0, 20.0], [2.0, 70.0]]),
        ("FIRSTMM_DB", [[1.0, 1.0]] * 2),
        ("somebody's", [[2.0, 10.0]] * 2),
    ],
)
def test_the_scales_of_the_paper_by_column(dataset, expected):
    answers = two_graphs(dataset)
    for graph, span in zip(answers.test, expected, strict=True):
        np.testing.assert_allclose(np.broadcast_to(scale("paper", answers)(graph), (2, 2)), [span] * 2)


def test_the_scale_of_proteins_is_the_largest_value_of_the_row():
    answers = two_graphs("PROTEINS_full")
    np.testing.assert_allclose(scale("paper", answers)(answers.test[1]), [[50.0], [20.0]])


class Counting(list):
    """A list that counts how often it is gone through."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


@pytest.mark.parametrize("graphs", [2, 40])
def test_the_whole_set_is_gone_through_once_however_many_graphs_are_scored(graphs):
    few = two_graphs("ENZYMES")
    many = replace(few, test=few.test * (graphs // 2), holes=few.holes * (graphs // 2), whole=Counting(few.whole))
    found = score(off_by(many, 1.0), many)
    assert many.whole.times == 1
    assert found["scores"] == {u: pytest.approx(m) for u, m in score(off_by(few, 1.0), few)["scores"].items()}


@pytest.mark.data("FIRSTMM_DB", "Cora", "Citeseer", "AmaPhoto")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["FIRSTMM_DB", "Cora", "Citeseer", "AmaPhoto"])
def test_units_called_proportional_differ_by_one_factor(name, data_root):
    from megae.datasets import load

    graphs, factors = load(name, data_root), set()
    for seed in range(5):
        answers = pose(name, graphs, "mcar", 0.1, seed)[1]
        for graph in answers.test:
            factors |= set(np.ravel(scale("ours", answers)(graph) / scale("paper", answers)(graph)))
    assert proportional(name)
    assert len(factors) == 1


def test_other_units_of_the_paper_are_not_called_proportional():
    assert [name for name in PAPER_UNITS if proportional(name)] == ["FIRSTMM_DB", "Cora", "Citeseer", "AmaPhoto"]
    assert proportional("somebody's"), "our unit in both"


def test_units_divide_errors_and_leave_r2_of_a_common_scale_alone():
    answers = two_graphs("ENZYMES")
    found = score(off_by(answers, 2.0), answers)["scores"]
    assert found["paper"]["mae"] == pytest.approx(np.mean([2 / 6, 2 / 80, 2 / 6, 2 / 80]))
    assert found["ours"]["mae"] == pytest.approx(np.mean([1.0, 0.2, 1.0, 0.2]))


def test_every_set_of_the_paper_has_a_unit():
    assert set(PAPER_UNITS) == {name for name, e in CATALOGUE.items() if e.paper is not None}


@pytest.mark.parametrize("what", ["nan", "touched"])
def test_fills_that_are_none_are_refused(what):
    answers = two_graphs()
    filled = off_by(answers, 1.0)
    if what == "nan":
        filled[0][0, 0] = np.nan
    else:
        filled[0][0, 1] = 11.0
    with pytest.raises(ValueError, match="left holes open" if what == "nan" else "changed observed cells"):
        score(filled, answers)


@pytest.mark.data("ENZYMES", "QM9", "Synthie", "FIRSTMM_DB")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "paper"), [("ENZYMES", 0.0602), ("QM9", 0.2983), ("Synthie", 0.2063), ("FIRSTMM_DB", 0.1500)]
)
def test_the_mean_of_the_paper_comes_out_within_8_percent(name, paper, data_root):
    from megae.datasets import load
    from megae.imputers import get_imputer

    graphs, figures = load(name, data_root), []
    for seed in range(5):
        task, answers = pose(name, graphs, "mcar", 0.1, seed)
        filled = get_imputer("graph-mean").fit(task.train).transform(task.test)
        figures.append(score([g.x.numpy() for g in filled], answers)["scores"]["paper"]["rmse"])
    assert abs(np.mean(figures) / paper - 1) < 0.08

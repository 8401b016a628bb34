"""Which cells train, which judge, which calibrate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from training_cases import COLUMNS, graphs, ring

from megae.graphs import to_data
from megae.imputers.build import column_of
from megae.training.hiding import HidingRates
from megae.training.holdout import MANY_GRAPHS, MOST_CELLS, divide

RATES = HidingRates(np.full(3, 0.2))
PLAIN = torch.arange(3)


def observed(members) -> torch.Tensor:
    return torch.isfinite(torch.cat([g.x for g in members]))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_cells_of_few_graphs_fall_into_three_disjoint_sets(k, seed):
    members = graphs(k, n=60)
    d = divide(members, [], RATES, PLAIN, (0.1, 0.2), seed)
    judge, calibrate = d.validation.hidden, d.calibration.hidden
    assert not d.by_graph
    assert not (judge & calibrate).any()
    assert not (d.trainable & (judge | calibrate)).any()
    assert torch.equal(d.trainable | judge | calibrate, observed(members))
    assert torch.equal(d.validation.visible, d.trainable)
    assert torch.equal(d.calibration.visible, d.trainable | judge)
    n = int(observed(members).sum())
    assert 0.1 < int(calibrate.sum()) / n < 0.3
    assert 0.04 < int(judge.sum()) / n < 0.16
    assert d.trainable.any(dim=0).all()


def test_seed_decides():
    members = graphs(1, n=60)
    a, b, c = (divide(members, [], RATES, PLAIN, (0.1, 0.1), s) for s in (0, 0, 1))
    assert torch.equal(a.calibration.hidden, b.calibration.hidden)
    assert not torch.equal(a.calibration.hidden, c.calibration.hidden)


@pytest.mark.parametrize("seed", range(10))
def test_a_column_with_one_observed_cell_keeps_it_for_training(seed):
    (g,) = graphs(1, n=40)
    g.x[:, 2] = torch.nan
    g.x[7, 2] = 1.0
    d = divide([g], [], HidingRates(np.array([0.1, 0.1, 0.8])), PLAIN, (0.3, 0.3), seed)
    assert d.trainable[7, 2]
    assert d.trainable.any(dim=0).all()
    assert torch.equal(d.trainable | d.validation.hidden | d.calibration.hidden, observed([g]))


@pytest.mark.parametrize("seed", range(10))
def test_training_sees_the_range_of_every_column_that_has_one(seed):
    (g,) = graphs(1, n=40)
    g.x[:, 2] = torch.nan
    g.x[[7, 11, 30], 2] = torch.tensor([5e6, 5e6, 6e6], dtype=g.x.dtype)
    d = divide([g], [], HidingRates(np.array([0.1, 0.1, 0.8])), PLAIN, (0.3, 0.3), seed)
    shown = g.x[:, 2][d.trainable[:, 2]]
    assert shown.min() < shown.max()
    g.x[[7, 11, 30], 2] = 5e6
    constant = divide([g], [], HidingRates(np.array([0.1, 0.1, 0.8])), PLAIN, (0.3, 0.3), seed)
    assert constant.trainable[:, 2].any()


@pytest.mark.parametrize("seed", range(10))
def test_training_graphs_show_the_range_of_every_column_that_has_one(seed):
    members = graphs(MANY_GRAPHS, n=5)
    for i, g in enumerate(members):
        g.x[:, 2] = 5e6 if i else 6e6
    d = divide(members, [], RATES, PLAIN, (0.2, 0.2), seed)
    shown = torch.cat([g.x[:, 2] for g in d.train])
    assert shown.min() < shown.max()


def test_rare_flags_are_held_out_as_often_as_any_cell():
    rng, shares = np.random.default_rng(0), []
    flags = graphs(1, n=40, d=400)[0]
    flags.x[:] = torch.from_numpy((rng.random((40, 400)) < 0.02).astype(float))
    for seed in range(5):
        d = divide([flags], [], HidingRates(np.full(400, 0.2)), torch.arange(400), (0.2, 0.2), seed)
        held = d.validation.hidden | d.calibration.hidden
        shares.append(float(flags.x[held].mean()))
    assert np.mean(shares) == pytest.approx(float(flags.x.mean()), rel=0.1)


def test_one_hot_groups_are_set_aside_as_one():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=80)
    x = np.concatenate([rng.standard_normal((80, 1)), np.eye(3)[codes]], axis=1)
    x[rng.random(80) < 0.3, 1:] = np.nan
    rates = HidingRates(np.array([0.2, 0.2]))
    d = divide([to_data(x, ring(80))], [], rates, column_of(COLUMNS), (0.2, 0.2), 0)
    for cells in (d.trainable, d.validation.hidden, d.calibration.hidden):
        assert torch.equal(cells[:, 1:].any(dim=1), cells[:, 1:].all(dim=1))
        assert cells[:, 1].any()


def test_columns_without_holes_are_judged_less():
    members = graphs(1, n=2000, rate=0.0)
    d = divide(members, [], HidingRates(np.array([0.3, 0.03, 0.3])), PLAIN, (0.1, 0.1), 0)
    count = d.calibration.hidden.sum(dim=0).float()
    assert float(count[1] / count[0]) == pytest.approx(0.1, abs=0.05)


def test_whole_rows_are_set_aside_where_whole_rows_are_missing():
    members = graphs(1, n=2000, rate=0.0)
    d = divide(members, [], HidingRates(np.full(3, 0.1), rows=0.3), PLAIN, (0.1, 0.2), 0)
    whole = d.calibration.hidden.all(dim=1).float().mean()
    assert float(whole) == pytest.approx(0.2 * 0.75, abs=0.04)


def test_too_few_cells_are_all_trained_on():
    members = graphs(1, n=5, rate=0.0)
    d = divide(members, [], RATES, PLAIN, (0.1, 0.1), 0)
    assert d.validation is None
    assert d.calibration is None
    assert torch.equal(d.trainable, observed(members))


def test_no_more_cells_than_help():
    members = [to_data(np.zeros((150_000, 3)), sp.csr_array((150_000, 150_000)))]
    d = divide(members, [], RATES, PLAIN, (0.5, 0.5), 0)
    assert int(d.calibration.hidden.sum()) == pytest.approx(MOST_CELLS, rel=0.05)


def test_many_graphs_are_set_aside_whole():
    members = graphs(40, rate=0.0)
    d = divide(members, [], RATES, PLAIN, (0.1, 0.2), 0)
    assert d.by_graph
    train, judge, calibrate = ({id(g) for g in part} for part in (d.train, d.validation.graphs, d.calibration.graphs))
    assert not train & judge
    assert not train & calibrate
    assert not judge & calibrate
    assert train | judge | calibrate == {id(g) for g in members}
    assert (len(judge), len(calibrate)) == (4, 8)
    assert torch.equal(d.trainable, observed(d.train))
    for held in (d.validation, d.calibration):
        assert not (held.visible & held.hidden).any()
        assert torch.equal(held.visible | held.hidden, observed(held.graphs))
        assert float(held.hidden.sum() / observed(held.graphs).sum()) == pytest.approx(0.2, abs=0.05)


def test_nineteen_graphs_are_few_and_twenty_many():
    assert not divide(graphs(MANY_GRAPHS - 1), [], RATES, PLAIN, (0.1, 0.1), 0).by_graph
    assert divide(graphs(MANY_GRAPHS), [], RATES, PLAIN, (0.1, 0.1), 0).by_graph


def test_given_validation_graphs_judge_and_every_other_one_calibrates():
    members, given = graphs(25), graphs(12, seed=5)
    d = divide(members, given, RATES, PLAIN, (0.1, 0.1), 0)
    assert [id(g) for g in d.train] == [id(g) for g in members]
    assert {id(g) for g in d.validation.graphs} == {id(g) for g in given[0::2]}
    assert {id(g) for g in d.calibration.graphs} == {id(g) for g in given[1::2]}


def test_few_validation_graphs_only_judge():
    members, given = graphs(30), graphs(4, seed=5)
    d = divide(members, given, RATES, PLAIN, (0.1, 0.1), 0)
    assert {id(g) for g in d.validation.graphs} == {id(g) for g in given}
    calibrate, train = ({id(g) for g in part} for part in (d.calibration.graphs, d.train))
    assert len(calibrate) == 3
    assert not calibrate & train
    assert calibrate | train == {id(g) for g in members}


def test_validation_graphs_beside_few_training_graphs_judge_and_do_not_train():
    members, given = graphs(3, n=60), graphs(2, n=60, seed=5)
    d = divide(members, given, RATES, PLAIN, (0.1, 0.1), 0)
    assert [id(g) for g in d.train] == [id(g) for g in members]
    assert {id(g) for g in d.validation.graphs} == {id(g) for g in given}
    assert torch.equal(d.trainable | d.calibration.hidden, observed(members))


def test_a_validation_share_of_zero_sets_no_graph_aside():
    d = divide(graphs(30), [], RATES, PLAIN, (0.0, 0.1), 0)
    assert d.validation is None
    assert len(d.train) == 27


@pytest.mark.parametrize("seed", range(12))
def test_a_column_seen_in_one_graph_alone_is_trained_on(seed):
    members = graphs(24)
    for i, g in enumerate(members):
        if i != 3:
            g.x[:, 2] = torch.nan
    d = divide(members, [], RATES, PLAIN, (0.4, 0.4), seed)
    assert d.trainable.any(dim=0).all()
    everything = {id(g) for part in (d.train, d.validation.graphs, d.calibration.graphs) for g in part}
    assert everything == {id(g) for g in members}


def test_nothing_to_calibrate_with_when_asked_for_none():
    assert divide(graphs(30), [], RATES, PLAIN, (0.1, 0.0), 0).calibration is None
    assert divide(graphs(1, n=60), [], RATES, PLAIN, (0.1, 0.0), 0).calibration is None


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.3])
def test_calibration_graphs_with_holes_are_hidden_less(rate):
    """So that a cell is predicted from as much as real holes are."""
    members, given = graphs(25, n=40), graphs(40, n=40, rate=rate, seed=5)
    held = divide(members, given, HidingRates(np.array([0.3, 0.3, 0.03])), PLAIN, (0.1, 0.1), 0).calibration
    share = (held.hidden.sum(dim=0) / observed(held.graphs).sum(dim=0)).numpy()
    left = float(held.visible[:, :2].float().mean())
    factor = {0.0: 1.0, 0.1: 0.1, 0.3: 0.1}[rate]  # the third column has more holes than asked for already
    assert np.allclose(share, factor * np.array([0.3, 0.3, 0.03]), atol=0.015)
    assert left == pytest.approx((1 - rate) * (1 - factor * 0.3), abs=0.02)

"""Intervals and draws: nested, around the prediction, reproducible, and calibrated on what they should be."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from imputer_cases import ring, same_bits
from megae_cases import collection, holes, megae, mixed, punched, waves

from megae.columns import Column
from megae.imputers.uncertainty import MANY, Calibration

X = punched(waves(80), holes((80, 4)))
LOST = np.isnan(X)
A = ring(80)


@pytest.fixture(scope="module")
def fitted():
    return megae(calibration_fraction=0.3).fit(X, graph=A)


def test_intervals_hold_the_prediction_and_grow_with_coverage(fitted):
    filled, width = fitted.transform(X), 0.0
    for coverage in (0.5, 0.8, 0.9, 0.95):
        lower, upper = fitted.intervals(X, coverage=coverage)
        assert (lower <= filled).all()
        assert (filled <= upper).all()
        assert same_bits(lower[~LOST], X[~LOST])
        assert same_bits(upper[~LOST], X[~LOST])
        assert ((upper - lower)[LOST] > 0).all()
        now = (upper - lower)[LOST].mean()
        assert now > width
        width = now


@pytest.mark.parametrize("coverage", [0.0, 1.0, -0.5, 90, float("nan")])
def test_impossible_coverage_is_refused(fitted, coverage):
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1"):
        fitted.intervals(X, coverage=coverage)


def test_half_width_is_the_conformal_quantile():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal(99)
    calibration = Calibration(scores, np.zeros(99, dtype=np.int64), np.array([2.0, 0.5]))
    for coverage in (0.5, 0.9, 0.95):
        k = math.ceil(100 * coverage)
        assert np.allclose(calibration.half_width(coverage), np.sort(np.abs(scores))[k - 1] * np.array([2.0, 0.5]))
    assert np.isinf(calibration.half_width(0.995)).all()


def test_columns_with_many_cells_have_their_own_quantile():
    rng = np.random.default_rng(0)
    columns = np.repeat([0, 1, 2], [MANY, 3 * MANY, MANY - 1])
    scores = rng.standard_normal(columns.size) * np.array([1.0, 5.0, 1.0])[columns]
    half = Calibration(scores, columns, np.ones(3)).half_width(0.9)
    for e, own in ((0, scores[columns == 0]), (1, scores[columns == 1]), (2, scores)):
        k = math.ceil((own.size + 1) * 0.9)
        assert half[e] == np.sort(np.abs(own))[k - 1]
    assert half[1] > 3 * half[0]


def test_conformal_promise_on_exchangeable_errors():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(400):
        calibration = Calibration(rng.standard_t(3, 60), np.zeros(60, dtype=np.int64), np.ones(1))
        inside.append(np.abs(rng.standard_t(3, 50)) <= calibration.half_width(0.9)[0])
    assert 0.895 < np.mean(inside) < 0.925  # between 0.9 and 0.9 + 1/61, and 400 draws of noise


def test_spread_is_measured_on_the_cells_to_stop_by():
    X2 = X.copy()
    X2[:, 2] += 3.0 * np.random.default_rng(0).standard_normal(80)
    noisy = megae(calibration_fraction=0.2, validation_fraction=0.3).fit(X2, graph=A)
    lower, upper = noisy.intervals(X2, coverage=0.7)
    width = np.array([(upper - lower)[LOST[:, j], j].mean() / noisy.scale_[j] for j in range(4)])
    assert noisy.calibration_.spread.std() > 0
    assert np.allclose(width / noisy.calibration_.spread, (width / noisy.calibration_.spread)[0])


def test_too_few_cells_give_infinite_ends_and_keep_categories():
    frame = mixed(40)
    small = megae(calibration_fraction=0.05).fit(frame, graph=ring(40))
    assert small.calibration_.scores.size < 99
    filled = small.transform(frame)
    lower, upper = small.intervals(frame, coverage=0.99)
    lost = frame["size"].isna()
    assert np.isneginf(lower["size"][lost]).all()
    assert np.isposinf(upper["size"][lost]).all()
    assert (lower["flag"][frame["flag"].isna()] == 0).all()
    assert (upper["flag"][frame["flag"].isna()] == 1).all()
    assert lower["colour"].equals(filled["colour"])
    assert upper["colour"].equals(filled["colour"])
    assert (lower["rank"] <= filled["rank"]).all()


def test_infinite_ends_of_whole_numbers():
    frame = mixed(40)
    small = megae(calibration_fraction=0.05).fit(frame, graph=ring(40))
    _, upper = small.intervals(frame, coverage=0.99)
    assert (small.transform(frame)["rank"] <= upper["rank"]).all()


def test_frames_come_back_as_frames():
    frame = pd.DataFrame(X, columns=list("abcd")).set_axis([f"n{i}" for i in range(80)])
    fitted = megae(calibration_fraction=0.3).fit(frame, graph=A)
    for out in (*fitted.intervals(frame, coverage=0.5), *fitted.sample(frame, n=2)):
        assert out.index.equals(frame.index)
        assert out.columns.equals(frame.columns)
        assert not out.isna().any().any()


def test_draws_differ_in_the_holes_alone(fitted):
    draws = fitted.sample(X, n=30)
    assert len(draws) == 30
    assert all(same_bits(d[~LOST], X[~LOST]) for d in draws)
    spread = np.std(draws, axis=0)
    assert (spread[LOST] > 0).all()
    sizes = fitted.calibration_.spread * fitted.scale_ * fitted.calibration_.scores.std()
    assert np.allclose([spread[LOST[:, j], j].mean() / sizes[j] for j in range(4)], 1.0, atol=0.35)


def test_seeds_of_draws(fitted):
    a, b, c = (fitted.sample(X, n=2, random_state=s) for s in (5, 5, 6))
    assert all(same_bits(x, y) for x, y in zip(a, b, strict=True))
    assert not same_bits(a[0], c[0])
    assert not same_bits(a[0], a[1])
    assert same_bits(fitted.sample(X, n=1)[0], fitted.sample(X, n=1)[0])
    state = torch.get_rng_state(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    fitted.sample(X, n=1)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert np.random.get_state()[1].tobytes() == state[1]  # noqa: NPY002


def test_no_draws_are_refused(fitted):
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        fitted.sample(X, n=0)


def test_draws_follow_predicted_probabilities():
    columns = [Column("c", "categorical", 0, 3, categories=("a", "b", "c")), Column("f", "binary", 3, 4)]
    values = np.tile([0.2, 0.5, 0.3, 0.7], (6000, 1))
    calibration = Calibration(np.zeros(5), np.zeros(5, dtype=np.int64), np.ones(4))
    drawn = calibration.draw(values, np.ones(4), columns, np.random.default_rng(0))
    assert set(np.unique(drawn)) == {0.0, 1.0}
    assert (drawn[:, :3].sum(axis=1) == 1).all()
    assert np.allclose(drawn.mean(axis=0), values[0], atol=0.03)


def test_errors_are_drawn_from_the_column_itself_where_it_has_enough():
    columns = [Column("a", "continuous", 0, 1), Column("b", "continuous", 1, 2)]
    scores = np.concatenate([np.full(60, 1.0), np.full(10, -9.0)])
    calibration = Calibration(scores, np.repeat([0, 1], [60, 10]), np.array([0.5, 2.0]))
    drawn = calibration.draw(np.zeros((500, 2)), np.array([10.0, 1.0]), columns, np.random.default_rng(0))
    assert (drawn[:, 0] == 5.0).all()
    assert set(np.unique(drawn[:, 1])) == {2.0, -18.0}


def test_graphs_come_back_as_graphs():
    graphs = collection(24)
    fitted = megae().fit(graphs)
    lower, upper = fitted.intervals(graphs[:3], coverage=0.8)
    (draw,) = fitted.sample(graphs[:3], n=1)
    for g, lo, up, d in zip(graphs, lower, upper, draw, strict=False):
        seen = ~torch.isnan(g.x)
        assert (lo.x <= up.x).all()
        assert torch.equal(lo.x[seen], g.x[seen])
        assert torch.equal(d.x[seen], g.x[seen])
        assert torch.isfinite(d.x).all()

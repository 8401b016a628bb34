"""Scores, intervals and ranks out of errors, against scipy and against arithmetic done another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from megae.bench.ranking import Entry, Scored, rank_methods, resampled_scores

NAMES = ["a", "b", "c"]


def cells(n: int = 400, n_rows: int = 60, seed: int = 0, categorical: tuple[bool, ...] = (False, False, False)):
    rng = np.random.default_rng(seed)
    return Scored(rng.integers(n_rows, size=n), rng.integers(3, size=n), NAMES, np.array(categorical))


def runs(**errors: np.ndarray | None):
    return [
        (Entry(name, 1.0, error="ValueError: no" if e is None else None), None if e is None else np.asarray(e))
        for name, e in errors.items()
    ]


def by_row(scored: Scored, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of squares and counts of each row, with a loop."""
    rows = sorted(set(scored.rows.tolist()))
    return (
        np.array([sum(errors[scored.rows == r] ** 2) for r in rows]),
        np.array([(scored.rows == r).sum() for r in rows]),
    )


def test_intervals_agree_with_scipys_bootstrap_over_rows():
    scored = cells()
    rng = np.random.default_rng(1)
    good, bad = 0.2 * rng.standard_normal(400), 0.25 * rng.standard_normal(400)
    first, second = rank_methods(runs(bad=bad, good=good), scored, [], 4000, 0)
    assert (first.method, second.method) == ("good", "bad")
    (s_good, counts), (s_bad, _) = by_row(scored, good), by_row(scored, bad)

    def score(squares, n, axis):
        return np.sqrt(squares.sum(axis=axis) / n.sum(axis=axis))

    def difference(worse, better, n, axis):
        return score(worse, n, axis) - score(better, n, axis)

    options = {"paired": True, "n_resamples": 4000, "method": "percentile", "rng": np.random.default_rng(2)}
    alone = stats.bootstrap((s_good, counts), score, **options).confidence_interval
    paired = stats.bootstrap((s_bad, s_good, counts), difference, **options).confidence_interval
    assert [first.low, first.high] == pytest.approx([alone.low, alone.high], abs=1e-3)
    assert [second.difference_low, second.difference_high] == pytest.approx([paired.low, paired.high], abs=2e-3)
    assert first.score == pytest.approx(np.sqrt(np.mean(good**2)))
    assert second.difference == pytest.approx(np.sqrt(np.mean(bad**2)) - np.sqrt(np.mean(good**2)))


def test_rows_are_drawn_and_not_cells():
    """With errors that rows share, the interval over rows is far wider than one over cells would be."""
    scored = Scored(np.repeat(np.arange(20), 50), np.zeros(1000, dtype=int), NAMES[:1], np.array([False]))
    shared = np.repeat(np.random.default_rng(0).standard_normal(20), 50)
    [entry] = rank_methods(runs(m=shared), scored, [], 2000, 0)
    alone = Scored(np.arange(1000), scored.columns, NAMES[:1], scored.categorical)
    [cell_wise] = rank_methods(runs(m=shared), alone, [], 2000, 0)
    assert entry.high - entry.low > 4 * (cell_wise.high - cell_wise.low)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        squares = rng.gamma(2.0, 0.5, size=(80, 1))
        samples = resampled_scores(squares, np.ones(80), 400, trial)
        low, high = np.quantile(samples, [0.025, 0.975])
        hits += low <= 1.0 <= high
    assert 0.90 <= hits / 200 <= 0.98


def test_resamples_follow_their_seed():
    squares, counts = np.random.default_rng(0).random((10, 2)), np.ones(10)
    first = resampled_scores(squares, counts, 50, 3)
    assert first.tobytes() == resampled_scores(squares, counts, 50, 3).tobytes()
    assert first.tobytes() != resampled_scores(squares, counts, 50, 4).tobytes()


def test_same_fill_is_tied_whatever_its_last_bit_and_keeps_its_order():
    errors = 0.2 * np.random.default_rng(0).standard_normal(400)
    first, second, third = rank_methods(
        runs(mean=errors * (1 + 1e-15), graph=errors, worse=errors * 1.5), cells(), [], 500, 0
    )
    assert (first.method, first.tied, first.status) == ("mean", False, "winner")
    assert (second.method, second.tied, second.status) == ("graph", True, "tied")
    assert (third.method, third.tied, third.status) == ("worse", False, "behind")
    assert (first.rank, second.rank, third.rank) == (1, 2, 3)
    assert first.difference == 0.0


def test_noise_alone_does_not_part_two_methods():
    rng = np.random.default_rng(0)
    parted = 0
    for trial in range(100):
        pair = {"a": rng.standard_normal(400), "b": rng.standard_normal(400)}
        parted += not rank_methods(runs(**pair), cells(seed=trial), [], 300, trial)[1].tied
    assert parted <= 12


def test_shares_of_first_places_add_up_and_the_reference_has_none():
    rng = np.random.default_rng(0)
    errors = {name: 0.2 * rng.standard_normal(400) for name in "abc"}
    entries = rank_methods(runs(**errors, ref=0.01 * errors["a"]), cells(), ["ref"], 500, 0)
    assert entries[-1].method == "ref"
    assert entries[-1].rank is None
    assert entries[-1].best is None
    assert entries[-1].difference < 0
    assert entries[-1].difference_high < 0
    assert not entries[-1].tied
    assert sum(e.best for e in entries[:-1]) == pytest.approx(1.0)
    assert [e.rank for e in entries] == [1, 2, 3, None]


def test_failed_methods_come_last_without_figures():
    entries = rank_methods(runs(broken=None, fine=np.full(400, 0.1)), cells(), [], 50, 0)
    assert [(e.method, e.status) for e in entries] == [("fine", "winner"), ("broken", "failed")]
    assert entries[1].score is None
    assert rank_methods(runs(broken=None), cells(), [], 50, 0)[0].status == "failed"


def test_numbers_and_categories_are_measured_apart():
    scored = cells(categorical=(False, True, False))
    rng = np.random.default_rng(0)
    category = scored.columns == 1
    errors = np.where(category, (rng.random(400) < 0.3) / 0.4, rng.standard_normal(400))
    [entry] = rank_methods(runs(m=errors), scored, [], 50, 0)
    assert entry.score == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert entry.rmse == pytest.approx(np.sqrt(np.mean(errors[~category] ** 2)))
    assert entry.mae == pytest.approx(np.mean(np.abs(errors[~category])))
    assert entry.error_rate == pytest.approx(np.mean(errors[category] > 0))
    expected = [
        np.sqrt(np.mean(errors[scored.columns == 0] ** 2)),
        np.mean(errors[category] > 0),
        np.sqrt(np.mean(errors[scored.columns == 2] ** 2)),
    ]
    np.testing.assert_allclose(entry.by_column, expected)


def test_column_without_a_hidden_cell_has_no_figure():
    scored = Scored(np.arange(10), np.zeros(10, dtype=int), NAMES, np.array([False, True, False]))
    [entry] = rank_methods(runs(m=np.ones(10)), scored, [], 50, 0)
    np.testing.assert_array_equal(np.isnan(entry.by_column), [False, True, True])
    assert entry.error_rate is None

r"""From errors in the same hidden cells to a ranking with intervals.

The score of a method is the root of the mean square over hidden cells, all columns and repeats together,

.. math:: s = \sqrt{\frac{1}{n} \sum_{c} e_c^2},

with :math:`e_c` in units of its column, and 0 or 1 (right or wrong, over the column's unit) for categories. Intervals
come from a bootstrap that draws rows: cells of one row stand or fall together. Every resample scores all methods on the
same rows, so differences are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

FLOOR = ("zero", "mean", "median", "graph-mean")
"""Methods that look at one column alone: what any other method has to beat."""

COVERAGE = 0.95
_SAME = 1e-9
"""Relative difference below which two scores are one: the same fill, summed in another order."""


@dataclass(frozen=True)
class Scored:
    """Which cells count, over all repeats.

    Parameters
    ----------
    rows, columns : int ndarrays of shape (n,)
    names : D column names
    categorical : bool ndarray of shape (D,)
    """

    rows: np.ndarray
    columns: np.ndarray
    names: list[str]
    categorical: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """Cells in each column, (D,)."""
        return np.bincount(self.columns, minlength=len(self.names))


@dataclass(frozen=True)
class Entry:
    """One method: figures are None where it failed, or where there is no such column.

    Parameters
    ----------
    method : str
    seconds : float
        Fitting and filling once, on average.
    error : why it failed, or None
    warnings : what it warned of
    rank : int or None
        None for a method that failed, and for the reference.
    score : float
        RMSE over all hidden cells, wrong categories counting as errors of 1; decides the rank.
    low, high : float
        95 % interval of the score.
    rmse, mae : float or None
        Over columns of numbers.
    error_rate : float or None
        Share of wrong categories, over categorical columns.
    difference, difference_low, difference_high : float
        Score minus the winner's, and its 95 % interval.
    tied : bool
        Whether that interval holds 0: not distinguishable from the winner.
    best : float
        Share of resamples in which its score is the lowest.
    by_column : ndarray of shape (D,)
        RMSE, or share of wrong categories; NaN without a hidden cell.
    """

    method: str
    seconds: float
    error: str | None = None
    warnings: tuple[str, ...] = ()
    rank: int | None = None
    score: float | None = None
    low: float | None = None
    high: float | None = None
    rmse: float | None = None
    mae: float | None = None
    error_rate: float | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    tied: bool = False
    best: float | None = None
    by_column: np.ndarray = field(default_factory=lambda: np.zeros(0), repr=False)

    @property
    def status(self) -> str:
        """In a word: winner, tied, behind, reference or failed."""
        if self.error is not None:
            return "failed"
        if self.rank is None:
            return "reference"
        return "winner" if self.rank == 1 else "tied" if self.tied else "behind"

    def to_dict(self) -> dict[str, Any]:
        """The figures, without those of single columns."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "by_column"}
        return {**kept, "status": self.status, "warnings": list(self.warnings)}


def resampled_scores(squares: np.ndarray, counts: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
    """Scores of all methods on bootstrap samples of rows.

    Parameters
    ----------
    squares : ndarray of shape (rows, methods)
        Sum of squared errors in each row.
    counts : ndarray of shape (rows,)
        Hidden cells in each row, at least 1.

    Returns
    -------
    ndarray of shape (n_resamples, methods)
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    both = np.column_stack([squares, counts]).astype(np.float64)
    sums = np.empty((n_resamples, both.shape[1]))
    for b in range(n_resamples):
        sums[b] = np.bincount(rng.integers(len(both), size=len(both)), minlength=len(both)) @ both
    return np.sqrt(sums[:, :-1] / sums[:, -1:])


def rank_methods(
    runs: Sequence[tuple[Entry, np.ndarray | None]],
    scored: Scored,
    reference: Sequence[str],
    n_resamples: int,
    seed: int,
) -> list[Entry]:
    """Fill in the figures of every entry and order them: by score, then those out of the ranking, then the failed.

    Parameters
    ----------
    runs : (entry, errors (n,) in the scored cells, or None) per method
    scored : Scored
    reference : methods that are scored but cannot win
    """
    failed = [entry for entry, errors in runs if errors is None]
    done = [(entry, errors) for entry, errors in runs if errors is not None]
    scores = {e.method: float(np.sqrt(np.mean(errors**2))) for e, errors in done}
    done.sort(key=lambda run: (run[0].method in reference, float(f"{scores[run[0].method]:.9g}")))
    if not done:
        return failed
    _, row = np.unique(scored.rows, return_inverse=True)
    squares = np.stack([np.bincount(row, errors**2) for _, errors in done], axis=1)
    samples = resampled_scores(squares, np.bincount(row), n_resamples, seed)
    contenders = sum(e.method not in reference for e, _ in done)
    firsts = None
    if contenders:  # of methods with the same fill, the better-ranked one is first
        ranked_samples = samples[:, :contenders]
        first = (ranked_samples <= (1 + _SAME) * ranked_samples.min(axis=1, keepdims=True)).argmax(axis=1)
        firsts = np.bincount(first, minlength=len(done))
    tails = [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]
    entries = []
    for k, (entry, errors) in enumerate(done):
        low, high = np.quantile(samples[:, k], tails).tolist()
        away_low, away_high = np.quantile(samples[:, k] - samples[:, 0], tails).tolist()
        score = scores[entry.method]
        ranked = k < contenders
        entries.append(
            replace(
                entry,
                rank=k + 1 if ranked else None,
                score=score,
                low=low,
                high=high,
                difference=score - scores[done[0][0].method],
                difference_low=away_low,
                difference_high=away_high,
                tied=k > 0 and away_low <= _SAME * score and (ranked or away_high >= -_SAME * score),
                best=float(firsts[k]) / n_resamples if ranked and firsts is not None else None,
                **_measures(errors, scored),
            )
        )
    return entries + failed


def _measures(errors: np.ndarray, scored: Scored) -> dict[str, Any]:
    category = scored.categorical[scored.columns]
    numbers, wrong = errors[~category], errors[category] != 0
    counts = scored.counts
    sums = np.bincount(scored.columns, np.where(category, errors != 0, errors**2), minlength=len(counts))
    with np.errstate(invalid="ignore"):
        means = sums / counts
    return {
        "rmse": float(np.sqrt(np.mean(numbers**2))) if numbers.size else None,
        "mae": float(np.mean(np.abs(numbers))) if numbers.size else None,
        "error_rate": float(np.mean(wrong)) if wrong.size else None,
        "by_column": np.where(scored.categorical, means, np.sqrt(means)),
    }

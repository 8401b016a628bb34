"""Split-conformal calibration: how far predictions were off on cells that nothing else was done with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from megae.columns import Column
from megae.training.task import Exam, ImputationNetwork

ENOUGH = 50
"""Calibration cells from which a column's errors are drawn from its own."""

MANY = 200
"""Calibration cells from which a column's interval is its own; it then errs by at most half a point."""


@dataclass(frozen=True)
class Calibration:
    r"""Errors on the calibration cells, in units of what is usual for their column.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Signed errors (truth - prediction) / (spread of the column).
    columns : ndarray of shape (n,), int64
        Encoded column of each.
    spread : ndarray of shape (E,)
        Usual size of an error, standardised; measured on the validation cells, shrunk to the mean over columns where a
        column has few.
    """

    scores: np.ndarray
    columns: np.ndarray
    spread: np.ndarray

    @classmethod
    def measure(
        cls, network: ImputationNetwork, validation: Exam | None, calibration: Exam | None
    ) -> Calibration | None:
        """Predict both exams; None where nothing was set aside to calibrate with."""
        if calibration is None:
            return None
        errors, columns = _errors(network, calibration)
        E = calibration.hidden.shape[1]
        spread = np.ones(E)
        if validation is not None:
            seen, where = _errors(network, validation)
            overall = max(float(np.mean(seen**2)), 1e-12)
            total = np.bincount(where, seen**2, minlength=E)
            count = np.bincount(where, minlength=E)
            spread = np.sqrt((total + 10 * overall) / (count + 10))
        return cls(errors / spread[columns], columns, spread)

    def rmse(self, weight: np.ndarray, exam: Exam) -> float:
        """Pooled RMSE over the cells of the calibration ``exam``; ``weight`` (E,) is units of error per standardised
        unit."""
        return exam.rms(self.scores * (self.spread * weight)[self.columns])

    def half_width(self, coverage: float) -> np.ndarray:
        """Half the width of the interval of each column, standardised, (E,).

        The k-th smallest absolute score with k = ceil((n + 1) coverage) (Lei et al. 2018), among the scores of the
        column where it has ``MANY``, else among all; infinite where n is too small for such a coverage.
        """
        pooled = _quantile(self.scores, coverage)
        half = np.full(self.spread.size, pooled)
        for e in np.flatnonzero(np.bincount(self.columns, minlength=half.size) >= MANY):
            half[e] = _quantile(self.scores[self.columns == e], coverage)
        return half * self.spread

    def draw(
        self, values: np.ndarray, scale: np.ndarray, columns: Sequence[Column], rng: np.random.Generator
    ) -> np.ndarray:
        """One completed matrix (N, E): predictions plus drawn errors, or draws from predicted probabilities."""
        out = values.copy()
        for column in columns:
            span = slice(column.start, column.stop)
            if column.kind == "categorical":
                share = np.clip(values[:, span], 1e-12, None).cumsum(axis=1)
                pick = (rng.random((len(values), 1)) * share[:, -1:] > share).sum(axis=1)
                out[:, span] = np.arange(column.stop - column.start) == pick[:, None]
            elif column.kind == "binary":
                out[:, column.start] = rng.random(len(values)) < values[:, column.start]
            else:
                own = self.scores[self.columns == column.start]
                pool = own if own.size >= ENOUGH else self.scores
                step = self.spread[column.start] * scale[column.start]
                out[:, column.start] += rng.choice(pool, len(values)) * step
        return out


def _quantile(scores: np.ndarray, coverage: float) -> float:
    n = scores.size
    k = math.ceil((n + 1) * coverage)
    return math.inf if k > n else float(np.partition(np.abs(scores), k - 1)[k - 1])


def _errors(network: ImputationNetwork, exam: Exam) -> tuple[np.ndarray, np.ndarray]:
    """Truth minus prediction on an exam's hidden cells, standardised, and the column of each."""
    values = network.predict(exam.pool, exam.visible)
    return (exam.pool.whole.values - values)[exam.hidden].double().cpu().numpy(), exam.columns()

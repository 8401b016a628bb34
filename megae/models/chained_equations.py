"""Regressions of each column on the others, learnt in rounds while holes are drawn, and replayed on new rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.linear_model import BayesianRidge


class Equation(NamedTuple):
    """``column`` regressed on ``predictors``; ``model`` is None where there is nothing to learn from."""

    column: int
    predictors: np.ndarray
    model: BayesianRidge | None


Round = list[Equation]


def stream(seed: int, imputation: int, x: np.ndarray) -> np.random.RandomState:
    """Random numbers that depend on the seed, the imputation and what x (N, E) shows, and on nothing else."""
    shown = np.where(np.isnan(x), np.nan, x) + 0.0
    digest = hashlib.sha256(repr(shown.shape).encode() + np.ascontiguousarray(shown).tobytes()).digest()
    return np.random.RandomState([seed, imputation, *np.frombuffer(digest[:16], np.uint32).tolist()])


def affinities(z: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Chance of each column to be a predictor of each other one, (E, E), columns summing to 1.

    Parameters
    ----------
    z : ndarray of shape (N, E), centred, NaN in holes
    group : ndarray of shape (E,)
        Columns of one group (the one-hot columns of a category) are no predictors of each other.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        near = np.abs(np.corrcoef(np.nan_to_num(z).T)).reshape(len(group), len(group))
    near = np.clip(np.nan_to_num(near, nan=0.0), 1e-6, None)
    near[group[:, None] == group] = 0.0
    return near / np.maximum(near.sum(axis=0), 1e-300)


@dataclass
class ChainedEquations:
    """One imputation in the making.

    Parameters
    ----------
    z : ndarray of shape (N, E)
        Centred rows to learn from, NaN in holes; holes start at 0.
    group : ndarray of shape (E,)
        See :func:`affinities`.
    n_nearest : int or None
        Predictors per equation, None for all.
    bounds : pair of ndarrays of shape (E,)
        Means and draws are squeezed into these.
    draws : RandomState
        For the holes: one uniform number per hole and round, in the order of the columns.
    choices : RandomState
        For the predictors, where not all are taken.
    """

    z: np.ndarray
    group: np.ndarray
    n_nearest: int | None
    bounds: tuple[np.ndarray, np.ndarray]
    draws: np.random.RandomState
    choices: np.random.RandomState

    def __post_init__(self) -> None:
        self.holes = np.isnan(self.z)
        self.filled = np.asfortranarray(np.nan_to_num(self.z))
        self.order = np.argsort(self.holes.mean(axis=0), kind="stable")
        self.equations: Round = []
        wanted = self.n_nearest is not None and self.n_nearest < len(self.group)
        self._near = affinities(self.z, self.group) if wanted else None

    def advance(self) -> Equation:
        """Fit the next equation and draw the holes of its column."""
        j = int(self.order[len(self.equations) % len(self.order)])
        shown, holes = ~self.holes[:, j], self.holes[:, j]
        predictors = self._predictors(j)
        model = None
        if predictors.size and shown.sum() > 1:
            model = BayesianRidge().fit(self.filled[shown][:, predictors], self.filled[shown, j])
        equation = Equation(j, predictors, model)
        if holes.any():
            low, high = self.bounds[0][j], self.bounds[1][j]
            mean, deviation = moments(equation, self.filled[holes])
            noise = _normal(self.draws.random_sample(int(holes.sum())))
            self.filled[holes, j] = np.clip(np.clip(mean, low, high) + deviation * noise, low, high)
        self.equations.append(equation)
        return equation

    def rounds(self) -> list[Round]:
        """The equations by round; a last round that was not finished is left out, unless it is the first."""
        width = len(self.order)
        whole = [self.equations[i : i + width] for i in range(0, len(self.equations), width)]
        return whole[:-1] if len(whole) > 1 and len(whole[-1]) < width else whole

    def _predictors(self, j: int) -> np.ndarray:
        others = np.flatnonzero(self.group != self.group[j])
        if self._near is None or self.n_nearest is None or self.n_nearest >= others.size:
            return others
        return self.choices.choice(len(self.group), self.n_nearest, replace=False, p=self._near[:, j])


class Imputation(NamedTuple):
    """Rows gone through the rounds of a chain: each (N, E), and in the holes ``draw = mean + deviation * noise``."""

    draw: np.ndarray
    mean: np.ndarray
    variance: np.ndarray


def replay(
    rounds: Sequence[Round],
    z: np.ndarray,
    ptr: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    draws: Sequence[np.random.RandomState],
) -> Imputation:
    """Send new rows through the equations of a chain.

    Parameters
    ----------
    rounds : rounds of equations, each round over the same columns in the same order
    z : ndarray of shape (N, E)
        Centred rows, NaN in holes.
    ptr : ndarray of shape (G + 1,)
        Where each graph's rows begin and end.
    bounds : pair of ndarrays of shape (E,)
        Means and draws are squeezed into these.
    draws : one RandomState per graph
        Gives one uniform number per hole of the graph and round, in the order of the columns.
    """
    holes = np.isnan(z)
    filled, mean, variance = (np.nan_to_num(z) for _ in range(3))
    variance[:] = 0.0
    order = np.array([e.column for e in rounds[0]])
    places = []
    for start, stop in pairwise(ptr):
        position, row = np.nonzero(holes[start:stop, order].T)
        places.append((row + start, order[position]))
    noise = np.zeros(z.shape)
    for equations in rounds:
        for place, source in zip(places, draws, strict=True):
            noise[place] = _normal(source.random_sample(len(place[0])))
        for equation in equations:
            j = equation.column
            rows = holes[:, j]
            if rows.any():
                low, high = bounds[0][j], bounds[1][j]
                center, deviation = moments(equation, filled[rows])
                mean[rows, j] = np.clip(center, low, high)
                variance[rows, j] = deviation**2
                filled[rows, j] = np.clip(mean[rows, j] + deviation * noise[rows, j], low, high)
    return Imputation(filled, mean, variance)


def moments(equation: Equation, rows: np.ndarray) -> tuple[Any, Any]:
    """Mean and deviation of the predictive distribution of a column in each of these rows (N, E); two arrays (N,)."""
    if equation.model is None:
        return np.zeros(len(rows)), np.zeros(len(rows))
    with np.errstate(invalid="ignore"):  # rounding can make a variance negative where columns depend linearly
        mean, deviation = equation.model.predict(rows[:, equation.predictors], return_std=True)
    return mean, np.where(deviation > 0, deviation, 0.0)


def _normal(uniform: np.ndarray) -> np.ndarray:
    return ndtri(np.maximum(uniform, np.finfo(float).tiny))

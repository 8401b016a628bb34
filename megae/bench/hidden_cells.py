"""Hiding observed cells of a table on purpose, and what an error in each of them counts."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np

from megae.missingness import MECHANISMS
from megae.tables import is_frame, read_table

KEEP = 3
"""Observed cells that every column keeps, or all of them where it has no more."""

UNITS = ("range", "std")


def hide(X: Any, rate: float, mechanism: str, seed: int, graph: Any = None) -> np.ndarray:
    """Choose observed cells to hide; every column keeps ``KEEP`` of its observed cells, or all if it has fewer.

    Parameters
    ----------
    X : table of shape (N, D), NaN in its own holes
    rate : float in (0, 1)
        Expected share of the observed cells.
    mechanism : name in :data:`megae.missingness.MECHANISMS`
    seed : int
    graph : graph over the rows, for mechanisms that look at it

    Returns
    -------
    bool ndarray of shape (N, D), True where an observed cell is hidden
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"mechanism {mechanism!r} is not known; choose one of {', '.join(MECHANISMS)}")
    draw = MECHANISMS[mechanism]
    more = {"graph": graph} if "graph" in inspect.signature(draw).parameters else {}
    try:
        hidden = np.array(draw(X, rate, seed, **more))
    except ValueError as problem:
        raise ValueError(f"{mechanism} cannot hide a share of {rate:g} here: {problem}") from problem
    observed = ~read_table(X).holes
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1])))
    for j in np.flatnonzero((observed & ~hidden).sum(axis=0) < KEEP):
        rows = rng.permutation(np.flatnonzero(hidden[:, j]))[: KEEP - int((observed & ~hidden)[:, j].sum())]
        hidden[rows, slice(None) if mechanism == "whole-node" else j] = False
    return hidden


def punch(X: Any, hidden: np.ndarray) -> Any:
    """The table as a method sees it: NaN where cells are hidden, so that nothing of them is left.

    Parameters
    ----------
    X : table of shape (N, D)
    hidden : bool ndarray of shape (N, D)

    Returns
    -------
    DataFrame for a DataFrame (whole numbers and booleans in dtypes that have holes), else float64 ndarray
    """
    if not is_frame(X):
        return np.where(hidden, np.nan, read_table(X).cells)
    import pandas as pd

    columns = {j: _blank(X.iloc[:, j], hidden[:, j]) for j in range(X.shape[1])}
    return pd.DataFrame(columns, index=X.index).set_axis(X.columns, axis=1)


def _blank(column: Any, hidden: np.ndarray) -> Any:
    import pandas as pd

    if not hidden.any():
        return column
    if isinstance(column.dtype, pd.SparseDtype):
        column = column.sparse.to_dense()
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "b":
        column = column.astype("boolean")
    elif isinstance(column.dtype, np.dtype) and column.dtype.kind in "iu":
        column = column.astype(column.dtype.name.replace("int", "Int").replace("uI", "UI"))
    return column.mask(hidden)


def column_units(visible: np.ndarray, categorical: np.ndarray, unit: str) -> np.ndarray:
    r"""What an error of 1 is in each column, from the cells that stay visible.

    ``range``: :math:`\max_j - \min_j`, and 1 for categories, where an error is 0 (right) or 1 (wrong). ``std``: the
    standard deviation, and for categories with shares p_k

    .. math:: s_j = \sqrt{\tfrac12 \left(1 - \sum_k p_k^2\right)},

    which for two categories is the standard deviation of a 0/1 column.

    Parameters
    ----------
    visible : ndarray of shape (N, D), NaN in holes and hidden cells, codes in categorical columns
    categorical : bool ndarray of shape (D,)
    unit : "range" or "std"

    Returns
    -------
    ndarray of shape (D,), NaN for columns whose visible cells are all the same: they have no unit
    """
    if unit not in UNITS:
        raise ValueError(f"unit must be one of {', '.join(map(repr, UNITS))}, got {unit!r}")
    units = np.full(visible.shape[1], np.nan)
    for j, column in enumerate(visible.T):
        values = column[~np.isnan(column)]
        if values.size == 0 or values.min() == values.max():
            continue
        if categorical[j]:
            shares = np.unique(values, return_counts=True)[1] / values.size
            units[j] = 1.0 if unit == "range" else np.sqrt((1.0 - np.sum(shares**2)) / 2.0)
        else:
            units[j] = np.ptp(values) if unit == "range" else np.std(values)
    return units


@dataclass(frozen=True)
class Repeat:
    """One hiding of cells.

    Parameters
    ----------
    hidden : bool ndarray of shape (N, D)
    units : ndarray of shape (D,)
        See :func:`column_units`.
    seed : int
        For the methods.
    """

    hidden: np.ndarray
    units: np.ndarray
    seed: int

    @property
    def scored(self) -> np.ndarray:
        """Bool (N, D): hidden cells of columns that have a unit."""
        return self.hidden & np.isfinite(self.units)

    def errors(self, filled: np.ndarray, truth: np.ndarray, categorical: np.ndarray) -> np.ndarray:
        """Errors in the scored cells, row by row, in units of their column.

        Parameters
        ----------
        filled, truth : ndarray of shape (N, D)
        categorical : bool ndarray of shape (D,)

        Returns
        -------
        ndarray of shape (number of scored cells,)
        """
        rows, columns = np.nonzero(self.scored)
        guess, right = filled[rows, columns], truth[rows, columns]
        return np.where(categorical[columns], guess != right, guess - right) / self.units[columns]


def draw_repeat(X: Any, rate: float, mechanism: str, unit: str, seed: tuple[int, int], graph: Any = None) -> Repeat:
    """Hide cells of X and measure its columns without them; ``seed`` is one for the cells and one for the methods."""
    hidden = hide(X, rate, mechanism, seed[0], graph)
    table = read_table(X)
    categorical = np.isin(np.arange(len(table.names)), list(table.categories))
    visible = np.where(hidden, np.nan, table.cells)
    return Repeat(hidden, column_units(visible, categorical, unit), seed[1])

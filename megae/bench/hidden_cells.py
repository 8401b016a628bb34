"""Hiding observed cells of a table on purpose, and what an error in each of them counts."""

from __future__ import annotations

import inspect
import warnings
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
    hidden = _drawn(X, rate, mechanism, seed, graph)
    observed = ~read_table(X).holes
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1])))
    for j in np.flatnonzero((observed & ~hidden).sum(axis=0) < KEEP):
        rows = rng.permutation(np.flatnonzero(hidden[:, j]))[: KEEP - int((observed & ~hidden)[:, j].sum())]
        hidden[rows, slice(None) if mechanism == "whole-node" else j] = False
    return hidden


def _drawn(X: Any, rate: float, mechanism: str, seed: int, graph: Any) -> np.ndarray:
    """The mechanism's mask; what it says is said in terms of a comparison, which has no drivers to choose."""
    draw = MECHANISMS[mechanism]
    more = {"graph": graph} if "graph" in inspect.signature(draw).parameters else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            hidden = np.array(draw(X, rate, seed, **more))
        except ValueError as problem:
            told = str(problem).replace(", or in Python let fewer columns drive (drivers)", "")
            raise ValueError(f"{mechanism} cannot hide a share of {rate:g} here: {told}") from problem
    for item in caught:
        told = str(item.message).replace("choose other drivers", "choose another mechanism")
        warnings.warn(f"{mechanism}: {told}", item.category, stacklevel=2)
    return hidden


def punch(X: Any, hidden: np.ndarray) -> Any:
    """The table as a method sees it: NaN where cells are hidden, so that nothing of them is left.

    What a column of a DataFrame holds is decided by its visible cells, as if the file had had holes there: only TRUE
    and FALSE, whole numbers, numbers, or the categories that are still to be seen. Its dtype would tell of a hidden 2.5
    among whole numbers, its categories of one that is seen nowhere else.

    Parameters
    ----------
    X : table of shape (N, D)
    hidden : bool ndarray of shape (N, D)

    Returns
    -------
    DataFrame (columns float64, Int64, boolean or category) for a DataFrame, else float64 ndarray
    """
    if not is_frame(X):
        return np.where(hidden, np.nan, read_table(X).cells)
    import pandas as pd

    cells = np.where(hidden, np.nan, read_table(X).cells)
    columns = {j: _visible(X.iloc[:, j], cells[:, j]) for j in range(X.shape[1])}
    return pd.DataFrame(columns, index=X.index).set_axis(X.columns, axis=1)


def _visible(column: Any, cells: np.ndarray) -> Any:
    """A column made anew of what is seen of it, (N,) numbers or codes with NaN elsewhere."""
    import pandas as pd

    seen = ~np.isnan(cells)
    if not seen.any():  # nothing of it is hidden
        return column
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _only_visible_categories(column.mask(~seen))
    if pd.api.types.is_bool_dtype(column.dtype) or all(isinstance(v, (bool, np.bool_)) for v in column[seen]):
        return pd.Series(pd.arrays.BooleanArray(cells == 1.0, ~seen), index=column.index)
    values = cells[seen]
    if (values == np.rint(values)).all() and np.abs(values).max() < 2.0**63:
        whole = np.where(seen, cells, 0.0).astype(np.int64)
        return pd.Series(pd.arrays.IntegerArray(whole, ~seen), index=column.index)
    return pd.Series(cells, index=column.index)


def _only_visible_categories(column: Any) -> Any:
    """Without the categories that no cell has; sorted, unless their order means something."""
    column = column.cat.remove_unused_categories()
    if column.cat.ordered:
        return column
    categories = list(column.cat.categories)
    try:
        return column.cat.set_categories(sorted(categories))
    except TypeError:  # numbers among texts
        return column.cat.set_categories(sorted(categories, key=str))


def truth_beside(X: Any, shown: Any) -> np.ndarray:
    """The cells of X as numbers that can be compared with a fill of what is shown of it.

    Parameters
    ----------
    X : table of shape (N, D)
    shown : what :func:`punch` made of it

    Returns
    -------
    ndarray of shape (N, D)
        NaN in its own holes. Categories have the codes of ``shown``, and -1 where it does not have them: no method can
        fill those in, so they count as wrong.
    """
    table = read_table(X)
    cells = table.cells.copy()
    for j in table.categories:
        codes = shown.iloc[:, j].cat.categories.get_indexer(X.iloc[:, j].cat.categories).astype(np.float64)
        known = ~np.isnan(cells[:, j])
        cells[known, j] = codes[cells[known, j].astype(np.int64)]
    return cells


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
            See :func:`truth_beside`.
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
    shown = read_table(punch(X, hidden))
    categorical = np.isin(np.arange(len(shown.names)), list(shown.categories))
    return Repeat(hidden, column_units(shown.cells, categorical, unit), seed[1])

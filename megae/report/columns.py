"""One column of a table before and after, reduced to what a report shows of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Column:
    """Observed and filled values of one column.

    Parameters
    ----------
    name : str
    n_rows : int
    observed : ndarray, shape (n_rows - n_holes,)
        Values that were there, less any that are missing but were no hole to fill.
    filled : ndarray, shape (n_holes,)
    numeric : bool
        Whether means and histograms make sense.
    half_width : float or None
        Mean half-width of the intervals over the holes.

    Examples
    --------
    >>> column = Column("income", 3, np.array([1.0, 3.0]), np.array([2.0]), True)
    >>> column.n_holes, column.mean_sd(column.observed)
    (1, (2.0, 1.0))
    """

    name: str
    n_rows: int
    observed: np.ndarray
    filled: np.ndarray
    numeric: bool
    half_width: float | None = None

    @property
    def n_holes(self) -> int:
        """How many cells were filled."""
        return int(self.filled.size)

    def mean_sd(self, values: np.ndarray) -> tuple[float | None, float | None]:
        """Return mean and (population) standard deviation, or None where there are none."""
        if not self.numeric or values.size == 0:
            return None, None
        return float(values.mean()), float(values.std())

    def scale(self) -> float:
        """Return a size that decides how many decimals the column needs: its spread, else its level."""
        values = np.concatenate([self.observed, self.filled]) if self.numeric else np.zeros(1)
        if values.size == 0:
            return 0.0
        return float(values.std()) or float(np.abs(values).max())

    def levels(self, limit: int = 6) -> list[tuple[str, float, float]]:
        """Return the commonest values as (level, observed share, filled share)."""
        seen, put = Counter(map(str, self.observed.tolist())), Counter(map(str, self.filled.tolist()))
        common = [level for level, _ in (seen + put).most_common(limit)]
        return [
            (level, seen[level] / max(self.observed.size, 1), put[level] / max(self.filled.size, 1)) for level in common
        ]


def _values(table: Any, j: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return column ``j`` (float where numeric), where it is missing, and whether it is numeric."""
    if not hasattr(table, "iloc"):
        numbers = np.asarray(table)[:, j].astype(float)
        return numbers, np.isnan(numbers), True
    from pandas.api.types import is_numeric_dtype

    series = table.iloc[:, j]
    missing = series.isna().to_numpy(dtype=bool)
    if is_numeric_dtype(series.dtype):
        return series.to_numpy(dtype=float, na_value=np.nan), missing, True
    return series.to_numpy(dtype=object), missing, False


def _bounds(bound: Any, like: Any) -> np.ndarray:
    """Return one side of the intervals as float (n, d), a frame's columns in the order of ``like``."""
    if not hasattr(bound, "iloc"):
        return np.asarray(bound, dtype=float)
    import pandas as pd

    ordered = bound.reindex(columns=like.columns) if hasattr(like, "columns") else bound
    sides = [pd.to_numeric(ordered.iloc[:, j].astype(object), errors="coerce") for j in range(ordered.shape[1])]
    return np.stack([side.to_numpy(dtype=float, na_value=np.nan) for side in sides], axis=1)


def read_columns(before: Any, after: Any, mask: np.ndarray, intervals: tuple[Any, Any] | None) -> list[Column]:
    """Cut a table before and after into columns.

    Parameters
    ----------
    before, after : DataFrame or ndarray, shape (n, d)
    mask : boolean ndarray, shape (n, d)
        True where a hole was filled.
    intervals : (lower, upper) of shape (n, d) each, or None
        Frames are matched by column name; a column without bounds gets no half-width.

    Returns
    -------
    list of Column, length d
    """
    shapes = {"before": tuple(before.shape), "after": tuple(after.shape), "mask": mask.shape}
    lower = upper = None
    if intervals is not None:
        lower, upper = (_bounds(bound, before) for bound in intervals)
        shapes |= {"lower": lower.shape, "upper": upper.shape}
    if len(set(shapes.values())) != 1 or mask.ndim != 2:
        raise ValueError(f"before, after, mask and intervals must share one shape (n, d), got {shapes}")
    names = [str(name) for name in getattr(before, "columns", [f"column {j}" for j in range(mask.shape[1])])]
    columns = []
    for j, name in enumerate(names):
        holes = mask[:, j]
        old, old_missing, old_numeric = _values(before, j)
        new, new_missing, new_numeric = _values(after, j)
        if (new_missing & holes).any():
            raise ValueError(f"after: column {name!r} still has {(new_missing & holes).sum()} holes")
        numeric = old_numeric and new_numeric
        half = None
        if lower is not None and upper is not None and numeric and holes.any():
            widths = (upper - lower)[holes, j]
            half = float(widths.mean() / 2) if not np.isnan(widths).any() else None
        columns.append(Column(name, len(holes), old[~holes & ~old_missing], new[holes], numeric, half))
    return columns

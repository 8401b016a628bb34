"""What each column of a table holds, and how it becomes numbers and turns back.

A column is one of four kinds:

============== ==================================================== ===========================
kind           inferred from                                        filled with
============== ==================================================== ===========================
continuous     any other number                                     a real number
binary         bool dtype, or both 0 and 1 and nothing else         a probability in [0, 1]
categorical    pandas ``category``                                  one of its categories
count          never; ask for it                                    a number >= 0
============== ==================================================== ===========================

Columns whose dtype holds no fractions (pandas ``Int64``, ``boolean``) get rounded values back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

KINDS = ("continuous", "binary", "categorical", "count")

ENDPOINTS = (("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2"))
"""Names by which the two columns of endpoints of an edge table are known."""

LARGEST = 1e150
"""Numbers beyond this, up or down, are refused: squares of them, summed over a table, overflow."""

Names = list[str]


@dataclass(frozen=True)
class Column:
    """One column of the user's table and its place in the encoded matrix.

    Parameters
    ----------
    name : str
    kind : one of ``KINDS``
    start, stop : int
        Half-open range of encoded columns; more than one for a categorical column (one-hot).
    low, high : float
        Smallest and largest observed value.
    categories : tuple of str
        Text of the categories of a categorical column, in their order.
    """

    name: str
    kind: str
    start: int
    stop: int
    low: float = float("nan")
    high: float = float("nan")
    categories: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Column:
        ends = {k: float("nan") if fields[k] is None else float(fields[k]) for k in ("low", "high")}
        return cls(**{**fields, **ends, "categories": tuple(fields["categories"])})


def infer_kinds(
    encoded: np.ndarray,
    names: Sequence[str],
    categories: Mapping[int, Sequence[str]],
    boolean: Sequence[int],
    requested: str | Mapping[str, str] | Sequence[str],
) -> list[Column]:
    """Decide what every column holds.

    Parameters
    ----------
    encoded : ndarray of shape (N, D)
        One number per cell, NaN in holes; codes 0..n-1 for categorical columns.
    names : D column names
    categories : position -> category texts, for pandas categorical columns
    boolean : positions whose dtype is bool
    requested : "auto", a mapping from column name to kind, or one kind per column
    """
    wanted = _requested_kinds(requested, names)
    columns: list[Column] = []
    start = 0
    for j, name in enumerate(names):
        values = encoded[:, j][~np.isnan(encoded[:, j])]
        kind = wanted.get(j) or _inferred(values, j in categories, j in boolean)
        if (kind == "categorical") != (j in categories):
            raise ValueError(
                f"column {name!r} cannot be read as {kind}: give it pandas dtype 'category' to have it "
                "filled as categorical, or a number dtype to have it filled as a number"
            )
        if kind == "binary" and not np.isin(values, (0.0, 1.0)).all():
            raise ValueError(f"column {name!r} was declared binary but holds values other than 0 and 1")
        if kind == "count" and values.size and values.min() < 0:
            raise ValueError(f"column {name!r} was declared count but holds negative values")
        texts = tuple(categories.get(j, ()))
        width = max(1, len(texts)) if kind == "categorical" else 1
        low, high = (float(values.min()), float(values.max())) if values.size else (np.nan, np.nan)
        columns.append(Column(str(name), kind, start, start + width, low, high, texts))
        start += width
    return columns


def _requested_kinds(requested: str | Mapping[str, str] | Sequence[str], names: Sequence[str]) -> dict[int, str]:
    if isinstance(requested, str):
        if requested != "auto":
            raise ValueError(f"column_types must be 'auto', a mapping or a list, got {requested!r}")
        return {}
    if isinstance(requested, Mapping):
        position = {name: j for j, name in enumerate(names)}
        unknown = [name for name in requested if name not in position]
        if unknown:
            raise ValueError(f"column_types names {unknown[0]!r}, which is not a column; columns are {list(names)[:8]}")
        wanted = {position[name]: kind for name, kind in requested.items()}
    else:
        if len(requested) != len(names):
            raise ValueError(f"column_types has {len(requested)} entries for {len(names)} columns")
        wanted = dict(enumerate(requested))
    for kind in wanted.values():
        if kind not in KINDS:
            raise ValueError(f"column_types holds {kind!r}; known kinds are {', '.join(KINDS)}")
    return wanted


def _inferred(values: np.ndarray, categorical: bool, boolean: bool) -> str:
    if categorical:
        return "categorical"
    distinct = np.unique(values[:10_000])
    if boolean or (distinct.size <= 2 and np.array_equal(np.unique(values), (0.0, 1.0))):
        return "binary"
    return "continuous"


def expand(codes: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """(N, D) cells -> (N, E) encoded columns: categorical codes become one-hot, holes stay NaN throughout."""
    if all(c.kind != "categorical" for c in columns):
        return codes
    encoded = np.empty((codes.shape[0], columns[-1].stop))
    for j, column in enumerate(columns):
        if column.kind == "categorical":
            hot = codes[:, j, None] == np.arange(column.stop - column.start)
            encoded[:, column.start : column.stop] = np.where(np.isnan(codes[:, j, None]), np.nan, hot)
        else:
            encoded[:, column.start] = codes[:, j]
    return encoded


def collapse(encoded: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """(N, E) filled columns -> (N, D) cells: the likeliest category of each one-hot group."""
    if all(c.kind != "categorical" for c in columns):
        return encoded
    cells = [
        encoded[:, c.start : c.stop].argmax(axis=1).astype(float) if c.kind == "categorical" else encoded[:, c.start]
        for c in columns
    ]
    return np.stack(cells, axis=1)


def keep_in_range(encoded: np.ndarray, columns: Sequence[Column], clip: bool) -> np.ndarray:
    """Probabilities into [0, 1], counts to 0 or more and, with ``clip``, numbers to their observed range."""
    low = np.full(encoded.shape[1], -np.inf)
    high = np.full(encoded.shape[1], np.inf)
    for column in columns:
        span = slice(column.start, column.stop)
        if column.kind in ("binary", "categorical"):
            low[span], high[span] = 0.0, 1.0
        elif column.kind == "count":
            low[span] = 0.0
        if clip and column.kind != "categorical" and np.isfinite(column.low):
            low[span], high[span] = np.maximum(low[span], column.low), np.minimum(high[span], column.high)
    return np.clip(encoded, low, high)


def usable_columns(columns: Sequence[Column], usable: np.ndarray) -> list[Column]:
    """The columns that have any data, numbered as they lie in the matrix a method sees.

    Parameters
    ----------
    columns : columns of the table, in order
    usable : bool ndarray of shape (E,), over the encoded columns
    """
    kept = []
    start = 0
    for column in columns:
        if usable[column.start]:
            width = column.stop - column.start
            kept.append(replace(column, start=start, stop=start + width))
            start += width
    return kept

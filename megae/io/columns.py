"""Which columns hold numbers, which holes they have, and which are left alone.

A text cell is a hole if it is empty or reads, in any case and with blanks around it, as one of `HOLES`.
A column whose other cells all read as numbers is numeric; whole numbers without a decimal point make an
integer column; TRUE and FALSE (any case) a boolean one. A column in which under half of those cells read
as numbers is text and is kept as it is, holes included. Anything between is refused: most likely a
typing error among numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from megae.columns import LARGEST
from megae.io.document import Kind, RawColumn
from megae.io.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["HOLES", "INTEGER", "Column", "classify", "format_value", "has_comma", "is_hole", "number", "words"]

_NOT_A_NUMBER = ("nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan")
HOLES = frozenset(["", "na", "n/a", "#n/a", "#na", "#n/a n/a", "<na>", "null", "none", "nil", "?", *_NOT_A_NUMBER])
INTEGER = re.compile(r"\s*[+-]?[0-9]+\s*")
DECIMAL_COMMA = re.compile(r"\s*[+-]?[0-9]+,[0-9]+\s*")
THOUSANDS = re.compile(r"\s*[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?\s*")
_MESSAGE_WIDTH = 60


@dataclass
class Column:
    """A column with its kind.

    Parameters
    ----------
    name : str
    kind : Kind
    source : pandas.Series, or a function that makes it
        Typed values with holes as NA, or the cells of a kept column, which are often not needed.
    words : tuple of str
        How the column spells false and true.
    """

    name: str
    kind: Kind
    source: pd.Series[Any] | Callable[[], pd.Series[Any]]
    words: tuple[str, str] = ("False", "True")

    @cached_property
    def series(self) -> pd.Series[Any]:
        """The values or cells, N of them."""
        return self.source() if callable(self.source) else self.source

    @property
    def fillable(self) -> bool:
        """Whether the column takes part in imputation."""
        return self.kind != "kept"


def is_hole(cell: str) -> bool:
    """Whether a text cell stands for a missing value.

    Examples
    --------
    >>> [is_hole(c) for c in ("", " NA ", "?", "0", "none at all")]
    [True, True, True, False, False]
    """
    return cell.strip().lower() in HOLES


def classify(raw: RawColumn, where: Callable[[int], str], named: bool | None = None) -> Column:
    """Decide what a column is.

    Parameters
    ----------
    raw : RawColumn
        The column as read, N cells.
    where : callable
        Row number to a place in the file, for messages.
    named : bool or None
        True if the user asked for this column to be filled (text is then read as categories), False if
        the user asked for others only, None if the choice is ours.

    Returns
    -------
    Column
        Typed: float64, Int64, boolean or category; kept columns as they came.
    """
    import pandas as pd

    cells = raw.cells
    if cells is not None:
        if named is False:
            return Column(raw.name, "kept", lambda: pd.Series(list(cells), dtype=object))
        from megae.io.judge import judge
        from megae.io.large import LargeCells

        found = judge(raw.name, cells, bool(named)) if isinstance(cells, LargeCells) else None
        return found or _from_text(raw.name, list(cells), where, bool(named))
    assert raw.series is not None
    if named is False:
        return Column(raw.name, "kept", raw.series)
    return _from_typed(raw, where, bool(named))


def format_value(value: Any, column: Column) -> str:
    """A filled value as the text of a cell: shortest float that reads back the same, the column's
    words for booleans."""
    if column.kind == "bool":
        return column.words[int(value)]
    if column.kind == "float":
        return repr(float(value))
    return str(value)


def _from_text(name: str, cells: Sequence[str], where: Callable[[int], str], named: bool) -> Column:
    import pandas as pd

    try:
        values = np.asarray([float(c) if c else np.nan for c in cells], dtype=np.float64)
        if not any("_" in c for c in cells):
            return _numeric(name, cells, values, where)
    except ValueError:
        pass  # some cell is neither empty nor a number: look at each
    holes = np.asarray([is_hole(c) for c in cells], dtype=bool)
    parsed = [np.nan if hole else number(c) for c, hole in zip(cells, holes.tolist(), strict=True)]
    wrong = [i for i, value in enumerate(parsed) if value is None]
    solid = len(cells) - int(holes.sum())
    if not wrong:
        return _numeric(name, cells, np.asarray(parsed, dtype=np.float64), where)
    lowered = [c.strip().lower() for c in cells]
    if all(c in ("true", "false") for c, hole in zip(lowered, holes.tolist(), strict=True) if not hole):
        truth = pd.array([None if h else c == "true" for c, h in zip(lowered, holes.tolist(), strict=True)], "boolean")
        return Column(name, "bool", pd.Series(truth), words(cells, lowered))
    if 2 * (solid - len(wrong)) >= solid:
        i = wrong[0]
        others = f" (and {len(wrong) - 1} more such cells)" if len(wrong) > 1 else ""
        raise InputError(
            f"{where(i)}, column {name!r}: {_short(cells[i])} is not a number, but most cells of "
            f"the column are"
            f"{others}; fix the cell, leave it empty if the value is unknown, or name the columns "
            f"to fill with --columns"
        )
    commas = [i for i in wrong if has_comma(cells[i])]
    if len(commas) * 2 > solid:
        grouped = all(THOUSANDS.fullmatch(cells[i]) for i in commas)
        i = commas[0] if grouped else next(i for i in commas if not THOUSANDS.fullmatch(cells[i]))
        what, advice = "a decimal comma", "write numbers with a decimal point"
        if grouped:
            what, advice = "a comma that separates thousands", "write numbers without it"
        raise InputError(
            f"{where(i)}, column {name!r}: {_short(cells[i])} has {what}; {advice}, or name the columns to fill with "
            "--columns"
        )
    if named:
        labels = [None if h else c for c, h in zip(cells, holes.tolist(), strict=True)]
        return Column(name, "category", pd.Series(labels, dtype="category"))
    return Column(name, "kept", pd.Series(list(cells), dtype=object))


def _numeric(name: str, cells: Sequence[str], values: np.ndarray, where: Callable[[int], str]) -> Column:
    import pandas as pd

    _refuse_large(name, values, where, lambda i: _short(cells[i]))
    known = ~np.isnan(values)
    if known.any() and (values[known] == np.floor(values[known])).all():
        observed = np.flatnonzero(known).tolist()
        if all(INTEGER.fullmatch(cells[i]) for i in observed):
            whole = [int(cells[i]) for i in observed]
            if max(abs(v) for v in whole) < 2**63:
                data = np.zeros(len(cells), dtype=np.int64)
                data[known] = whole
                return Column(name, "int", pd.Series(pd.arrays.IntegerArray(data, ~known)))
    return Column(name, "float", pd.Series(values))


def _from_typed(raw: RawColumn, where: Callable[[int], str], named: bool) -> Column:
    import pandas as pd

    series = raw.series
    assert series is not None
    name, dtype = raw.name, series.dtype
    if pd.api.types.is_bool_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype):
        return Column(name, "bool", series.astype("boolean").reset_index(drop=True))
    if pd.api.types.is_integer_dtype(dtype):
        top = series.max(skipna=True)
        if pd.isna(top) or int(top) < 2**63:
            return Column(name, "int", series.astype("Int64").reset_index(drop=True))
        return Column(name, "float", pd.Series(series.to_numpy(np.float64, na_value=np.nan)))
    if pd.api.types.is_float_dtype(dtype):
        values = series.to_numpy(np.float64, na_value=np.nan)
        _refuse_large(name, values, where, lambda i: str(values[i]))
        return Column(name, "float", pd.Series(values))
    if not named:
        return Column(name, "kept", series)
    if not raw.fillable:
        raise InputError(f"column {name!r} holds {raw.note} values, which cannot be filled; leave it out of --columns")
    labels = [None if pd.isna(v) else str(v) for v in series]
    return _from_text(name, ["" if v is None else v for v in labels], where, named=True)


def _refuse_large(name: str, values: np.ndarray, where: Callable[[int], str], shown: Callable[[int], str]) -> None:
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if not large.size:
        return
    i = int(large[0])
    place = f"{where(i)}, column {name!r}: {shown(i)}"
    if np.isinf(values[i]):
        raise InputError(
            f"{place} is infinite or too large for a number; "
            "write a finite number, or leave the cell empty if the value is unknown"
        )
    raise InputError(
        f"{place} is too large to compute with: numbers may reach {LARGEST:g}; give the column a larger unit, leave "
        "the cell empty if the value is unknown, or name the columns to fill with --columns"
    )


def has_comma(cell: str) -> bool:
    """Whether a cell is a number but for commas, decimal ones or those between thousands.

    Examples
    --------
    >>> [has_comma(c) for c in ("1,5", "31,479", "1,234,567.8", "1,2,3", "a,b")]
    [True, True, True, False, False]
    """
    return (DECIMAL_COMMA.fullmatch(cell) or THOUSANDS.fullmatch(cell)) is not None


def number(cell: str) -> float | None:
    """The number a cell reads as, or None."""
    if "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def words(cells: Sequence[str], lowered: Sequence[str]) -> tuple[str, str]:
    """How this column spells (false, true): its most frequent spelling, or the style of the other word."""
    counts = {
        word: Counter(c.strip() for c, low in zip(cells, lowered, strict=True) if low == word)
        for word in ("false", "true")
    }
    style = next(iter((counts["true"] or counts["false"]).most_common(1)))[0]
    spelled = {w: w.upper() if style.isupper() else w.capitalize() if style[0].isupper() else w for w in counts}
    for word, count in counts.items():
        if count:
            spelled[word] = count.most_common(1)[0][0]
    return spelled["false"], spelled["true"]


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= _MESSAGE_WIDTH else cell[: _MESSAGE_WIDTH - 3] + "...")

"""The columns of a CSV or TSV file as Arrow reads them, where its rules and ours say the same.

Arrow sees by itself which columns hold numbers: whole ones exactly, others as the nearest double. What it reads in
another way than `megae.io.columns` is left as text, to be judged by spelling: hexadecimal numbers, which are none here;
``+3``, which is no whole number there; NaN and infinity, which are holes here or refused.

A file is read in pieces of whole rows, by as many threads as Arrow would use, into arrays for the whole column.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from megae.io.columns import HOLES
from megae.io.texts import Texts

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BOM", "Cells", "RowCount", "Typed"]

Typed: TypeAlias = "pd.arrays.IntegerArray | np.ndarray | Texts | None"
"""A column (N,): whole numbers; doubles, NaN for holes; texts; or None, where texts are to be read and judged."""

PIECE, PIECE_ROWS = 1 << 21, 512
"""The least bytes and rows of a piece: small enough for caches, large enough for each column to be worth a call."""

_MOST_THREADS = 8
BOM = b"\xef\xbb\xbf"
_CASES = (str.lower, str.upper, str.capitalize, str.title)
_WORDS = [word for word in HOLES if word[:1] not in ("-", "1")]  # what starts like a number slows down every number
_SPELLINGS = sorted({"NaN", *(case(word) for word in _WORDS for case in _CASES)})
_BLANK = [" " * k for k in range(1, 33)]


class RowCount(Exception):
    """There are fewer rows than lines: some lines hold nothing but blanks."""


class Cells:
    """The cells below a header.

    Parameters
    ----------
    data : bytes
        The file.
    starts : int64 ndarray of shape (N + 1,)
        Where each row starts, and where the last ends.
    padding : int64 ndarray of shape (k,)
        Blanks that belong to no cell.
    width : int
        The number of columns, D.
    delimiter : str
    folded : bool
        Whether some cell holds a line end.

    Examples
    --------
    >>> data, none = b"a,1,.5\\nb,,NA\\n", np.empty(0, np.int64)
    >>> cells = Cells(data, np.array([0, 7, 13]), none, 3, ",", folded=False)
    >>> [list(column) for column in cells.typed()]
    [['a', 'b'], [np.int64(1), <NA>], [np.float64(0.5), np.float64(nan)]]
    >>> list(cells.texts(2))
    ['.5', 'NA']
    """

    def __init__(
        self, data: bytes, starts: np.ndarray, padding: np.ndarray, width: int, delimiter: str, *, folded: bool
    ) -> None:
        self.data = data
        self.starts = starts
        self.padding = np.sort(padding)
        self.width = width
        self.delimiter = delimiter
        self.folded = folded
        self.n_rows = len(starts) - 1

    def typed(self) -> list[Typed]:
        """Every column, as far as Arrow's rules are ours.

        Raises `pyarrow.ArrowInvalid` if some row has another number of cells than D.
        """
        import pyarrow as pa

        columns = [_Column(self.n_rows) for _ in range(self.width)]
        expected: dict[str, Any] = {}  # types that other pieces had, which saves Arrow to find them out
        wider = [pa.int64(), pa.float64(), pa.string()]

        def read(first: int, stop: int) -> None:
            try:
                table = self._read(first, stop, column_types=dict(expected))
            except pa.ArrowInvalid:
                table = self._read(first, stop)
            for j, (name, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
                columns[j].take(first, stop, table.column(j))
                if kind in wider and wider.index(kind) >= wider.index(expected.get(name, kind)):
                    expected[name] = kind

        def read_as_real(first: int, stop: int) -> None:
            mixed = [j for j in range(self.width) if columns[j].is_mixed and columns[j].kinds[first] == "whole"]
            types = {str(j): pa.float64() for j in mixed}
            if types:
                table = self._read(first, stop, include_columns=list(types), column_types=types)
                for name in types:
                    columns[int(name)].take(first, stop, table.column(name))

        self._each(read)
        has = cache(self._has(self.starts[0], self.starts[-1]))
        if any(column.is_mixed for column in columns) and not _hexadecimal(has):
            self._each(read_as_real)
        return [column.settled(has) for column in columns]

    def texts(self, column: int) -> Texts:
        """A column as it is written, but for its quotes."""
        import pyarrow as pa

        name, text = str(column), pa.large_string()
        options = {"include_columns": [name], "column_types": {name: text}}
        return Texts.joined(self._each(lambda first, stop: self._read(first, stop, **options).column(0)))

    def _each(self, work: Callable[[int, int], Any]) -> list[Any]:
        """What ``work`` gives for the rows of each piece."""
        import pyarrow as pa

        start, end = int(self.starts[0]), int(self.starts[-1])
        cuts = np.arange(start, end, max(PIECE, PIECE_ROWS * (end - start) // max(self.n_rows, 1)))
        rows = np.unique(np.append(np.searchsorted(self.starts, cuts), self.n_rows)).tolist()
        with ThreadPoolExecutor(min(_MOST_THREADS, pa.cpu_count())) as pool:
            return list(pool.map(work, rows[:-1], rows[1:]))

    def _has(self, start: int, end: int) -> Callable[[bytes], bool]:
        """Which bytes occur in ``data[start:end]``."""
        return lambda letter: self.data.find(letter, start, end) >= 0

    def _read(self, first: int, stop: int, **options: Any) -> Any:
        """Rows ``first`` to ``stop`` as a table of Arrow."""
        import pyarrow as pa
        from pyarrow import csv

        start, end = self.starts[[first, stop]].tolist()
        has = self._has(start, end)
        piece = pa.py_buffer(self.data).slice(start, end - start)
        low, high = np.searchsorted(self.padding, [start, end])
        if low < high:
            piece = pa.py_buffer(np.delete(np.frombuffer(piece, dtype=np.uint8), self.padding[low:high] - start))
        if self.data.startswith(BOM, start):
            piece = pa.py_buffer(BOM + piece.to_pybytes())  # Arrow takes one off
        table = csv.read_csv(
            pa.BufferReader(piece),
            csv.ReadOptions(
                column_names=[str(j) for j in range(self.width)], block_size=piece.size + 1, use_threads=False
            ),
            csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char='"' if has(b'"') else False,
                newlines_in_values=self.folded,
                ignore_empty_lines=self.width > 1,
                invalid_row_handler=_skip_blank,
            ),
            csv.ConvertOptions(null_values=_SPELLINGS + (_BLANK if has(b" ") else []), check_utf8=False, **options),
        )
        if table.num_rows != stop - first:
            raise RowCount
        return table


class _Column:
    """A column while its pieces are read: N doubles or integers of 64 bits, and which of them are missing."""

    def __init__(self, n: int) -> None:
        self.slots = np.empty(n)  # memory is taken only as it is written to
        self.missing = np.empty(n, dtype=bool)
        self.kinds: dict[int, str] = {}
        self.texts: dict[int, Any] = {}

    def take(self, first: int, stop: int, part: Any) -> None:
        """Keep what Arrow read in rows ``first`` to ``stop``."""
        import pyarrow as pa

        kind = "odd"
        if pa.types.is_null(part.type):
            kind = "holes"
            self.slots[first:stop], self.missing[first:stop] = np.nan, True
        elif pa.types.is_int64(part.type):
            kind = "whole"
            self.slots.view(np.int64)[first:stop] = part.fill_null(0).to_numpy()
            self.missing[first:stop] = part.is_null().to_numpy()
        elif pa.types.is_float64(part.type):
            values = part.to_numpy()
            if np.count_nonzero(np.isfinite(values)) + part.null_count == len(values):
                kind = "real"
                self.slots[first:stop] = values
        elif pa.types.is_string(part.type):
            kind = "text"
            self.texts[first] = part
        self.kinds[first] = kind

    @property
    def is_mixed(self) -> bool:
        """Whether some pieces hold whole numbers alone and others do not."""
        return {"whole", "real"} <= set(self.kinds.values()) <= {"whole", "real", "holes"}

    def settled(self, has: Callable[[bytes], bool]) -> Typed:
        """The column, given which letters the file has."""
        import pandas as pd

        kinds = set(self.kinds.values())
        if "whole" in kinds and kinds <= {"holes", "whole"}:
            whole = self.slots.view(np.int64)
            whole[self.missing] = 0
            if _hexadecimal(has) or whole.min() == np.iinfo(np.int64).min:
                return None
            return pd.arrays.IntegerArray(whole, self.missing)
        if kinds <= {"holes", "real"}:
            if "real" in kinds and has(b"+") and np.isnan(self.slots[self.slots != np.floor(self.slots)]).all():
                return None
            return self.slots
        return Texts.joined([self.texts[first] for first in sorted(self.texts)]) if kinds == {"text"} else None


def _hexadecimal(has: Callable[[bytes], bool]) -> bool:
    """Whether some number may be hexadecimal; single letters are found much faster than pairs."""
    return (has(b"x") and has(b"0x")) or (has(b"X") and has(b"0X"))


def _skip_blank(row: Any) -> str:
    """Arrow's question what to do with a line of another number of cells."""
    return "skip" if row.actual_columns == 1 and not row.text.strip() else "error"

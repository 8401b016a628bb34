"""Large CSV and TSV files: the bytes are kept, Arrow reads columns from them, new cells are put between them.

The twin of `megae.io.delimited` for files that would take minutes and gigabytes as one Python text per cell: the
same columns, places and bytes come out, and a test holds the two against each other. Writing copies the bytes between
holes, some rows at a time.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import overload

import numpy as np

from megae.io.cells import BOM, Cells, RowCount, Typed
from megae.io.delimited import DelimitedFile, check_header, choose_delimiter, quote, split, unquote
from megae.io.document import Document, Fill, Flag, RawColumn
from megae.io.rows import Rows, count_lines, find_rows, spans
from megae.io.texts import Texts

__all__ = ["LARGE", "LargeCells", "LargeFile", "open_delimited"]

LARGE = 1 << 20
"""Bytes from which a file is read by Arrow; below, one Python text per cell costs no time to speak of."""

_BLOCK_ROWS = 1 << 15
_BLOCK_BYTES = 1 << 24


class _Irregular(Exception):
    """The file is not one that this reader answers for."""


def open_delimited(path: Path, delimiter: str | None = None) -> Document:
    """Read a CSV or TSV file, by Arrow if it is large and regular, else cell by cell, which also finds the words for
    what is wrong with a file.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str or None
        The delimiter; None chooses it by the header.
    """
    if path.stat().st_size >= LARGE:
        try:
            return LargeFile(path, delimiter)
        except _Irregular:
            pass
    return DelimitedFile(path, delimiter)


class LargeFile(Document):
    """A CSV or TSV file as bytes and columns.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str or None
        The delimiter; None chooses it by the header.

    Attributes
    ----------
    header : list of str
        The names of the D columns.
    starts : int64 ndarray of shape (N + 1,)
        The byte at which each row starts, and the end of the file.
    columns : list of length D
        The columns as `Cells.typed` gives them.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text('id,"a, b"\\nx,1.50\\ny,\\n')
    >>> table = LargeFile(path)
    >>> table.header, list(table.raw_columns()[1].cells), table.columns[1]
    (['id', 'a, b'], ['1.50', ''], array([1.5, nan]))
    """

    def __init__(self, path: Path, delimiter: str | None = None) -> None:
        super().__init__(path)
        self.data = path.read_bytes()
        _check_text(self.data)
        start = len(BOM) if self.data.startswith(BOM) else 0
        while self.data[start : start + 1] in (b"\r", b"\n"):
            start += 1
        self.delimiter = delimiter or choose_delimiter(_line(self.data, start))
        self.format = "tsv" if self.delimiter == "\t" and path.suffix.lower() != ".csv" else "csv"
        rows = find_rows(self.data, start, self.delimiter)
        if rows is None or len(rows.starts) < 2:
            raise _Irregular
        head = self.data[start : rows.starts[1]].decode()
        if not (head.strip() or self.data[start:].decode().strip()):
            raise _Irregular
        self.header = [unquote(cell) for cell in split(head, self.delimiter, path)[0][0]]
        self._head_end = start + len(head.rstrip("\r\n").encode())
        self._read(rows)
        check_header(self.header, path)
        self.n_rows = len(self.starts) - 1

    def _read(self, rows: Rows) -> None:
        """Let Arrow read the columns, once more if it tells of lines of nothing but blanks, which are no rows."""
        import pyarrow as pa

        lines = rows.starts[1:]
        if len(self.header) > 1:
            first = np.frombuffer(self.data, dtype=np.uint8)[lines[:-1]]
            lines = lines[np.append((first != ord("\n")) & (first != ord("\r")), True)]
        try:
            try:
                self._read_columns(rows, lines)
            except RowCount:
                self._read_columns(rows, self._without_blank(lines))
        except (pa.ArrowInvalid, RowCount) as error:
            raise _Irregular from error

    def _read_columns(self, rows: Rows, starts: np.ndarray) -> None:
        self.starts = starts
        self._cells = Cells(self.data, starts, rows.padding, len(self.header), self.delimiter, folded=rows.folded)
        self.columns = self._cells.typed()

    def _without_blank(self, starts: np.ndarray) -> np.ndarray:
        """Where rows start, (N + 1,), given where lines do."""
        lines = [self.data[a:b].decode() for a, b in pairwise(starts.tolist())]
        return starts[[*(self.delimiter in line or bool(line.strip()) for line in lines), True]]

    def where(self, row: int) -> str:
        return f"{self.path} line {1 + count_lines(self.data, int(self.starts[row]))}"

    def raw_columns(self) -> list[RawColumn]:
        return [RawColumn(name, cells=LargeCells(self, j)) for j, name in enumerate(self.header)]

    def texts(self, column: int) -> Texts:
        """The cells of a column, without the quotes around them."""
        found = self.columns[column]
        return found if isinstance(found, Texts) else self._cells.texts(column)

    def write_filled(self, path: Path, fills: Sequence[Fill], flags: Sequence[Flag]) -> None:
        head = "".join(self.delimiter + quote(flag.name, self.delimiter) for flag in flags)
        with open(path, "wb") as out:
            out.write(self.data[: self._head_end] + head.encode())
            out.write(self.data[self._head_end : self.starts[0]])
            for first in range(0, self.n_rows, _BLOCK_ROWS):
                out.write(self._filled_rows(first, min(first + _BLOCK_ROWS, self.n_rows), fills, flags))

    def _filled_rows(self, first: int, stop: int, fills: Sequence[Fill], flags: Sequence[Flag]) -> bytes:
        """The bytes of rows ``first`` to ``stop``, line ends included: those of the file, with new cells between."""
        width, position = len(self.header), {name: j for j, name in enumerate(self.header)}
        rows, columns, texts = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)], list[str]()
        for fill in fills:
            low, high = np.searchsorted(fill.rows, [first, stop]).tolist()
            rows.append(fill.rows[low:high] - first)
            columns.append(np.full(high - low, position[fill.name], dtype=np.int64))
            texts += [quote(text, self.delimiter) for text in fill.texts[low:high]]
        if flags:
            rows.append(np.arange(stop - first))
            columns.append(np.full(stop - first, width, dtype=np.int64))
            words = [f"{self.delimiter}False", f"{self.delimiter}True"]
            marks = [[words[v] for v in flag.mask[first:stop].tolist()] for flag in flags]
            texts += ["".join(row) for row in zip(*marks, strict=True)]
        row, column = np.concatenate(rows), np.concatenate(columns)
        order = np.argsort(row * (width + 1) + column, kind="stable")
        starts = self.starts[first : stop + 1]
        cut = spans(self.data, starts, row[order], column[order], self.delimiter, width)
        begins = [int(starts[0]), *cut[1].tolist()]
        ends = [*cut[0].tolist(), int(starts[-1])]
        pieces: list[bytes] = [b""] * (2 * len(ends) - 1)
        pieces[0::2] = [self.data[a:b] for a, b in zip(begins, ends, strict=True)]
        pieces[1::2] = [texts[k].encode() for k in order.tolist()]
        return b"".join(pieces)


class LargeCells(Sequence[str]):
    """The cells of one column of a `LargeFile`, read when they are asked for."""

    def __init__(self, file: LargeFile, column: int) -> None:
        self.file = file
        self.column = column

    @property
    def typed(self) -> Typed:
        """The column as `Cells.typed` gives it."""
        return self.file.columns[self.column]

    @cached_property
    def texts(self) -> Texts:
        """The cells as they are written, but for quotes."""
        return self.file.texts(self.column)

    def labels(self) -> Texts:
        """The cells as ids: without blanks around them."""
        return self.texts.stripped()

    def __len__(self) -> int:
        return self.file.n_rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return self.texts[index]


def _check_text(data: bytes) -> None:
    """Leave to the careful reader what is not UTF-8 text."""
    if b"\x00" in data[:4096]:
        raise _Irregular
    if data.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for first in range(0, len(data), _BLOCK_BYTES):
            decoder.decode(data[first : first + _BLOCK_BYTES], final=first + _BLOCK_BYTES >= len(data))
    except UnicodeDecodeError as error:
        raise _Irregular from error


def _line(data: bytes, start: int) -> str:
    ends = [end for end in (data.find(b"\n", start), data.find(b"\r", start)) if end >= 0]
    return data[start : min(ends, default=len(data))].decode()

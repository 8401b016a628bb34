"""CSV and TSV files, kept character for character.

The reader splits the text into raw cells (quotes and blanks included) and remembers every line ending,
so that a file is written back by changing nothing but the cells that were holes.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from megae.io.document import Document, Fill, Flag, OutColumn, RawColumn
from megae.io.errors import InputError

__all__ = ["DelimitedFile", "check_header", "choose_delimiter", "quote", "split", "unquote", "write_delimited"]

_LINE_END = re.compile(r"\r\n|\n|\r")


class DelimitedFile(Document):
    """A CSV or TSV file: UTF-8 text, a header line, one line per row, cells quoted by ``"`` where needed.

    The delimiter of a CSV file is the comma, or the semicolon or tab if the header holds one of those
    and no comma. Lines without any character are skipped (and kept on writing), except in tables of one
    column, where they are rows whose only cell is a hole.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str or None
        The delimiter; None chooses it by the header.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text('id,"a, b"\\nx,1.50\\ny,\\n')
    >>> table = DelimitedFile(path)
    >>> table.header, table.raw_columns()[1].cells
    (['id', 'a, b'], ['1.50', ''])
    """

    def __init__(self, path: Path, delimiter: str | None = None) -> None:
        super().__init__(path)
        self.text, self.bom = _decode(path)
        if not self.text.strip():
            raise InputError(f"{path} is empty; it needs a header line with the column names, then one line per row")
        self.delimiter = delimiter or choose_delimiter(self.text)
        self.format = "tsv" if self.delimiter == "\t" and path.suffix.lower() != ".csv" else "csv"
        records, ends, starts = split(self.text, self.delimiter, path)
        first = next(i for i, record in enumerate(records) if record != [""])
        self._head, self._head_end = records[first], ends[first]
        self._leading = self.text[: starts[first]]
        self.header = [unquote(cell) for cell in self._head]
        check_header(self.header, path)
        line_starts = [0] + [m.end() for m in _LINE_END.finditer(self.text)]
        width = len(self.header)
        self._records, self._ends = records[first + 1 :], ends[first + 1 :]
        body_starts = starts[first + 1 :]
        if width > 1:
            self._rows = [i for i, r in enumerate(self._records) if not (len(r) == 1 and not r[0].strip())]
        else:
            self._rows = list(range(len(self._records)))
        self.lines = np.asarray([bisect_right(line_starts, body_starts[i]) for i in self._rows], dtype=np.int64)
        for row, i in enumerate(self._rows):
            found = len(self._records[i])
            if found != width:
                raise InputError(
                    f"{path} line {self.lines[row]}: {found} cells, but the header names {width} columns; "
                    f"give the line {width} cells (quote a cell that holds {self.delimiter!r})"
                )
        self.n_rows = len(self._rows)

    def where(self, row: int) -> str:
        return f"{self.path} line {self.lines[row]}"

    def raw_columns(self) -> list[RawColumn]:
        rows = [self._records[i] for i in self._rows]
        columns: Sequence[Sequence[str]] = list(zip(*rows, strict=True)) if rows else [()] * len(self.header)
        quoted = '"' in self.text
        return [
            RawColumn(name, cells=[unquote(c) for c in cells] if quoted else list(cells))
            for name, cells in zip(self.header, columns, strict=True)
        ]

    def write_filled(self, path: Path, fills: Sequence[Fill], flags: Sequence[Flag]) -> None:
        position = {name: j for j, name in enumerate(self.header)}
        changed: dict[int, list[str]] = {}
        for fill in fills:
            j = position[fill.name]
            for row, text in zip(fill.rows.tolist(), fill.texts, strict=True):
                i = self._rows[row]
                if i not in changed:
                    changed[i] = list(self._records[i])
                changed[i][j] = quote(text, self.delimiter)
        extra: dict[int, list[str]] = {}
        if flags:
            columns = [["True" if v else "False" for v in flag.mask.tolist()] for flag in flags]
            extra = {i: list(cells) for i, cells in zip(self._rows, zip(*columns, strict=True), strict=True)}
        with open(path, "w", encoding="utf-8", newline="") as out:
            out.write(self.bom + self._leading)
            head = self._head + [quote(flag.name, self.delimiter) for flag in flags]
            out.write(self.delimiter.join(head) + self._head_end)
            for i, (record, end) in enumerate(zip(self._records, self._ends, strict=True)):
                cells = changed.get(i, record) + extra.get(i, [])
                out.write(self.delimiter.join(cells) + end)


def write_delimited(path: Path, columns: Sequence[OutColumn], delimiter: str) -> None:
    """Write a new CSV or TSV file: UTF-8, a header, ``\\n`` line ends, cells quoted only where they
    must be."""
    cells = [[quote(text, delimiter) for text in column.as_texts()] for column in columns]
    with open(path, "w", encoding="utf-8", newline="") as out:
        out.write(delimiter.join(quote(column.name, delimiter) for column in columns) + "\n")
        for row in zip(*cells, strict=True):
            out.write((delimiter.join(row) if len(row) > 1 or row[0] else '""') + "\n")


def quote(text: str, delimiter: str) -> str:
    """The cell that reads as `text`: unchanged, or in double quotes where it must be."""
    if delimiter in text or '"' in text or "\n" in text or "\r" in text:
        return '"' + text.replace('"', '""') + '"'
    return text


def unquote(cell: str) -> str:
    """The value of a raw cell: a quoted one loses its quotes, any other stays as it is."""
    if not cell.startswith('"'):
        return cell
    return cell.rstrip(" ")[1:-1].replace('""', '"')


def _decode(path: Path) -> tuple[str, str]:
    data = path.read_bytes()
    if b"\x00" in data[:4096]:
        raise InputError(f"{path} is not a text file (or is UTF-16); save it as UTF-8 text")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path} line {line}: not UTF-8 text; save the file with the UTF-8 encoding") from error
    if text.startswith("\ufeff"):
        return text[1:], "\ufeff"
    return text, ""


def choose_delimiter(text: str) -> str:
    """The delimiter that the first line with any character asks for."""
    head = _LINE_END.split(text.lstrip("\r\n"), maxsplit=1)[0]
    bare = re.sub(r'"[^"]*"', "", head)
    return next((d for d in (",", ";", "\t") if d in bare), ",")


def check_header(header: list[str], path: Path) -> None:
    """Refuse a name that occurs twice."""
    seen: set[str] = set()
    for name in header:
        if name in seen:
            raise InputError(f"{path} line 1: two columns are named {name!r}; rename one of them")
        seen.add(name)


def split(text: str, delimiter: str, path: Path) -> tuple[list[list[str]], list[str], list[int]]:
    """Records of raw cells, the line ending after each, and the character at which each starts."""
    records: list[list[str]] = []
    ends: list[str] = []
    starts: list[int] = []
    d = re.escape(delimiter)
    cell = re.compile(rf'(?:"[^"]*(?:""[^"]*)*" *|(?!")[^{d}\r\n]*)({d}|\r\n|\n|\r|\Z)')
    position, length = 0, len(text)
    while position < length:
        starts.append(position)
        found = _LINE_END.search(text, position)
        stop, after = (found.start(), found.end()) if found else (length, length)
        line = text[position:stop]
        if '"' not in line:
            records.append(line.split(delimiter))
            ends.append(text[stop:after])
            position = after
            continue
        cells: list[str] = []
        while True:
            match = cell.match(text, position)
            if match is None:
                number = len(_LINE_END.findall(text, 0, starts[-1])) + 1
                raise InputError(
                    f"{path} line {number}: a cell opens with a double quote that is not closed, or "
                    f"has text after "
                    'its closing quote; close the quote, and write a quote inside a cell as ""'
                )
            cells.append(text[position : match.start(1)])
            position = match.end()
            if match.group(1) != delimiter:
                break
        records.append(cells)
        ends.append(match.group(1))
    return records, ends, starts

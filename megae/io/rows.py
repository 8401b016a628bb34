"""Where the rows and cells of a CSV or TSV file lie in its bytes, found with numpy, a piece at a time.

The grammar is that of `megae.io.delimited`, without quotes inside cells that do not start with one: then a byte lies
inside a quoted cell exactly if the number of quotes up to it is odd.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Rows", "count_lines", "find_rows", "spans"]

PIECE = 1 << 20
"""Bytes looked at together."""

_QUOTE, _SPACE, _CR, _LF = (ord(letter) for letter in '" \r\n')


@dataclass
class Rows:
    """The rows of a file, empty lines included.

    Attributes
    ----------
    starts : int64 ndarray of shape (N + 1,)
        The byte at which each row starts, and the end of the file.
    padding : int64 ndarray of shape (k,)
        Blanks behind closing quotes, which belong to no cell.
    folded : bool
        Whether some cell holds a line end.
    """

    starts: np.ndarray
    padding: np.ndarray
    folded: bool


def find_rows(data: bytes, start: int, delimiter: str) -> Rows | None:
    """The rows from byte ``start`` on; None if quotes do not match or stand inside bare cells."""
    letters = np.frombuffer(data, dtype=np.uint8)
    ends, padding = list[np.ndarray](), [np.empty(0, dtype=np.int64)]
    inside = folded = False
    for first in range(start, len(data), PIECE):
        stop = min(first + PIECE, len(data))
        found = _line_ends(data, first, stop)
        if inside or data.find(b'"', first, stop) >= 0:
            quotes = first + np.flatnonzero(letters[first:stop] == _QUOTE)
            blanks = _padding(letters, start, quotes, inside, delimiter)
            if blanks is None:
                return None
            padding.append(blanks)
            within = _within(letters[first:stop]) ^ inside
            outside = ~within[found]
            folded = folded or not outside.all()
            found, inside = found[outside], bool(within[-1])
        ends.append(found + (first + 1))
    if inside:
        return None
    starts = np.concatenate([[start], *ends])
    if starts[-1] < len(data):
        starts = np.append(starts, len(data))
    return Rows(starts, np.concatenate(padding), folded)


def spans(
    data: bytes, starts: np.ndarray, rows: np.ndarray, columns: np.ndarray, delimiter: str, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """Start and end of raw cells, quotes included: int64 (k,) each.

    Parameters
    ----------
    starts : int64 ndarray of shape (n + 1,)
        Where the rows in question start, and where the last of them ends at most.
    rows, columns : int64 ndarrays of shape (k,)
        The cells asked for. Column ``width`` is the end of the row.
    """
    base, stop = int(starts[0]), int(starts[-1])
    letters = np.frombuffer(data, dtype=np.uint8)
    piece = letters[base:stop]
    cut = piece == ord(delimiter)
    cut[_line_ends(data, base, stop)] = True
    if data.find(b'"', base, stop) >= 0:
        cut &= ~_within(piece)
    cuts = np.append(base + np.flatnonzero(cut), stop)  # the last line may lack its end
    first = np.searchsorted(cuts, starts[rows])
    ends = cuts[first + np.minimum(columns, width - 1)]
    ends -= (letters[np.minimum(ends, stop - 1)] == _LF) & (letters[ends - 1] == _CR)
    begins = np.where(columns == 0, starts[rows], cuts[first + columns - 1] + 1)
    return np.minimum(begins, ends), ends


def count_lines(data: bytes, stop: int) -> int:
    """How many lines end in ``data[:stop]``; a row starts at ``stop``."""
    found = data.count(b"\n", 0, stop)
    if data.find(b"\r", 0, stop) >= 0:
        found += data.count(b"\r", 0, stop) - data.count(b"\r\n", 0, stop)
    return found


def _line_ends(data: bytes, first: int, stop: int) -> np.ndarray:
    """The last byte of every line end in ``data[first:stop]``, inside quotes or not, counted from ``first``: (k,)."""
    letters = np.frombuffer(data, dtype=np.uint8)
    ends = letters[first:stop] == _LF
    if data.find(b"\r", first, stop) >= 0:
        alone, following = letters[first:stop] == _CR, letters[first + 1 : stop + 1]
        alone[: len(following)] &= following != _LF
        ends |= alone
    return np.flatnonzero(ends)


def _within(letters: np.ndarray) -> np.ndarray:
    """Which letters, bool (k,), lie behind an odd number of quotes, counting themselves."""
    return np.bitwise_xor.accumulate((letters == _QUOTE).view(np.uint8)).view(bool)


def _padding(letters: np.ndarray, start: int, quotes: np.ndarray, inside: bool, delimiter: str) -> np.ndarray | None:
    """Blanks behind closing quotes; None if a quote (k,) opens within a cell or text follows a closing one.

    Two quotes in a row, which stand for one inside a cell, count as one that closes and one that opens.
    """
    beside = np.zeros(256, dtype=bool)
    beside[[ord(delimiter), _CR, _LF, _QUOTE]] = True
    opening, behind = quotes[int(inside) :: 2], quotes[int(not inside) :: 2] + 1
    if not beside[letters[opening[opening > start] - 1]].all():
        return None
    blanks = []
    while (behind := behind[behind < len(letters)]).size:
        blank = letters[behind] == _SPACE
        if not beside[letters[behind[~blank]]].all():
            return None
        blanks.append(behind[blank])
        behind = behind[blank] + 1
    return np.concatenate(blanks) if blanks else behind

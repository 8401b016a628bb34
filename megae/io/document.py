"""What every file format offers to the rest: its columns, its edges, and writing itself back with
holes filled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from megae.io.edges import EdgeList

__all__ = ["Derived", "Document", "Fill", "Flag", "Kind", "OutColumn", "RawColumn"]

Kind = Literal["float", "int", "bool", "category", "kept"]
Item = TypeVar("Item")

_PIECE = 1 << 15


@dataclass
class RawColumn:
    """One column as its file holds it: text cells (`cells`), or typed values (`series`) where the
    format has types."""

    name: str
    cells: Sequence[str] | None = None
    series: pd.Series[Any] | None = None
    note: str = ""
    fillable: bool = True


class Derived(Sequence[Item]):
    """A list made from an array piece by piece, so that millions of Python objects need not exist at once.

    Parameters
    ----------
    source : ndarray of shape (k,)
    make : callable
        A piece of ``source``, as a list, to the items it stands for.

    Examples
    --------
    >>> texts = Derived(np.array([0.5, 2.0]), lambda part: [repr(v) for v in part])
    >>> texts[1], texts[:2], list(texts)
    ('2.0', ['0.5', '2.0'], ['0.5', '2.0'])
    """

    def __init__(self, source: np.ndarray, make: Callable[[list[Any]], list[Item]]) -> None:
        self._source = source
        self._make = make

    def __len__(self) -> int:
        return len(self._source)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | list[Item]:
        if isinstance(index, slice):
            return self._make(self._source[index].tolist())
        return self._make([self._source[index].item()])[0]

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self), _PIECE):
            yield from self[start : start + _PIECE]


@dataclass
class Fill:
    """The filled cells of one column: ascending `rows` (k,), their `values` as Python objects, and how to write
    them as text."""

    name: str
    rows: np.ndarray
    values: Sequence[Any]
    texts: Sequence[str]


@dataclass
class Flag:
    """A column of booleans, `mask` (N,), that says which cells were filled."""

    name: str
    mask: np.ndarray


@dataclass
class OutColumn:
    """A complete column for a new file: `values` has N entries, None where nothing is known."""

    name: str
    kind: Kind
    values: list[Any]
    texts: list[str] | None = None

    def as_texts(self) -> list[str]:
        """The column as text cells; a missing value is the empty cell."""
        if self.texts is not None:
            return self.texts
        return ["" if v is None else repr(v) if isinstance(v, float) else str(v) for v in self.values]


class Document(ABC):
    """A file that was read, and knows how to write itself back.

    Subclasses set `n_rows` and `format`, and, if the file holds its own node ids or edges, `ids` and `edges`.
    """

    format: str = ""
    n_rows: int = 0
    ids: list[str] | None = None
    edges: EdgeList | None = None

    def __init__(self, path: Path) -> None:
        self.path = path

    def where(self, row: int) -> str:
        """Where the row lies in the file, for messages."""
        return f"{self.path} row {row + 1}"

    @abstractmethod
    def raw_columns(self) -> list[RawColumn]:
        """All columns in file order."""

    @abstractmethod
    def write_filled(self, path: Path, fills: Sequence[Fill], flags: Sequence[Flag]) -> None:
        """Write the document to `path` in its own format, with the cells of `fills` replaced and
        `flags` added."""

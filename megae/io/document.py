"""What every file format offers to the rest: its columns, its edges, and writing itself back with
holes filled."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from megae.io.edges import EdgeList

__all__ = ["Document", "Fill", "Flag", "Kind", "OutColumn", "RawColumn"]

Kind = Literal["float", "int", "bool", "category", "kept"]


@dataclass
class RawColumn:
    """One column as its file holds it: text cells (`cells`), or typed values (`series`) where the
    format has types."""

    name: str
    cells: list[str] | None = None
    series: pd.Series[Any] | None = None
    note: str = ""
    fillable: bool = True


@dataclass
class Fill:
    """The filled cells of one column: `rows` (k,), their `values` as Python objects, and how to write
    them as text."""

    name: str
    rows: np.ndarray
    values: list[Any]
    texts: list[str]


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

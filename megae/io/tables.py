"""A table of nodes with holes, whatever file it lies in: reading, matching ids, and writing it filled.

The format follows the ending of the file name: .csv; .tsv or .tab; .parquet or .pq; .graphml; .npz. If
the output has the format of the input, everything but the holes is written back as it was; otherwise the
values are.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from megae.io.columns import Column, classify, format_value
from megae.io.document import Derived, Document, Fill, Flag, OutColumn, RawColumn
from megae.io.edges import EdgeList
from megae.io.errors import InputError
from megae.io.identity import ROW_NUMBERS, choose_ids

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FORMATS", "Table", "format_of", "open_document", "read_table", "write_columns", "write_table"]

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".graphml": "graphml",
    ".npz": "npz",
}


@dataclass
class Table:
    """A node table: `columns` in file order, one id per row, and the document it came from."""

    document: Document
    columns: list[Column]
    ids: list[str]
    id_column: str | None
    id_source: str

    @property
    def fillable(self) -> list[Column]:
        """The columns that take part in imputation."""
        return [c for c in self.columns if c.fillable]

    def frame(self) -> pd.DataFrame:
        """The columns that take part, shape (N, D), indexed by id; holes are NA."""
        import pandas as pd

        data = {c.name: c.series.array for c in self.fillable}
        return pd.DataFrame(data, index=pd.Index(self.ids, name=self.id_column), copy=True)

    def holes(self) -> np.ndarray:
        """Where the holes are, bool (N, D)."""
        columns = self.fillable
        if not columns:
            return np.zeros((len(self.ids), 0), dtype=bool)
        return np.stack([c.series.isna().to_numpy(dtype=bool) for c in columns], axis=1)

    def check_flags(self) -> None:
        """Refuse if a column ``<name>_imputed`` would collide with one that exists."""
        for column in self.fillable:
            if column.series.isna().any():
                _flag_name(self, column.name)


def format_of(path: Path) -> str:
    """The format a file name asks for.

    Examples
    --------
    >>> format_of(Path("nodes.TSV"))
    'tsv'
    """
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        ending = f"the ending {path.suffix!r}" if path.suffix else "no ending"
        raise InputError(f"{path} has {ending}; name it as one of {', '.join(FORMATS)}")
    return found


def open_document(path: Path) -> Document:
    """Read a file in the format its name asks for."""
    kind = format_of(path)
    if not path.exists():
        raise InputError(f"{path} does not exist; check the name and the folder")
    if not path.is_file():
        raise InputError(f"{path} is not a file; name a file")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty; it needs at least the names of its columns")
    if kind in ("csv", "tsv"):
        from megae.io.large import open_delimited

        return open_delimited(path, "\t" if kind == "tsv" else None)
    if kind == "parquet":
        from megae.io.parquet import ParquetFile

        return ParquetFile(path)
    if kind == "graphml":
        from megae.io.graphml import GraphMLFile

        return GraphMLFile(path)
    from megae.io.npz import NpzFile

    return NpzFile(path)


def read_table(
    path: Path,
    *,
    edges: EdgeList | None = None,
    id_column: str | None = None,
    columns: Sequence[str] | None = None,
) -> Table:
    """Read a node table and decide on its ids and on the columns to fill.

    Parameters
    ----------
    path : Path
        The file.
    edges : EdgeList or None
        The edges, which help to see which column holds the ids; None for those in the file itself, if any.
    id_column : str or None
        The column of ids, or ``#`` for the row number from 0; None chooses (see `megae.io.identity`).
    columns : sequence of str or None
        The columns to fill; None fills all numeric and boolean ones.

    Returns
    -------
    Table
        With N rows; at least one column takes part, and at least one of its cells is known.
    """
    document = open_document(path)
    raw = document.raw_columns()
    if document.n_rows == 0:
        raise InputError(f"{path} has no rows below its header; it needs one row per node")
    choice = choose_ids(document, raw, edges, id_column)
    _check_named(path, raw, columns, choice.column)
    typed = []
    for column in raw:
        named = None if columns is None else column.name in columns
        if column.name == choice.column:
            named = False
        typed.append(classify(column, document.where, named))
    table = Table(document, typed, choice.ids, choice.column, choice.source)
    if not table.fillable:
        raise InputError(
            f"{path} has no column of numbers to fill (text columns are kept as they are); "
            "name text columns to fill as categories with --columns"
        )
    if all(column.series.isna().all() for column in table.fillable):
        raise InputError(
            f"{path} is all holes: no cell of {_names(table.fillable)} is known; it needs some "
            f"known values to learn from"
        )
    return table


def write_table(path: Path, table: Table, filled: pd.DataFrame, *, flag: bool = False, graph: Any = None) -> None:
    """Write the filled table.

    Parameters
    ----------
    path : Path
        Where to write; the caller makes it atomic.
    table : Table
        As read, N rows.
    filled : pandas.DataFrame of shape (N, D)
        The columns of ``table.frame()`` without holes; only cells that were holes are taken from it.
    flag : bool
        Add a boolean column ``<name>_imputed`` for every column that had holes.
    graph : scipy.sparse array of shape (N, N) or None
        Edges, for formats that hold them and did not hold them before.
    """
    fills = _fills(table, filled)
    flags = [Flag(_flag_name(table, fill.name), _mask(fill, len(table.ids))) for fill in fills] if flag else []
    document, kind = table.document, format_of(path)
    if kind == document.format:
        if fills:
            document.write_filled(path, fills, flags)
        else:
            shutil.copyfile(document.path, path)
        return
    columns = _complete(table, fills)
    if kind in ("graphml", "npz"):
        if kind == "graphml":
            from megae.io.graphml import write_graphml

            shown = [c for c in columns if not (c.name == table.id_column and c.name.lower() == "id")]
            write_graphml(path, shown + [_flag_column(f) for f in flags], table.ids, graph)
        else:
            from megae.io.npz import write_npz

            ids = None if table.id_source == ROW_NUMBERS else table.ids
            write_npz(path, [c for c in columns if c.name != table.id_column], ids, graph, flags)
        return
    if document.ids is not None:
        name = next(n for n in ("id", "node", "node_id", "_id") if n not in {c.name for c in columns})
        columns = [OutColumn(name, "kept", list(table.ids), list(table.ids)), *columns]
    write_columns(path, columns + [_flag_column(f) for f in flags])


def write_columns(path: Path, columns: Sequence[OutColumn]) -> None:
    """Write columns as a new CSV, TSV or Parquet file."""
    kind = format_of(path)
    if kind == "parquet":
        from megae.io.parquet import write_parquet

        write_parquet(path, columns)
    elif kind in ("csv", "tsv"):
        from megae.io.delimited import write_delimited

        write_delimited(path, columns, "\t" if kind == "tsv" else ",")
    else:
        raise InputError(f"{path}: this table is written as .csv, .tsv or .parquet; choose one of these endings")


def _fills(table: Table, filled: pd.DataFrame) -> list[Fill]:
    fills = []
    for column in table.fillable:
        rows = np.flatnonzero(column.series.isna().to_numpy(dtype=bool))
        if not rows.size:
            continue
        new = filled[column.name].iloc[rows]
        if new.isna().any():
            raise RuntimeError(f"column {column.name!r} still has holes after imputation")
        if column.kind == "category":
            fills.append(Fill(column.name, rows, labels := [str(v) for v in new], labels))
            continue
        numbers = new.to_numpy(dtype=np.float64)
        if column.kind == "bool":
            numbers = numbers >= 0.5
        fills.append(Fill(column.name, rows, *_derived(column, numbers)))
    return fills


def _derived(column: Column, numbers: np.ndarray) -> tuple[Sequence[Any], Sequence[str]]:
    """Filled numbers or booleans (k,) as the values of the column and as its text."""

    def values(part: list[Any]) -> list[Any]:
        return [round(v) for v in part] if column.kind == "int" else part

    def texts(part: list[Any]) -> list[str]:
        if column.kind == "float":
            return list(map(repr, part))  # what format_value gives, without a call per cell
        return [format_value(v, column) for v in values(part)]

    return Derived(numbers, values), Derived(numbers, texts)


def _complete(table: Table, fills: Sequence[Fill]) -> list[OutColumn]:
    """All columns with their holes filled, as values and (where the file was text) as the characters
    they had."""
    import pandas as pd

    by_name = {fill.name: fill for fill in fills}
    raw = {c.name: c for c in table.document.raw_columns()}
    complete = []
    for column in table.columns:
        values = [None if pd.isna(v) else v for v in column.series.tolist()]
        cells = raw[column.name].cells
        texts = None if cells is None else list(cells)
        fill = by_name.get(column.name)
        if fill is not None:
            for row, value, text in zip(fill.rows.tolist(), fill.values, fill.texts, strict=True):
                values[row] = value
                if texts is not None:
                    texts[row] = text
        complete.append(OutColumn(column.name, column.kind, values, texts))
    return complete


def _mask(fill: Fill, n: int) -> np.ndarray:
    mask = np.zeros(n, dtype=bool)
    mask[fill.rows] = True
    return mask


def _flag_name(table: Table, column: str) -> str:
    name = f"{column}_imputed"
    if any(c.name == name for c in table.columns):
        raise InputError(f"{table.document.path} already has a column {name!r}; rename it or leave out --flag-imputed")
    return name


def _flag_column(flag: Flag) -> OutColumn:
    return OutColumn(flag.name, "bool", [bool(v) for v in flag.mask])


def _check_named(path: Path, raw: Sequence[RawColumn], columns: Sequence[str] | None, id_column: str | None) -> None:
    have = [c.name for c in raw]
    for name in columns or []:
        if name not in have:
            raise InputError(f"{path} has no column {name!r} (asked for by --columns); it has {', '.join(have)}")
        if name == id_column:
            raise InputError(f"--columns: {name!r} is the column of ids, which is never filled; leave it out")


def _names(columns: Sequence[Column], limit: int = 5) -> str:
    shown = ", ".join(repr(c.name) for c in columns[:limit])
    return shown + (f" and {len(columns) - limit} more columns" if len(columns) > limit else "")

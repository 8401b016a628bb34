"""Parquet files: own types, own metadata, read and written with pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import numpy as np

from megae.io.document import Document, Fill, Flag, OutColumn, RawColumn
from megae.io.errors import InputError

__all__ = ["ParquetFile", "write_parquet"]


class ParquetFile(Document):
    """A Parquet file; null, and NaN in columns of floats, is a hole.

    Columns that are not filled, the schema and its metadata (a pandas index, say) are written back as
    they were.
    """

    format = "parquet"

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        super().__init__(path)
        try:
            with open(path, "rb") as handle:
                self.table = pq.ParquetFile(handle).read()
        except pa.ArrowInvalid as error:
            raise InputError(f"{path} is not a readable Parquet file ({error}); write it again") from error
        names = self.table.column_names
        repeated = [n for i, n in enumerate(names) if n in names[:i]]
        if repeated:
            raise InputError(f"{path}: two columns are named {repeated[0]!r}; rename one of them")
        if not names:
            raise InputError(f"{path} has no columns; it needs one column per attribute and one row per node")
        self.n_rows = self.table.num_rows

    def raw_columns(self) -> list[RawColumn]:
        import pandas as pd
        import pyarrow as pa

        columns = []
        for name, values in zip(self.table.column_names, self.table.columns, strict=True):
            kind = values.type
            series: pd.Series[Any]
            if pa.types.is_integer(kind):
                dtype = "UInt64" if pa.types.is_uint64(kind) else "Int64"
                series = pd.Series(pd.array(values.to_pylist(), dtype=dtype))
            elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
                series = pd.Series(np.asarray(values.cast(pa.float64()).to_numpy(), dtype=np.float64))
            elif pa.types.is_boolean(kind):
                series = pd.Series(pd.array(values.to_pylist(), dtype="boolean"))
            else:
                series = pd.Series(values.to_pylist(), dtype=object)
                columns.append(RawColumn(name, series=series, note=str(kind), fillable=_textual(kind)))
                continue
            columns.append(RawColumn(name, series=series, note=str(kind)))
        return columns

    def write_filled(self, path: Path, fills: Sequence[Fill], flags: Sequence[Flag]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = self.table
        for fill in fills:
            at = table.column_names.index(fill.name)
            field = table.schema.field(at)
            values = table.column(at).to_pylist()
            for row, value, text in zip(fill.rows.tolist(), fill.values, fill.texts, strict=True):
                values[row] = _fit(value, text, field.type)
            table = table.set_column(at, field, pa.chunked_array([pa.array(values, type=field.type)]))
        for flag in flags:
            table = table.append_column(flag.name, pa.array(flag.mask))
        pq.write_table(table, path)


def write_parquet(path: Path, columns: Sequence[OutColumn]) -> None:
    """Write a new Parquet file: double, int64, bool, and string for everything else; the empty text is
    null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"float": pa.float64(), "int": pa.int64(), "bool": pa.bool_()}
    arrays = {}
    for column in columns:
        if column.kind in types:
            arrays[column.name] = pa.array(column.values, type=types[column.kind])
        else:
            arrays[column.name] = pa.array([t or None for t in column.as_texts()], type=pa.string())
    pq.write_table(pa.table(arrays), path)


def _fit(value: Any, text: str, kind: Any) -> Any:
    """A filled value in the type of its column: kept within an integer's range, rounded to a decimal's
    scale."""
    import pyarrow as pa

    if pa.types.is_integer(kind):
        low, high = (0, 2**kind.bit_width - 1)
        if pa.types.is_signed_integer(kind):
            low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
        return min(max(round(value), low), high)
    if pa.types.is_decimal(kind):
        return Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_EVEN)
    return text if _textual(kind) else value


def _textual(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)

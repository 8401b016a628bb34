"""NumPy .npz archives: a matrix of attributes and, if wanted, the graph beside it.

Keys: ``x`` (N, D) numbers with NaN for holes; optional ``edge_index`` (2, E) row numbers from 0,
``edge_weight`` (E,), ``columns`` (D,) names (else x0, x1, ...), ``ids`` (N,) node ids (else row
numbers). Any other key is written back as it was. Flags of filled cells are the boolean array
``x_imputed`` (N, D). Columns that are no numbers become arrays ``column:<name>``. Archives that hold
pickled objects are refused.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from megae.io.document import Document, Fill, Flag, OutColumn, RawColumn
from megae.io.edges import EdgeList, check_weights, label
from megae.io.errors import InputError

__all__ = ["NpzFile", "write_npz"]


class NpzFile(Document):
    """A .npz archive with the keys above."""

    format = "npz"

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            if not zipfile.is_zipfile(path):
                raise zipfile.BadZipFile("it is no zip archive")
            with np.load(path, allow_pickle=False) as archive:
                self.arrays = {key: archive[key] for key in archive.files}
        except (ValueError, zipfile.BadZipFile, EOFError, AttributeError) as error:
            raise InputError(
                f"{path} is not a readable .npz archive of plain arrays ({error}); write it again with numpy.savez"
            ) from error
        self.names: list[str] = []
        if "x" in self.arrays:
            self._read_x()
        if "edge_index" in self.arrays:
            self.edges = self._read_edges()
        if not self.names and self.edges is None:
            raise InputError(
                f"{path} has neither an array 'x' nor 'edge_index', only {sorted(self.arrays)}; rename the arrays"
            )

    def raw_columns(self) -> list[RawColumn]:
        import pandas as pd

        if "x" not in self.arrays:
            raise InputError(f"{self.path} has no array 'x' of shape (rows, columns), only {sorted(self.arrays)}")
        x = self.arrays["x"]
        return [RawColumn(name, series=pd.Series(x[:, j])) for j, name in enumerate(self.names)]

    def write_filled(self, path: Path, fills: Sequence[Fill], flags: Sequence[Flag]) -> None:
        arrays = dict(self.arrays)
        x = arrays["x"].copy()
        for fill in fills:
            x[fill.rows, self.names.index(fill.name)] = list(fill.values)
        arrays["x"] = x
        if flags:
            arrays["x_imputed"] = np.isnan(self.arrays["x"])
        _save(path, arrays)

    def _read_x(self) -> None:
        x = self.arrays["x"]
        if x.ndim != 2 or x.dtype.kind not in "fiub":
            raise InputError(
                f"{self.path}: 'x' must be a matrix of numbers, rows by columns, not {x.dtype} of shape {x.shape}"
            )
        self.n_rows = x.shape[0]
        self.names = [f"x{j}" for j in range(x.shape[1])]
        for key, size in (("columns", x.shape[1]), ("ids", x.shape[0])):
            if key in self.arrays and self.arrays[key].shape != (size,):
                raise InputError(
                    f"{self.path}: '{key}' has shape {self.arrays[key].shape}, but 'x' asks for "
                    f"({size},); fix one of them"
                )
        if "columns" in self.arrays:
            self.names = [str(name) for name in self.arrays["columns"].tolist()]
        if len(set(self.names)) < len(self.names):
            raise InputError(f"{self.path}: 'columns' names a column twice; rename one of them")
        if "ids" in self.arrays:
            self.ids = [label(key) for key in self.arrays["ids"].tolist()]

    def _read_edges(self) -> EdgeList:
        index = self.arrays["edge_index"]
        if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
            raise InputError(
                f"{self.path}: 'edge_index' must be whole numbers of shape (2, E), not {index.dtype} {index.shape}"
            )

        def where(e: int) -> str:
            return f"{self.path} edge {e} (column {e} of 'edge_index')"

        weight = self.arrays.get("edge_weight")
        if weight is not None:
            if weight.shape != (index.shape[1],) or weight.dtype.kind not in "fiub":
                raise InputError(f"{self.path}: 'edge_weight' must be numbers of shape ({index.shape[1]},)")
            weight = weight.astype(np.float64)
            check_weights(weight, where)
        source, target = ([str(i) for i in ends] for ends in index.tolist())
        return EdgeList(self.path, source, target, weight, where, positional=True)


def write_npz(
    path: Path, columns: Sequence[OutColumn], ids: Sequence[str] | None, edges: Any, flags: Sequence[Flag]
) -> None:
    """Write a new archive.

    Parameters
    ----------
    path : Path
        The file.
    columns : sequence of OutColumn
        Numeric and boolean columns become ``x``, others ``column:<name>``.
    ids : sequence of str, length N, or None
        Node ids.
    edges : scipy.sparse array of shape (N, N) or None
        Weights; both directions of each edge are written.
    flags : sequence of Flag
        Which cells were filled.
    """
    from scipy.sparse import coo_array

    numeric = [c for c in columns if c.kind in ("float", "int", "bool")]
    arrays: dict[str, np.ndarray] = {}
    arrays["x"] = np.asarray([[np.nan if v is None else float(v) for v in c.values] for c in numeric]).T
    arrays["columns"] = np.asarray([c.name for c in numeric], dtype=np.str_)
    if ids is not None:
        arrays["ids"] = np.asarray(list(ids), dtype=np.str_)
    for column in columns:
        if column.kind not in ("float", "int", "bool"):
            arrays[f"column:{column.name}"] = np.asarray(column.as_texts(), dtype=np.str_)
    if edges is not None:
        coo = coo_array(edges)
        arrays["edge_index"] = np.stack([coo.row, coo.col]).astype(np.int64)
        arrays["edge_weight"] = coo.data
    if flags:
        mask = {flag.name.removesuffix("_imputed"): flag.mask for flag in flags}
        empty = np.zeros(len(columns[0].values), dtype=bool)
        arrays["x_imputed"] = np.stack([mask.get(c.name, empty) for c in numeric], axis=1)
    _save(path, arrays)


def _save(path: Path, arrays: dict[str, np.ndarray], compression: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as handle:
                np.lib.format.write_array(handle, np.asanyarray(array), allow_pickle=False)

"""Anything a user may hold as a table -> a float matrix with NaN, and back to what it was.

Accepted: ndarray, nested lists, torch tensor, pandas DataFrame, scipy sparse matrix (stored NaN are holes,
what is not stored is an observed zero). Observed cells come back as the very objects or bits that went in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from megae.columns import LARGEST


@dataclass(frozen=True)
class Table:
    """A table read into numbers.

    Parameters
    ----------
    cells : ndarray of shape (N, D), float64
        NaN in holes; category codes in categorical columns.
    names : list of str
    categories : dict from position to category texts
    boolean : list of int
        Positions of columns of bool dtype.
    labels : index labels of the rows, or None
    restore : callable
        Maps filled cells (N, D) to the type, dtype, index and columns of the input; observed cells untouched.
    """

    cells: np.ndarray
    names: list[str]
    restore: Callable[[np.ndarray], Any]
    categories: dict[int, list[str]] = field(default_factory=dict)
    boolean: list[int] = field(default_factory=list)
    labels: Any = None

    @property
    def holes(self) -> np.ndarray:
        """Boolean (N, D): True where a cell is missing."""
        return np.isnan(self.cells)


def is_frame(X: Any) -> bool:
    """Whether X is a pandas DataFrame, without importing pandas."""
    return type(X).__module__.split(".")[0] == "pandas" and hasattr(X, "columns")


def read_table(X: Any, validated: Any = None) -> Table:
    """Read X; ``validated`` is what scikit-learn's checks made of it (ndarray or sparse), where they ran."""
    if is_frame(X):
        return _read_frame(X)
    if isinstance(X, torch.Tensor):
        return _read_tensor(X)
    if sp.issparse(X):
        return _read_sparse(X)
    return _read_array(np.asarray(X) if validated is None else validated)


def check_finite(cells: np.ndarray, names: Sequence[str]) -> None:
    """Refuse infinite values, values too large to be squared, and tables without a single observed cell."""
    large = np.abs(cells) > LARGEST
    if large.any():
        i, j = np.argwhere(large)[0]
        place = f"at row {i}, column {names[j]!r}"
        if np.isinf(cells[i, j]):
            raise ValueError(f"X contains infinity, {place}; replace infinite values by NaN to have them filled")
        raise ValueError(
            f"X contains {cells[i, j]:g}, {place}, too large to compute with: numbers may reach {LARGEST:g}; "
            "give the column a larger unit, or replace the value by NaN to have it filled"
        )
    if cells.size and np.isnan(cells).all():
        raise ValueError("X is all holes: no cell is observed, so there is nothing to learn from")


def _default_names(n: int) -> list[str]:
    return [f"x{j}" for j in range(n)]


def _read_array(array: np.ndarray) -> Table:
    if array.ndim != 2:
        raise ValueError(f"X must be two-dimensional (nodes, attributes), got shape {array.shape}")
    if array.dtype == object:
        array = array.astype(np.float64)
    cells = array.astype(np.float64)

    def restore(filled: np.ndarray) -> np.ndarray:
        out = array.copy()
        holes = np.isnan(cells)
        if holes.any():
            out[holes] = filled[holes].astype(out.dtype)
        return out

    boolean = list(range(array.shape[1])) if array.dtype == bool else []
    return Table(cells, _default_names(array.shape[1]), restore, boolean=boolean)


def _read_tensor(X: torch.Tensor) -> Table:
    if X.is_complex():
        raise ValueError("X is a complex tensor; Complex data not supported, give real numbers")
    table = _read_array(X.detach().cpu().to(torch.float64).numpy())

    def restore(filled: np.ndarray) -> torch.Tensor:
        holes = torch.from_numpy(table.holes).to(X.device)
        return torch.where(holes, torch.from_numpy(filled).to(device=X.device, dtype=X.dtype), X.detach())

    return Table(table.cells, table.names, restore)


def _read_sparse(X: Any) -> Table:
    coo = sp.coo_array(X, copy=True)
    coo.sum_duplicates()
    cells = coo.toarray().astype(np.float64)

    def restore(filled: np.ndarray) -> Any:
        out = coo.copy()
        values = out.data if np.issubdtype(out.dtype, np.floating) else out.data.astype(np.float64)
        out.data = np.where(np.isnan(values), filled[out.coords[0], out.coords[1]], values).astype(values.dtype)
        result = out.asformat(X.format)
        return result if isinstance(X, sp.sparray) else sp.coo_matrix(result).asformat(X.format)

    return Table(cells, _default_names(cells.shape[1]), restore)


def _read_frame(X: Any) -> Table:
    import pandas as pd

    if not X.columns.is_unique:
        twice = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"the table has two columns named {twice!r}; rename one")
    cells = np.empty(X.shape, dtype=np.float64)
    categories: dict[int, list[str]] = {}
    boolean: list[int] = []
    for j, name in enumerate(X.columns):
        column = X.iloc[:, j]
        if isinstance(column.dtype, pd.CategoricalDtype):
            codes = column.cat.codes.to_numpy(dtype=np.float64, copy=True)
            codes[codes < 0] = np.nan
            cells[:, j] = codes
            categories[j] = [str(c) for c in column.cat.categories]
            if not categories[j]:
                raise ValueError(f"column {name!r} is categorical without a category; drop it or add some")
        elif pd.api.types.is_bool_dtype(column.dtype):
            boolean.append(j)
            cells[:, j] = column.astype("boolean").to_numpy(dtype=np.float64, na_value=np.nan)
        elif pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_complex_dtype(column.dtype):
            cells[:, j] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            cells[:, j] = _numbers(column, name)

    def restore(filled: np.ndarray) -> Any:
        holes = np.isnan(cells)
        if not holes.any():
            return X.copy()
        return pd.DataFrame(
            {j: _fill_series(X.iloc[:, j], filled[:, j], holes[:, j]) for j in range(X.shape[1])},
            index=X.index,
        ).set_axis(X.columns, axis=1)

    return Table(cells, [str(c) for c in X.columns], restore, categories, boolean, X.index)


def _numbers(column: Any, name: Any) -> np.ndarray:
    """Numbers held as objects; text is refused with the cell named."""
    import pandas as pd

    if not pd.api.types.is_object_dtype(column.dtype) and not pd.api.types.is_string_dtype(column.dtype):
        raise ValueError(
            f"column {name!r} has dtype {column.dtype}, which cannot be filled; drop it or turn it into numbers first"
        )
    for label, value in column.items():
        if not pd.isna(value) and not isinstance(value, (int, float, bool, np.number, np.bool_)):
            raise ValueError(
                f"column {name!r} holds {value!r} (row {label!r}) where a number belongs; drop the column, "
                "convert it with pandas.to_numeric, or give it dtype 'category'. "
                "Complex or text data not supported"
            )
    return pd.to_numeric(column, errors="raise").to_numpy(dtype=np.float64, na_value=np.nan)


def _fill_series(column: Any, filled: np.ndarray, holes: np.ndarray) -> Any:
    import pandas as pd

    if not holes.any():
        return column.copy()
    values = filled[holes]
    dtype = column.dtype
    if isinstance(dtype, pd.SparseDtype):
        return _fill_series(column.sparse.to_dense(), filled, holes).astype(dtype)
    if isinstance(dtype, pd.CategoricalDtype):
        codes = column.cat.codes.to_numpy(copy=True)
        codes[holes] = values.astype(codes.dtype)
        return pd.Series(pd.Categorical.from_codes(codes, dtype=dtype), index=column.index, name=column.name)
    out = column.copy()
    if pd.api.types.is_bool_dtype(dtype):
        out[holes] = values >= 0.5
    elif pd.api.types.is_integer_dtype(dtype) and not np.isfinite(values).all():  # ends of intervals without end
        out = out.astype("Float64")
        out[holes] = values
    elif pd.api.types.is_integer_dtype(dtype):
        bounds = np.iinfo(getattr(dtype, "numpy_dtype", dtype))
        out[holes] = _whole(values, bounds)
    elif pd.api.types.is_object_dtype(dtype):
        out[holes] = values.astype(object)
    else:
        out[holes] = values.astype(getattr(dtype, "numpy_dtype", dtype))
    return out


def _whole(values: np.ndarray, bounds: np.iinfo) -> np.ndarray:
    """Rounded into an integer type; what is beyond its range goes to the end, which no float64 of 64 bits can name."""
    rounded = np.rint(values)
    inside = np.clip(rounded, float(bounds.min), np.nextafter(float(bounds.max), 0)).astype(bounds.dtype)
    return np.where(rounded >= float(bounds.max), bounds.max, inside).astype(bounds.dtype)

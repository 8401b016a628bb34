"""The co-purchase network in the npz layout of gnn-benchmark: sparse matrices as plain arrays."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data
from torch_geometric.io import parse_npz

from megae.datasets.archive import open_zip

_KEYS = [f"{part}_{key}" for part in ("adj", "attr") for key in ("data", "indices", "indptr", "shape")] + ["labels"]


def read_npz_graph(path: Path) -> Data:
    """Read one graph, whole: its stored directed edges as undirected ones, once each, without self-loops.

    Parameters
    ----------
    path : path of the npz
        Arrays ``adj_data``, ``adj_indices``, ``adj_indptr``, ``adj_shape`` (a CSR matrix), the same of ``attr``, and
        ``labels`` (N,). Other arrays are not read; pickled ones are refused.

    Returns
    -------
    Data with ``x`` (N, D) float32, 1 where the attribute is there, ``edge_index`` (2, 2E), ``y`` (N,)
    """
    try:
        with open_zip(path), np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in _KEYS}
    except (KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not the npz of gnn-benchmark ({error}); fetch it again") from error
    n = len(arrays["labels"])
    for part in ("adj", "attr"):
        matrix = _csr(path, part, arrays)
        if matrix.shape[0] != n or (part == "adj" and matrix.shape[1] != n):
            raise ValueError(f"{path}: {part} is {matrix.shape}, which does not fit {n} labels; fetch it again")
    return parse_npz(arrays)


def _csr(path: Path, part: str, arrays: dict[str, np.ndarray]) -> sp.csr_matrix:
    """The matrix, with every index checked: scipy's compiled loops trust them."""
    values = (arrays[f"{part}_data"], arrays[f"{part}_indices"], arrays[f"{part}_indptr"])
    try:
        rows, columns = (int(n) for n in arrays[f"{part}_shape"])
        matrix = sp.csr_matrix(values, (rows, columns))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {part} is not a sparse matrix ({error}); fetch it again") from error
    return matrix

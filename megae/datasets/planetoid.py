"""The citation networks in their original ``ind.*`` files, read without trusting them."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import LargestConnectedComponents
from torch_geometric.utils import coalesce, remove_self_loops, to_undirected

_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"): ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"): ("numpy", "ndarray"),
    ("numpy", "dtype"): ("numpy", "dtype"),
    ("scipy.sparse.csr", "csr_matrix"): ("scipy.sparse", "csr_matrix"),
    ("scipy.sparse._csr", "csr_matrix"): ("scipy.sparse", "csr_matrix"),
}


class _RestrictedUnpickler(pickle.Unpickler):
    """Builds arrays, CSR matrices and a dict of lists; refuses everything else, so a file cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "defaultdict"):
            return defaultdict
        if (module, name) in {("__builtin__", "list"), ("builtins", "list")}:
            return list
        if (module, name) not in _ALLOWED:
            raise ValueError(f"it asks for {module}.{name}, which a Planetoid file has no use for; refused")
        return super().find_class(*_ALLOWED[(module, name)])


def read_planetoid(folder: Path, name: str, *, largest_component: bool = True) -> Data:
    """Read one citation network: edges undirected, once each, without self-loops.

    Nodes that are in the graph but in no feature file (15 of Citeseer's) get zero features and the label -1.

    Parameters
    ----------
    folder : path that holds ``ind.NAME.x`` and the other seven files
    name : "cora", "citeseer" or "pubmed"
    largest_component : bool
        Whether to keep the largest component alone, as the paper does.

    Returns
    -------
    Data with ``x`` (N, D) float32, ``edge_index`` (2, 2E), ``y`` (N,)
    """
    allx, tx = (_matrix(folder / f"ind.{name}.{part}") for part in ("allx", "tx"))
    ally, ty = (_array(folder / f"ind.{name}.{part}") for part in ("ally", "ty"))
    test = _test_index(folder / f"ind.{name}.test.index")
    where = np.concatenate([np.arange(allx.shape[0]), test])
    if allx.shape[1] != tx.shape[1] or not len(where) == allx.shape[0] + tx.shape[0] == len(ally) + len(ty):
        raise ValueError(f"{folder}: the files ind.{name}.* do not belong together; fetch all of them again")
    n = int(where.max()) + 1
    x = np.zeros((n, allx.shape[1]), dtype=np.float32)
    x[where] = sp.vstack([allx, tx]).toarray()
    y = np.full(n, -1, dtype=np.int64)
    y[where] = np.concatenate([ally, ty]).argmax(axis=1)
    edge_index = _edges(folder / f"ind.{name}.graph", n)
    data = Data(x=torch.from_numpy(x), edge_index=edge_index, y=torch.from_numpy(y))
    return LargestConnectedComponents()(data) if largest_component else data


def _unpickle(path: Path) -> Any:
    with path.open("rb") as file:
        try:
            return _RestrictedUnpickler(file, encoding="latin1").load()
        except Exception as error:  # a damaged pickle can raise anything
            raise ValueError(f"{path} cannot be read: {error}") from error


def _matrix(path: Path) -> sp.csr_matrix:
    """A CSR matrix with every index checked: scipy's compiled loops trust them."""
    found = _unpickle(path)
    try:
        matrix = sp.csr_matrix((found.data, found.indices, found.indptr), shape=found._shape)
        matrix.check_format(full_check=True)
    except (AttributeError, ValueError, TypeError) as error:
        raise ValueError(f"{path} does not hold a sparse matrix ({error}); fetch it again") from error
    return matrix


def _array(path: Path) -> np.ndarray:
    found = _unpickle(path)
    if not isinstance(found, np.ndarray) or found.ndim != 2 or found.dtype.kind not in "biuf":
        raise ValueError(f"{path} does not hold a table of labels; fetch it again")
    return found


def _test_index(path: Path) -> np.ndarray:
    try:
        index = np.array([int(line) for line in path.read_text("ascii").split()], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} does not hold one node number per line ({error}); fetch it again") from error
    if len(index) == 0 or index.min() < 0 or index.max() > 10_000_000:
        raise ValueError(f"{path} does not hold node numbers; fetch it again")
    return index


def _edges(path: Path, n: int) -> torch.Tensor:
    graph = _unpickle(path)
    try:
        pairs = np.array([(i, j) for i, near in graph.items() for j in near], dtype=np.int64).reshape(-1, 2).T
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not hold lists of neighbours ({error}); fetch it again") from error
    if pairs.size and (pairs.min() < 0 or pairs.max() >= n):
        raise ValueError(f"{path} names node {int(pairs.max())}, but there are {n}; fetch all files again")
    return to_undirected(coalesce(remove_self_loops(torch.from_numpy(pairs))[0]), num_nodes=n)

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
            raise ValueError(f"the file asks for {module}.{name}, which a Planetoid file has no use for; refused")
        return super().find_class(*_ALLOWED[(module, name)])


def read_planetoid(folder: Path, name: str) -> Data:
    """Read one citation network: its largest component, edges undirected, once each, without self-loops.

    Parameters
    ----------
    folder : path that holds ``ind.NAME.x`` and the other seven files
    name : "cora", "citeseer" or "pubmed"

    Returns
    -------
    Data with ``x`` (N, D) float32, ``edge_index``, ``y`` (N,)
    """
    part = {k: _unpickle(folder / f"ind.{name}.{k}") for k in ("tx", "allx", "ty", "ally", "graph")}
    test = np.loadtxt(folder / f"ind.{name}.test.index", dtype=np.int64)
    n = max(int(test.max()) + 1, part["allx"].shape[0])
    where = np.concatenate([np.arange(part["allx"].shape[0]), test])
    x = np.zeros((n, part["allx"].shape[1]), dtype=np.float32)
    x[where] = sp.vstack([part["allx"], part["tx"]]).toarray()
    y = np.full(n, -1, dtype=np.int64)
    y[where] = np.concatenate([part["ally"], part["ty"]]).argmax(axis=1)
    pairs = np.array([(i, j) for i, near in part["graph"].items() for j in near], dtype=np.int64).T
    edge_index = to_undirected(coalesce(remove_self_loops(torch.from_numpy(pairs))[0]), num_nodes=n)
    data = Data(x=torch.from_numpy(x), edge_index=edge_index, y=torch.from_numpy(y))
    return LargestConnectedComponents()(data)


def _unpickle(path: Path) -> Any:
    with path.open("rb") as file:
        return _RestrictedUnpickler(file, encoding="latin1").load()

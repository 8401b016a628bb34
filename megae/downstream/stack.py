"""Many graphs laid end to end, from which batches are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from megae.downstream.reading import sparse_tensor


class GraphBatch(NamedTuple):
    """G graphs as one.

    Parameters
    ----------
    x : Tensor of shape (N, D)
    A_hat : sparse CSR Tensor of shape (N, N), one block for each graph
    graph_of : int64 Tensor of shape (N,), ascending
    size : G
    """

    x: Tensor
    A_hat: Tensor
    graph_of: Tensor
    size: int


class GraphStack:
    """Graphs with their operators, kept so that any few of them are a batch at once.

    Parameters
    ----------
    features : float32 Tensors of shape (N_i, D)
    operators : csr_arrays of shape (N_i, N_i), float32
    """

    def __init__(self, features: Sequence[Tensor], operators: Sequence[sp.csr_array]) -> None:
        self._x = torch.cat(list(features))
        self._nodes = np.array([len(x) for x in features])
        self._first = np.cumsum(self._nodes) - self._nodes
        self._degree = np.concatenate([np.diff(A.indptr) for A in operators])
        self._column = np.concatenate([A.indices for A in operators])
        self._weight = np.concatenate([A.data for A in operators])
        self._edges = np.array([A.nnz for A in operators])
        self._first_edge = np.cumsum(self._edges) - self._edges

    def __len__(self) -> int:
        return len(self._nodes)

    def take(self, graphs: np.ndarray) -> GraphBatch:
        """The graphs at these positions, in this order."""
        n = self._nodes[graphs]
        nodes = _ranges(self._first[graphs], n)
        edges = _ranges(self._first_edge[graphs], self._edges[graphs])
        shift = np.repeat(np.cumsum(n) - n, self._edges[graphs])
        start = np.concatenate([[0], np.cumsum(self._degree[nodes])])
        total = len(nodes)
        A_hat = sp.csr_array((self._weight[edges], self._column[edges] + shift, start), shape=(total, total))
        graph_of = np.repeat(np.arange(len(graphs)), n)
        return GraphBatch(
            self._x[torch.from_numpy(nodes)], sparse_tensor(A_hat), torch.from_numpy(graph_of), len(graphs)
        )

    def all(self) -> GraphBatch:
        """Every graph."""
        return self.take(np.arange(len(self)))


def _ranges(first: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """first[0], ..., first[0] + sizes[0] - 1, first[1], ..."""
    return np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())

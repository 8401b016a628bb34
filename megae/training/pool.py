"""Many graphs collated once, and any few of them cut out again without touching the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.graphs import collate, laplacian
from megae.kernels import FilterOperator


@dataclass(frozen=True)
class GraphBatch:
    """Some graphs of a pool as one disconnected graph.

    Parameters
    ----------
    values : Tensor of shape (N, E), float32
        Standardised data, 0 in holes.
    observed : bool Tensor of shape (N, E)
    graph : int64 Tensor of shape (N,)
    n_graphs : int
    operator : FilterOperator over the N nodes
    nodes : ndarray of shape (N,), int64, or None
        Which nodes of the pool these are; None for all of them.
    """

    values: Tensor
    observed: Tensor
    graph: Tensor
    n_graphs: int
    operator: FilterOperator
    nodes: np.ndarray | None = None


class GraphPool:
    """Graphs collated into one block diagonal, on one device.

    Parameters
    ----------
    graphs : list of ``Data`` made by :func:`megae.graphs.to_data`
    mean, scale : ndarray of shape (E,)
        Data are standardised with these, in float64, before they become float32.
    use_graph : bool
        False drops every edge.
    """

    def __init__(
        self,
        graphs: Sequence[Data],
        mean: np.ndarray,
        scale: np.ndarray,
        device: torch.device,
        use_graph: bool = True,
    ) -> None:
        batch = collate(graphs)
        x = (batch.x - torch.from_numpy(mean)) / torch.from_numpy(scale)
        self.device = device
        self.ptr = batch.ptr.numpy()
        observed = torch.isfinite(x)
        L = laplacian(batch) if use_graph else sp.eye_array(x.shape[0], format="csr")
        operator = FilterOperator.from_laplacian(L)
        self.csr = tuple(t.numpy() for t in (operator.indptr, operator.indices, operator.values))
        self.whole = GraphBatch(
            torch.where(observed, x, 0.0).to(device, torch.float32),
            observed.to(device),
            batch.batch.to(device),
            len(self.ptr) - 1,
            operator.to(device),
        )

    @property
    def n_graphs(self) -> int:
        return len(self.ptr) - 1

    def take(self, chosen: np.ndarray) -> GraphBatch:
        """The chosen graphs, in that order."""
        if len(chosen) == self.n_graphs and np.array_equal(chosen, np.arange(self.n_graphs)):
            return self.whole
        indptr, indices, values = self.csr
        sizes = self.ptr[chosen + 1] - self.ptr[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        shift = np.repeat(self.ptr[chosen] - starts[:-1], sizes)
        nodes = np.arange(starts[-1]) + shift
        degrees = indptr[nodes + 1] - indptr[nodes]
        new_indptr = np.concatenate([[0], np.cumsum(degrees)])
        entries = np.arange(new_indptr[-1]) + np.repeat(indptr[nodes] - new_indptr[:-1], degrees)
        new_indices = indices[entries] - np.repeat(shift, degrees)
        operator = FilterOperator(
            torch.from_numpy(new_indptr.astype(np.int32)),
            torch.from_numpy(new_indices.astype(np.int32)),
            torch.from_numpy(values[entries]),
        ).to(self.device)
        at = torch.from_numpy(nodes).to(self.device)
        graph = torch.from_numpy(np.repeat(np.arange(len(chosen)), sizes)).to(self.device)
        return GraphBatch(self.whole.values[at], self.whole.observed[at], graph, len(chosen), operator, nodes)

    def chunks(self, max_nodes: int) -> list[np.ndarray]:
        """Consecutive graphs, cut so that no chunk of more than one graph has over ``max_nodes`` nodes."""
        out: list[np.ndarray] = []
        first = 0
        for g in range(1, self.n_graphs + 1):
            if g == self.n_graphs or self.ptr[g + 1] - self.ptr[first] > max_nodes:
                out.append(np.arange(first, g))
                first = g
        return out

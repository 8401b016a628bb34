"""Many graphs collated once, and any few of them cut out again without touching the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.graphs import collate, laplacian
from megae.kernels import FilterOperator
from megae.kernels.halo import DistributedOperator
from megae.kernels.partition import partition_nodes
from megae.training.distributed import ALONE, Processes

UNEVEN = 1.5
"""Times a fair share from which one graph is divided among processes rather than given to one of them."""


@dataclass(frozen=True)
class GraphBatch:
    """Some graphs of a pool as one disconnected graph, or one process's part of them.

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
    rows : ndarray of shape (N,), int64, or None
        Which rows these are of the graphs that were asked for, side by side; None for all of them.
    processes : Processes
        Among which those graphs are shared.
    spans : bool
        Whether nodes of one graph lie in several processes; else every graph is in one.
    """

    values: Tensor
    observed: Tensor
    graph: Tensor
    n_graphs: int
    operator: FilterOperator
    nodes: np.ndarray | None = None
    rows: np.ndarray | None = None
    processes: Processes = ALONE
    spans: bool = False

    def total(self, x: Tensor) -> Tensor:
        """A sum over the rows here -> over the rows of all processes."""
        return self.processes.total(x)

    def total_within(self, x: Tensor) -> Tensor:
        """A sum over the nodes here of each graph -> over all nodes of it."""
        return self.processes.total(x) if self.spans else x

    def total_across(self, x: Tensor) -> Tensor:
        """A sum over the graphs that this process knows -> over those of all processes."""
        return x if self.spans else self.processes.total(x)

    def of_pool(self, x: Tensor) -> Tensor:
        """The rows of these nodes, out of all rows of the pool."""
        return x if self.nodes is None else x[torch.from_numpy(self.nodes).to(x.device)]


class GraphPool:
    """Graphs collated into one block diagonal, on one device.

    Parameters
    ----------
    graphs : list of ``Data`` made by :func:`megae.graphs.to_data`
    mean, scale : ndarray of shape (E,)
        Data are standardised with these, in float64, before they become float32.
    use_graph : bool
        False drops every edge.
    processes : Processes
        Those that hold the same pool and share the work on it.
    """

    def __init__(
        self,
        graphs: Sequence[Data],
        mean: np.ndarray,
        scale: np.ndarray,
        device: torch.device,
        use_graph: bool = True,
        processes: Processes = ALONE,
    ) -> None:
        batch = collate(graphs)
        x = (batch.x - torch.from_numpy(mean)) / torch.from_numpy(scale)
        self.device = device
        self.processes = processes
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

    @property
    def sizes(self) -> np.ndarray:
        """Nodes of each graph, (n_graphs,)."""
        return np.diff(self.ptr)

    def _is_all(self, chosen: np.ndarray) -> bool:
        return len(chosen) == self.n_graphs and np.array_equal(chosen, np.arange(self.n_graphs))

    def nodes_of(self, chosen: np.ndarray) -> np.ndarray | None:
        """Nodes of the chosen graphs, in that order, (N,); None for all."""
        return None if self._is_all(chosen) else _ranges(self.ptr[chosen], self.sizes[chosen])

    def take(self, chosen: np.ndarray) -> GraphBatch:
        """The chosen graphs, in that order."""
        nodes = self.nodes_of(chosen)
        if nodes is None:
            return self.whole
        indptr, indices, values = self.csr
        sizes = self.sizes[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        shift = np.repeat(self.ptr[chosen] - starts[:-1], sizes)
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

    def share(self, chosen: np.ndarray) -> GraphBatch:
        """This process's part of the chosen graphs: all of them where it is alone.

        Graphs are dealt out whole, the nodes evenly. Only where all of the pool is chosen, and one graph is too large a
        share of it, its nodes are divided; the pool is then divided once and for all.
        """
        if self.processes.size == 1:
            return self.take(chosen)
        if self._is_all(chosen) and self._spans:
            return self._divided
        return self.part(chosen, self.processes)

    def part(self, chosen: np.ndarray, processes: Processes) -> GraphBatch:
        """Those of the chosen graphs that fall to one of the ``processes`` where they are dealt out whole."""
        sizes = self.sizes[chosen]
        mine = processes.deal(sizes)[processes.rank]
        starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        return replace(self.take(chosen[mine]), rows=_ranges(starts[mine], sizes[mine]), processes=processes)

    def shares(self, max_nodes: int) -> Iterator[GraphBatch]:
        """This process's part of the whole pool, a few graphs at a time; at least one batch, though it be empty."""
        if self.processes.size == 1:
            yield from (self.take(chosen) for chosen in self.chunks(max_nodes))
        elif self._spans:
            yield self._divided
        else:
            mine = self.processes.deal(self.sizes)[self.processes.rank]
            cuts = _chunks(self.sizes[mine], max_nodes) or [np.arange(0)]
            yield from (self.take(mine[chosen]) for chosen in cuts)

    @property
    def _spans(self) -> bool:
        """Whether dealing out whole graphs would leave most of the work to one process."""
        size, n = self.processes.size, int(self.ptr[-1])
        return self.n_graphs < size or int(self.sizes.max()) * size > UNEVEN * n

    @cached_property
    def _divided(self) -> GraphBatch:
        """The rows that this process owns of the whole pool, over which filters reach into the other processes."""
        whole = self.whole
        parts = np.zeros(int(self.ptr[-1]), np.int64)
        if self.processes.first:
            parts = partition_nodes(FilterOperator(*map(torch.from_numpy, self.csr)), self.processes.size)
        owner = self.processes.of_first(torch.from_numpy(parts)).numpy()
        operator = DistributedOperator.from_operator(whole.operator, owner)
        nodes = np.flatnonzero(owner == self.processes.rank)
        at = torch.from_numpy(nodes).to(self.device)
        return GraphBatch(
            whole.values[at],
            whole.observed[at],
            whole.graph[at],
            whole.n_graphs,
            cast(FilterOperator, operator),  # an OwnFilter stands wherever a FilterOperator does
            nodes,
            nodes,
            self.processes,
            spans=True,
        )

    def gather(self, parts: Sequence[tuple[GraphBatch, Tensor]]) -> Tensor:
        """Rows (N_i, F) of all batches of :meth:`shares` -> rows (N, F) of the pool, on every process."""
        if self.processes.size == 1:
            return torch.cat([rows for _, rows in parts])
        whole = parts[0][1].new_zeros((int(self.ptr[-1]), parts[0][1].shape[1]))
        for batch, rows in parts:
            at = slice(None) if batch.nodes is None else torch.from_numpy(batch.nodes).to(rows.device)
            whole[at] = rows
        return self.processes.total(whole)  # every row is zero in all processes but one

    def chunks(self, max_nodes: int) -> list[np.ndarray]:
        """Consecutive graphs, cut so that no chunk of more than one graph has over ``max_nodes`` nodes."""
        return _chunks(self.sizes, max_nodes)


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """starts[i], ..., starts[i] + sizes[i] - 1 for each i, side by side: int64 (sum of sizes,)."""
    before = np.concatenate([[0], np.cumsum(sizes)])
    return np.arange(before[-1]) + np.repeat(starts - before[:-1], sizes)


def _chunks(sizes: np.ndarray, max_nodes: int) -> list[np.ndarray]:
    out: list[np.ndarray] = []
    ends = np.concatenate([[0], np.cumsum(sizes)])
    first = 0
    for g in range(1, len(sizes) + 1):
        if g == len(sizes) or ends[g + 1] - ends[first] > max_nodes:
            out.append(np.arange(first, g))
            first = g
    return out

"""Batches of one shape whatever graphs are in them, put together on the device: what a captured step needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from megae.kernels import FilterOperator
from megae.training.pool import GraphBatch, GraphPool


@dataclass(frozen=True)
class StaticBatch(GraphBatch):
    """Some graphs of a pool, and after them a last one of isolated nodes that fills the batch up.

    Its cells count as not observed, and it has no part in sums over graphs: loss, entropy and their gradients are
    those of the graphs alone.
    """

    def total_within(self, x: Tensor) -> Tensor:
        """Sums (n_graphs, ...) without those of the last graph: without energy, its entropy and gradient are 0."""
        return torch.cat([x[:-1], torch.zeros_like(x[-1:])])

    def total_across(self, x: Tensor) -> Tensor:
        """A sum over graphs, which the last added nothing to, and the number of summands, without those of the last."""
        return torch.stack([x[0], x[1] / self.n_graphs * (self.n_graphs - 1)])


class StaticBatches:
    r"""Cuts any ``size`` graphs out of a pool, padded to the same numbers of nodes and non-zeros.

    Node :math:`i` of the batch is of the graph at which the running sum of sizes passes :math:`i`, a binary search; its
    place in the pool follows. Non-zeros are found among the running sum of degrees likewise. All of it runs on the
    device, in shapes that never change, and nothing is read back.

    What is left over is one more graph: at least one node without cells, whose edges lead to itself with value 0. They
    are dealt out evenly, so that no row is longer than need be.

    Parameters
    ----------
    pool : GraphPool
    allowed : bool Tensor of shape (N, E)
        Observed cells that training may see and hide; the ``observed`` of the batches.
    size : int
        Graphs in a batch.
    nodes, entries : int
        Room for that many nodes and non-zeros. See :meth:`for_schedule`.
    """

    def __init__(self, pool: GraphPool, allowed: Tensor, size: int, nodes: int, entries: int) -> None:
        whole, operator = pool.whole, pool.whole.operator
        device = pool.device
        self.size, self.nodes, self.entries = size, nodes, entries
        self._node_counts, self._entry_counts = _counts(pool)
        self._ptr = torch.as_tensor(pool.ptr, dtype=torch.int64, device=device)
        self._nobody = whole.values.shape[0]  # a node without cells and edges, after all others
        self._values = torch.cat([whole.values, torch.zeros_like(whole.values[:1])])
        self._allowed = torch.cat([allowed, torch.zeros_like(allowed[:1])])
        self._starts = operator.indptr.long()
        self._degrees = torch.cat([self._starts.diff(), self._starts.new_zeros(1)])
        self._indices, self._weights = operator.indices.long(), operator.values
        self._slots = torch.arange(nodes, device=device)
        self._places = torch.arange(entries, device=device)

    @classmethod
    def for_schedule(
        cls, pool: GraphPool, allowed: Tensor, schedule: Iterable[np.ndarray], shares: Sequence[float] = (1.0,)
    ) -> list[Self]:
        """Room for these shares of a schedule's batches, the smallest batches first; the last share must be 1.

        Parameters
        ----------
        schedule : arrays of shape (size,)
            Numbers of the graphs of each batch, equally many.
        """
        node_counts, entry_counts = _counts(pool)
        found = [(len(c), int(node_counts[c].sum()), int(entry_counts[c].sum())) for c in schedule]
        sizes = {size for size, _, _ in found}
        if len(sizes) != 1:
            raise ValueError(f"all batches of a schedule must have equally many graphs, got {sorted(sizes)}")
        needed = sorted((nodes, entries) for _, nodes, entries in found)
        whole, rooms = cls(pool, allowed, sizes.pop(), 1, 0), []
        for share in shares:
            part = needed[: math.ceil(share * len(needed))]
            rooms.append(whole.with_room(_up(part[-1][0] + 1), _up(max(entries for _, entries in part))))
        return rooms

    def with_room(self, nodes: int, entries: int) -> Self:
        """The same pool and data, with room for other numbers of nodes and non-zeros."""
        other = copy(self)
        other.nodes, other.entries = nodes, entries
        other._slots = torch.arange(nodes, device=self._ptr.device)
        other._places = torch.arange(entries, device=self._ptr.device)
        return other

    def fits(self, chosen: np.ndarray) -> bool:
        """Whether there is room for these graphs. Where there is not, they would be cut off without a word."""
        nodes, entries = self._node_counts[chosen].sum(), self._entry_counts[chosen].sum()
        return len(chosen) == self.size and bool(nodes < self.nodes and entries <= self.entries)

    def take(self, chosen: Tensor) -> StaticBatch:
        """The chosen graphs, int64 Tensor of shape (size,) on the pool's device, in that order."""
        first = self._ptr[chosen]
        sizes = self._ptr[chosen + 1] - first
        ends = sizes.cumsum(0)
        graph = torch.searchsorted(ends, self._slots, right=True)  # (nodes,)
        real = graph < self.size
        shift = (first - ends + sizes)[graph.clamp(max=self.size - 1)]
        node = torch.where(real, self._slots + shift, self._nobody)
        operator = self._operator(node, real, shift, ends[-1])
        return StaticBatch(self._values[node], self._allowed[node], graph, self.size + 1, operator)

    def _operator(self, node: Tensor, real: Tensor, shift: Tensor, n: Tensor) -> FilterOperator:
        """Rows of the pool's matrix, and the padding after row n."""
        stops = self._degrees[node].cumsum(0)
        left, after = self.entries - stops[-1], (self._slots + 1 - n).clamp_min(0)
        stops = stops + torch.div(after * left, self.nodes - n, rounding_mode="floor")
        indptr = torch.cat([stops.new_zeros(1), stops])
        if self.entries == 0:
            return FilterOperator(indptr.int(), self._indices[:0].int(), self._weights[:0])
        row = torch.searchsorted(stops, self._places, right=True)  # (entries,)
        inside = real[row]
        at = torch.where(inside, self._starts[node[row]] + self._places - indptr[row], 0)
        column = torch.where(inside, self._indices[at] - shift[row], row)
        return FilterOperator(indptr.int(), column.int(), torch.where(inside, self._weights[at], 0.0))


def _counts(pool: GraphPool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and non-zeros of each graph, (n_graphs,)."""
    return np.diff(pool.ptr), np.diff(pool.csr[0][pool.ptr].astype(np.int64))


def _up(count: int, to: int = 64) -> int:
    """The next multiple, at which kernels run without remainders."""
    return -(-count // to) * to

"""One large graph cut into parts to train on a few of them at a time: cheaper than the whole, and approximate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from megae.kernels import FilterOperator
from megae.kernels.partition import partition_nodes
from megae.training.pool import GraphPool


class PartPool(GraphPool):
    """The nodes of a pool as parts that know nothing of each other, in the style of Cluster-GCN (Chiang et al. 2019).

    Rows and columns of ``S = L - I`` are sliced: edges between two parts are dropped, while those that stay keep the
    weight that the degrees in the whole graph gave them. What a training step computes is therefore not what the whole
    graph would give: filters, propagated values and the entropy end at the border of a part. The fewer edges are cut,
    the nearer it is. Parts of one graph stand where the graphs of a pool do: steps take some of them, processes deal
    them out.

    Parameters
    ----------
    pool : GraphPool
    parts : int
    seed : int
        Of the partition.

    Attributes
    ----------
    order : ndarray of shape (N,), int64
        Which node of ``pool`` each node here is.
    cut : float
        Share of the edges that are dropped.
    """

    def __init__(self, pool: GraphPool, parts: int, seed: int = 0) -> None:
        n = int(pool.ptr[-1])
        if parts > n:
            raise ValueError(f"partitions must be at most the number of nodes, {n}, got {parts}")
        self.device, self.processes = pool.device, pool.processes
        part = np.zeros(n, np.int64)
        if self.processes.first:
            part = partition_nodes(FilterOperator(*map(torch.from_numpy, pool.csr)), parts, seed=seed)
        part = self.processes.of_first(torch.from_numpy(part)).numpy()
        self.order = np.argsort(part, kind="stable")
        self.ptr = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=parts))])
        self.csr, self.cut = self._sliced(pool.csr, part)
        operator = FilterOperator(*map(torch.from_numpy, self.csr))
        at = torch.from_numpy(self.order).to(self.device)
        self.whole = replace(
            pool.whole,
            values=pool.whole.values[at],
            observed=pool.whole.observed[at],
            graph=torch.from_numpy(part[self.order]).to(self.device),
            n_graphs=parts,
            operator=operator.to(self.device),
        )

    def _sliced(self, csr: tuple[np.ndarray, ...], part: np.ndarray) -> tuple[tuple[np.ndarray, ...], float]:
        """CSR of S in the new order without the entries between parts, and the share of those."""
        indptr, indices, values = csr
        place = np.empty_like(self.order)
        place[self.order] = np.arange(self.order.size)
        row = np.repeat(np.arange(self.order.size), np.diff(indptr))
        kept = part[row] == part[indices]
        new_row, new_column = place[row[kept]], place[indices[kept]]
        sort = np.lexsort((new_column, new_row))
        ends = np.cumsum(np.bincount(new_row, minlength=self.order.size))
        sliced = (np.concatenate([[0], ends]).astype(np.int32), new_column[sort].astype(np.int32), values[kept][sort])
        return sliced, float(1 - kept.mean()) if kept.size else 0.0

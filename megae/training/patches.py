"""Graphs as padded dense blocks of at most k nodes; larger graphs are cut into patches along a breadth-first search."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.graphs import to_adjacency


def cut(A: sp.csr_array, k: int) -> list[np.ndarray]:
    """Divide the nodes of a graph into the fewest patches of at most k, near in size and each grown breadth first.

    A patch starts next to the one before where it can, and takes in another part of the graph when its own is used up.
    A graph of at most k nodes is one patch in its own order.

    Parameters
    ----------
    A : csr_array of shape (n, n), symmetric
    k : int

    Returns
    -------
    list of int64 ndarrays, ascending, that together hold every node once
    """
    n = A.shape[0]
    if n <= k:
        return [np.arange(n)]
    size = -(-n // -(-n // k))
    free = np.ones(n, dtype=bool)
    queued = np.zeros(n, dtype=bool)
    line: deque[int] = deque()
    patches, patch, unseen = [], [], 0
    for _ in range(n):
        while not line:
            if free[unseen] and not queued[unseen]:
                line.append(unseen)
                queued[unseen] = True
            else:
                unseen += 1
        node = line.popleft()
        patch.append(node)
        free[node] = False
        for other in A.indices[A.indptr[node] : A.indptr[node + 1]]:
            if free[other] and not queued[other]:
                queued[other] = True
                line.append(int(other))
        if len(patch) == size:
            patches.append(np.sort(patch))
            patch = []
            queued[list(line)] = False
            line = deque(list(line)[:1])
            queued[list(line)] = True
    if patch:
        patches.append(np.sort(patch))
    return [np.asarray(p, dtype=np.int64) for p in patches]


class PatchPool:
    """Graphs as blocks of k places, nodes first and empty places after them.

    Parameters
    ----------
    graphs : list of ``Data`` made by :func:`megae.graphs.to_data`
    k : int
        Places in a block.
    device : torch.device

    Attributes
    ----------
    adjacency : Tensor of shape (P, k, k), float32
        Edge weights among the nodes of a patch; edges between patches are lost.
    filled : bool Tensor of shape (P, k)
        Which places hold a node.
    node : int64 Tensor of shape (P, k)
        Which node, counted over all graphs; 0 in empty places.
    """

    def __init__(self, graphs: Sequence[Data], k: int, device: torch.device) -> None:
        blocks, nodes, first = [], [], 0
        for g in graphs:
            A = to_adjacency(g)
            for patch in cut(A, k):
                blocks.append(A[patch][:, patch].toarray())
                nodes.append(first + patch)
            first += A.shape[0]
        self.n = first
        shape = (len(blocks), k)
        adjacency, node = np.zeros((*shape, k), dtype=np.float32), np.zeros(shape, dtype=np.int64)
        filled = np.zeros(shape, dtype=bool)
        for p, (block, members) in enumerate(zip(blocks, nodes, strict=True)):
            m = len(members)
            adjacency[p, :m, :m], node[p, :m], filled[p, :m] = block, members, True
        self.adjacency = torch.from_numpy(adjacency).to(device)
        self.node, self.filled = torch.from_numpy(node).to(device), torch.from_numpy(filled).to(device)
        self.sizes = filled.sum(axis=1)

    def __len__(self) -> int:
        return len(self.sizes)

    def lay(self, rows: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Rows (N, E) of nodes -> (P, k, E) of the chosen patches; 0 or False in empty places."""
        node, filled = (self.node, self.filled) if chosen is None else (self.node[chosen], self.filled[chosen])
        return rows[node] * filled.unsqueeze(-1)

    def collect(self, blocks: Tensor) -> Tensor:
        """(P, k, E) of all patches -> rows (N, E) of nodes."""
        rows = blocks.new_empty((self.n, blocks.shape[2]))
        rows[self.node[self.filled]] = blocks[self.filled]
        return rows

    def batches(self, size: int, generator: np.random.Generator | None = None) -> list[np.ndarray]:
        """Positions of patches, ``size`` at a time: of like size where shuffled, else in order."""
        if generator is None:
            return [np.arange(i, min(i + size, len(self))) for i in range(0, len(self), size)]
        order = np.lexsort((generator.random(len(self)), self.sizes + generator.integers(0, 8, len(self))))
        cuts = [order[i : i + size] for i in range(0, len(self), size)]
        return [cuts[i] for i in generator.permutation(len(cuts))]


@dataclass(frozen=True)
class PatchBatch:
    """Some patches of a pool, no wider than the largest of them, edges without weights.

    Parameters
    ----------
    x, seen : Tensor of shape (B, m, E)
        Scaled attributes, 0 where not seen, and which are.
    A : Tensor of shape (B, m, m), 0 or 1
    filled : bool Tensor of shape (B, m)
    """

    x: Tensor
    seen: Tensor
    A: Tensor
    filled: Tensor

    @classmethod
    def of(cls, pool: PatchPool, chosen: np.ndarray, values: Tensor, seen: Tensor) -> Self:
        at, m = torch.from_numpy(chosen).to(values.device), int(pool.sizes[chosen].max())
        A = (pool.adjacency[at][:, :m, :m] > 0).to(values.dtype)
        return cls(pool.lay(values, at)[:, :m], pool.lay(seen, at)[:, :m], A, pool.filled[at][:, :m])

    def reordered(self, order: Tensor) -> Self:
        """The same patches with place ``order[i]`` as place i, for a permutation (m,)."""
        A = self.A[:, order][:, :, order]
        return type(self)(self.x[:, order], self.seen[:, order], A, self.filled[:, order])

    @property
    def pairs(self) -> Tensor:
        """Pairs of different nodes, bool (B, m, m)."""
        different = ~torch.eye(self.A.shape[1], dtype=torch.bool, device=self.A.device)
        return self.filled.unsqueeze(2) & self.filled.unsqueeze(1) & different

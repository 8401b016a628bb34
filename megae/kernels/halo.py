"""Exact filtering of one graph larger than one device: parts that lend each other their border rows.

``T_{k+1} = 2 S T_k - T_{k-1}`` reaches one hop per step, so a part that holds its own rows of ``S`` needs of the
others only the rows of ``T_k`` one hop away, its halo. They travel at each step; nothing is approximated.

==========================  ================================================================
``PartitionedOperator``     all parts in this process, each on its own device
``DistributedOperator``     one part a process, exchanged over ``torch.distributed``
==========================  ================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from megae.kernels.halo_parts import Borders, Part
from megae.kernels.halo_recurrence import COLUMNS, InParts
from megae.kernels.operator import FilterOperator


@dataclass(frozen=True)
class _Route:
    """Border rows of one part and the place in another's halo that they go to."""

    sender: int
    receiver: int
    rows: Tensor
    place: slice

    def carry(self, blocks: list[Tensor]) -> None:
        source, target = blocks[self.sender], blocks[self.receiver][self.place]
        if source.device == target.device:
            torch.index_select(source, 0, self.rows, out=target)
        else:
            target.copy_(source.index_select(0, self.rows))


class PartitionedOperator(InParts):
    """All parts of a graph in this process, each on its own device.

    Signals come in and go out whole, (N, M, h), in the caller's node order and on the caller's device. A part's
    device only ever holds its own and its halo rows, a block of columns at a time. Build it with
    :meth:`from_operator`.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, torch
    >>> from megae.kernels import FilterOperator, apply
    >>> path = sp.csr_array([[1.0, -0.7, 0.0], [-0.7, 1.0, -0.7], [0.0, -0.7, 1.0]])
    >>> whole = FilterOperator.from_laplacian(path)
    >>> parts = PartitionedOperator.from_operator(whole, np.array([0, 0, 1]))
    >>> parts.sizes
    [(2, 1), (1, 1)]
    >>> Z, C = torch.ones(3, 1, 1), np.array([[0.5, 0.25, 0.125]])
    >>> torch.allclose(apply(parts, Z, C), apply(whole, Z, C))
    True
    """

    def __init__(
        self,
        parts: Sequence[Part],
        borders: Borders,
        device: torch.device | str,
        *,
        has_edges: bool,
        placed: bool,
        columns: int,
    ) -> None:
        self._parts, self._borders = tuple(parts), borders
        self._has_edges, self._placed, self._columns = has_edges, placed, columns
        self._rows = [torch.from_numpy(part.own).to(device) for part in parts]
        self._routes = list(self._routed())

    @classmethod
    def from_operator(
        cls,
        operator: FilterOperator,
        owner: np.ndarray,
        devices: Sequence[torch.device | str] | None = None,
        *,
        columns: int = COLUMNS,
    ) -> Self:
        """Cut an operator into the parts of ``owner``.

        Parameters
        ----------
        operator : FilterOperator of N nodes
            Its device is where signals come in and go out.
        owner : ndarray of shape (N,), integer
            The part of each node, as :func:`~megae.kernels.partition.partition_nodes` gives.
        devices : sequence of device, optional
            Where each part lies; the operator's device for all parts by default.
        columns : int
            Columns of a signal filtered at a time.
        """
        parts = int(np.max(owner, initial=0)) + 1 if devices is None else len(devices)
        owner = _checked(operator, owner, parts, "devices")
        borders = Borders.of(operator, owner, parts)
        places = [operator.device] * parts if devices is None else devices
        cut = [Part.cut(operator, owner, borders, p).to(place) for p, place in enumerate(places)]
        return cls(
            cut,
            borders,
            operator.device,
            has_edges=operator.has_edges,
            placed=devices is not None,
            columns=_positive(columns),
        )

    @property
    def n(self) -> int:
        return sum(part.own.size for part in self._parts)

    @property
    def device(self) -> torch.device:
        """Where signals come in and go out."""
        return self._rows[0].device

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """(n_own, n_halo) of each part: the rows its device holds, and how many of them travel at each step."""
        return [(part.own.size, part.halo.size) for part in self._parts]

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Signals on another device or in another precision; parts stay on the devices they were given."""
        place = None if self._placed else device
        return type(self)(
            [part.to(place, dtype) for part in self._parts],
            self._borders,
            self.device if device is None else device,
            has_edges=self._has_edges,
            placed=self._placed,
            columns=self._columns,
        )

    def _routed(self) -> Iterator[_Route]:
        ends = [part.own.size for part in self._parts]
        for p, q in self._borders.pairs():
            lent, sender = self._borders.between(p, q), self._parts[q]
            rows = torch.from_numpy(np.searchsorted(sender.own, lent)).to(sender.matrix.device)
            yield _Route(q, p, rows, slice(ends[p], ends[p] + lent.size))
            ends[p] += lent.size

    def _scatter(self, X: Tensor) -> list[Tensor]:
        pairs = zip(self._rows, self._parts, strict=True)
        return [X.index_select(0, rows).to(part.matrix.device) for rows, part in pairs]

    def _gather(self, Y: Tensor, pieces: list[Tensor]) -> None:
        for rows, piece in zip(self._rows, pieces, strict=True):
            Y.index_copy_(0, rows, piece.to(Y.device))

    def _exchange(self, blocks: list[Tensor]) -> None:
        for route in self._routes:
            route.carry(blocks)


class DistributedOperator(InParts):
    """This process's part of a graph that spans the processes of a ``torch.distributed`` group.

    Signals are this process's rows, (n_own, M, h), in the order of ``owned``. Filtering is collective: every process
    of the group filters signals of the same M and h, in the same order, its backward passes included. Build it with
    :meth:`from_operator`.

    Attributes
    ----------
    owned : ndarray of shape (n_own,), int64
        Global ids of the rows of this process, ascending.
    total : int
        N of the whole graph.
    """

    def __init__(
        self,
        part: Part,
        lent: Sequence[np.ndarray],
        borrowed: Sequence[int],
        group: Any,
        *,
        total: int,
        has_edges: bool,
        exchanges: bool,
        columns: int,
    ) -> None:
        self._parts, self._group = (part,), group
        self._lent, self._borrowed = tuple(lent), list(borrowed)
        self._has_edges, self._exchanges, self._columns = has_edges, exchanges, columns
        rows = np.searchsorted(part.own, np.concatenate([*lent, part.own[:0]]))
        self._rows = torch.from_numpy(rows).to(part.matrix.device)
        self.owned, self.total = part.own, total

    @classmethod
    def from_operator(
        cls, operator: FilterOperator, owner: np.ndarray, group: Any = None, *, columns: int = COLUMNS
    ) -> Self:
        """Keep this process's part of an operator that every process is given whole.

        Parameters
        ----------
        operator : FilterOperator of N nodes
            The same on every process but for its device, which should suit the group: a GPU for nccl, the CPU for
            gloo.
        owner : ndarray of shape (N,), integer
            The rank in ``group`` that owns each node, the same on every process.
        group : ProcessGroup, optional
            The default group if not given.
        columns : int
            Columns of a signal filtered at a time, the same on every process.
        """
        rank, ranks = dist.get_rank(group), dist.get_world_size(group)
        if rank < 0:
            raise ValueError("this process is not in the group; call from_operator only where it is")
        owner = _checked(operator, owner, ranks, "processes in the group")
        borders = Borders.of(operator, owner, ranks)
        return cls(
            Part.cut(operator, owner, borders, rank),
            [borders.between(other, rank) for other in range(ranks)],
            [borders.between(rank, other).size for other in range(ranks)],
            group,
            total=operator.n,
            has_edges=operator.has_edges,
            exchanges=borders.node.size > 0,
            columns=_positive(columns),
        )

    @property
    def n(self) -> int:
        return self.owned.size

    @property
    def device(self) -> torch.device:
        return self._rows.device

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        return type(self)(
            self._parts[0].to(device, dtype),
            self._lent,
            self._borrowed,
            self._group,
            total=self.total,
            has_edges=self._has_edges,
            exchanges=self._exchanges,
            columns=self._columns,
        )

    def _scatter(self, X: Tensor) -> list[Tensor]:
        return [X]

    def _gather(self, Y: Tensor, pieces: list[Tensor]) -> None:
        Y.copy_(pieces[0])

    def _exchange(self, blocks: list[Tensor]) -> None:
        if self._exchanges:
            (block,) = blocks
            dist.all_to_all_single(
                block[self.owned.size :],
                block.index_select(0, self._rows),
                self._borrowed,
                [lent.size for lent in self._lent],
                group=self._group,
            )


def _checked(operator: FilterOperator, owner: np.ndarray, parts: int, what: str) -> np.ndarray:
    """``owner`` as (N,) int64, refused where it names parts that do not exist."""
    owner = np.asarray(owner)
    if owner.shape != (operator.n,) or not np.issubdtype(owner.dtype, np.integer):
        raise ValueError(
            f"owner must hold one integer for each of the {operator.n} nodes, got {owner.dtype} of shape {owner.shape}"
        )
    if owner.size and not 0 <= int(owner.min()) <= int(owner.max()) < parts:
        raise ValueError(f"owner must lie in 0..{parts - 1} for {parts} {what}, got {owner.min()}..{owner.max()}")
    return owner.astype(np.int64)


def _positive(columns: int) -> int:
    if columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}")
    return columns

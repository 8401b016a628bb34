"""A part of a graph: its own rows of the operator, the rows it borrows, and one Chebyshev step on them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from megae.kernels.choice import backend_for
from megae.kernels.operator import FilterOperator

Advance = Callable[[Tensor, Tensor, float, float], None]
"""(previous, current, scale, shift): own rows of previous <- scale * S current - shift * previous."""


@dataclass(frozen=True)
class Borders:
    """Which node's row which part lends to which, sorted by receiver, sender and node.

    Parameters
    ----------
    parts : int
    pair : ndarray of shape (B,), int64
        ``receiver * parts + sender``, never the same part twice.
    node : ndarray of shape (B,), int64
        Global id, owned by ``sender``, with a neighbour in ``receiver``; once for each receiver.
    """

    parts: int
    pair: np.ndarray
    node: np.ndarray

    @classmethod
    def of(cls, operator: FilterOperator, owner: np.ndarray, parts: int) -> Borders:
        """The borders that ``owner``, (N,), draws through a graph."""
        columns = operator.indices.cpu().numpy()
        receiver, sender = np.repeat(owner, np.diff(operator.indptr.cpu().numpy())), owner[columns]
        cut = np.flatnonzero(receiver != sender)
        keys = np.unique((receiver[cut] * parts + sender[cut]) * operator.n + columns[cut])
        return cls(parts, *np.divmod(keys, max(operator.n, 1)))

    def between(self, receiver: int, sender: int) -> np.ndarray:
        """What ``sender`` lends to ``receiver``: global ids, ascending."""
        return self._run(receiver * self.parts + sender, 1)

    def halo(self, receiver: int) -> np.ndarray:
        """What all others lend to ``receiver``: global ids, by owner and then ascending."""
        return self._run(receiver * self.parts, self.parts)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every (receiver, sender) that share a border, in order."""
        return (divmod(int(pair), self.parts) for pair in np.unique(self.pair))

    def _run(self, pair: int, length: int) -> np.ndarray:
        start, stop = np.searchsorted(self.pair, [pair, pair + length])
        return self.node[start:stop].copy()


@dataclass(frozen=True)
class Part:
    """Rows of ``S`` that one device owns, with columns renumbered [own | halo].

    Parameters
    ----------
    matrix : FilterOperator
        Rectangular, (n_own, n_own + n_halo); its values come from the whole graph, so degrees are global.
    own : ndarray of shape (n_own,)
        Global ids, ascending.
    halo : ndarray of shape (n_halo,)
        Global ids, by owner and then ascending.
    """

    matrix: FilterOperator
    own: np.ndarray
    halo: np.ndarray

    @classmethod
    def cut(cls, operator: FilterOperator, owner: np.ndarray, borders: Borders, part: int) -> Part:
        """Part number ``part`` of a whole graph, on the device of ``operator``."""
        own, halo = np.flatnonzero(owner == part), borders.halo(part)
        indptr, indices = operator.indptr.cpu().numpy(), operator.indices.cpu().numpy()
        lengths = np.diff(indptr)[own]
        starts = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(indptr[own] - starts[:-1], lengths) + np.arange(starts[-1])
        position = np.empty(operator.n, np.int32)
        position[own] = np.arange(own.size)
        position[halo] = own.size + np.arange(halo.size)
        rows = sp.csr_array(
            (entries, position[indices[entries]], starts), shape=(own.size, own.size + halo.size), dtype=np.int64
        )
        rows.sort_indices()
        matrix = FilterOperator(
            torch.from_numpy(starts.astype(np.int32)).to(operator.device),
            torch.from_numpy(rows.indices.astype(np.int32)).to(operator.device),
            operator.values[torch.from_numpy(rows.data).to(operator.device)],
        )
        return cls(matrix, own, halo)

    @property
    def rows(self) -> int:
        """Rows of a block of this part: n_own + n_halo."""
        return self.own.size + self.halo.size

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Part:
        """The same part on another device or in another precision."""
        return Part(self.matrix.to(device, dtype), self.own, self.halo)

    def stepper(self) -> Advance:
        """The fastest step that is installed and fits the part's device; ``use_backend`` overrides it."""
        if backend_for(self.matrix).__name__ == "megae.kernels.cpu":
            from megae.kernels import halo_cpu

            return halo_cpu.stepper(self.matrix)
        return _plain(self)


class Blocks:
    """``T_{k-1}`` and ``T_k`` on several parts: two buffers of (n_own + n_halo, columns) each, whatever K is.

    Parameters
    ----------
    parts : sequence of Part
    sources : sequence of Tensor of shape (n_own, columns), one a part
        ``T_0``.
    exchange : callable
        Given the blocks (n_own + n_halo, columns) of all parts, fills their halo rows from the owners' rows.
    """

    def __init__(
        self, parts: Sequence[Part], sources: Sequence[Tensor], exchange: Callable[[list[Tensor]], None]
    ) -> None:
        self._steppers = [part.stepper() for part in parts]
        self._exchange = exchange
        self._current = [T.new_empty((part.rows, T.shape[1])) for part, T in zip(parts, sources, strict=True)]
        self._previous = [torch.zeros_like(block) for block in self._current]
        self._own = [part.own.size for part in parts]
        for block, source in zip(self.own, sources, strict=True):
            block.copy_(source)

    @property
    def own(self) -> list[Tensor]:
        """``T_k`` on the nodes of each part: (n_own, columns), views."""
        return [block[:own] for block, own in zip(self._current, self._own, strict=True)]

    def advance(self, scale: float, shift: float) -> None:
        """``T_{k+1} = scale * S T_k - shift * T_{k-1}``; only halo rows of ``T_k`` travel."""
        self._exchange(self._current)
        for step, previous, current in zip(self._steppers, self._previous, self._current, strict=True):
            step(previous, current, scale, shift)
        self._previous, self._current = self._current, self._previous


def spans(columns: int, width: int) -> Iterator[slice]:
    """Cut 0..columns into slices of at most ``width``, and at least 1."""
    width = max(1, width)
    return (slice(start, min(start + width, columns)) for start in range(0, columns, width))


def _plain(part: Part) -> Advance:
    """The step as a product of torch's sparse matrices: any device."""
    own, matrix = part.own.size, part.matrix
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
        S = torch.sparse_csr_tensor(
            matrix.indptr, matrix.indices, matrix.values, (own, part.rows), check_invariants=False
        )

    def advance(previous: Tensor, current: Tensor, scale: float, shift: float) -> None:
        target = previous[:own]
        if matrix.has_edges:
            torch.addmm(target, S, current, beta=-shift, alpha=scale, out=target)
        else:
            target.mul_(-shift)

    return advance

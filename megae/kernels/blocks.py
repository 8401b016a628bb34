"""The filter of many small graphs as batched dense matrices, computed once for an operator and its coefficients.

For a graph of n nodes, ``P_m = sum_k C[m, k] T_k(S)`` is a dense (n, n) matrix; filtering is then one product,
whatever K is. Graphs are padded to a few sizes, so that each size is one batched product. It pays where graphs are
tiny, the same ones are filtered again and again, and launching K sparse products costs more than the arithmetic.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from megae.kernels.operator import FilterOperator

LARGEST = 1024
"""Nodes of a graph beyond which a dense filter is refused: its matrix alone has a million entries per band."""

STEP = 8
"""Graphs are padded to multiples of this many nodes."""


@dataclass(frozen=True)
class _Bucket:
    """Graphs padded to one size s.

    Parameters
    ----------
    nodes : int64 Tensor of shape (B, s)
        Row of the signal of each place; N for padding.
    filters : Tensor of shape (B, M, s, s)
    """

    nodes: Tensor
    filters: Tensor


KEPT = 2
"""Sets of coefficients whose matrices an operator keeps: those of the way there and of the way back."""

_prepared: WeakKeyDictionary[FilterOperator, dict[bytes, list[_Bucket]]] = WeakKeyDictionary()


def bandwise(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, M, h): band m through filter m."""
    out = Z.new_empty((operator.n + 1, *Z.shape[1:]))
    for bucket, X in _padded(operator, Z, C):
        out[bucket.nodes] = (bucket.filters @ X).transpose(1, 2)
    return out[:-1]


def expand(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, 1, h) -> (N, M, h): one input through every filter."""
    out = Z.new_empty((operator.n + 1, C.shape[0], Z.shape[2]))
    for bucket, X in _padded(operator, Z, C):
        out[bucket.nodes] = (bucket.filters @ X).transpose(1, 2)
    return out[:-1]


def contract(operator: FilterOperator, G: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, 1, h): the sum over m of filter m on band m, as one product of (s, M s) and (M s, h)."""
    out = G.new_empty((operator.n + 1, 1, G.shape[2]))
    for bucket, X in _padded(operator, G, C):
        side_by_side = bucket.filters.transpose(1, 2).flatten(2)
        out[bucket.nodes] = (side_by_side @ X.flatten(1, 2)).unsqueeze(2)
    return out[:-1]


def _padded(operator: FilterOperator, Z: Tensor, C: Tensor) -> list[tuple[_Bucket, Tensor]]:
    """Each bucket with its part of the signal, (B, M, s, h)."""
    with_padding = torch.cat([Z, Z.new_zeros((1, *Z.shape[1:]))])
    return [(bucket, with_padding[bucket.nodes].transpose(1, 2)) for bucket in _buckets(operator, C)]


def _buckets(operator: FilterOperator, C: Tensor) -> list[_Bucket]:
    """The dense filters of an operator, kept for as long as it lives."""
    kept, key = _prepared.setdefault(operator, {}), C.cpu().numpy().tobytes()
    with contextlib.suppress(KeyError):  # another thread may let go of it at any time
        return kept[key]
    made = _prepare(operator, C)
    if len(kept) >= KEPT:
        kept.pop(next(iter(kept)), None)
    kept[key] = made
    return made


def _prepare(operator: FilterOperator, C: Tensor) -> list[_Bucket]:
    indptr, indices = operator.indptr.cpu().numpy(), operator.indices.cpu().numpy()
    bounds = closed_rows(indptr, indices)
    sizes = np.diff(bounds)
    if sizes.max(initial=0) > LARGEST:
        raise ValueError(
            f"the dense filter takes graphs of at most {LARGEST} nodes, and one has {sizes.max()}; use another backend"
        )
    row = np.repeat(np.arange(operator.n), np.diff(indptr))
    graph_of = np.repeat(np.arange(sizes.size), sizes)
    padded = -(-sizes // STEP) * STEP
    buckets = []
    for s in np.unique(padded):
        chosen = np.flatnonzero(padded == s)
        place = np.arange(s) + bounds[chosen][:, None]  # (B, s)
        nodes = np.where(np.arange(s) < sizes[chosen][:, None], place, operator.n)
        position = np.full(sizes.size, -1)
        position[chosen] = np.arange(chosen.size)
        mine = np.flatnonzero(position[graph_of[row]] >= 0)
        graph = graph_of[row[mine]]
        S = operator.values.new_zeros((chosen.size, int(s), int(s)))
        at = tuple(
            torch.from_numpy(a).to(S.device)
            for a in (position[graph], row[mine] - bounds[graph], indices[mine] - bounds[graph])
        )
        S[at] = operator.values[torch.from_numpy(mine).to(S.device)]
        buckets.append(_Bucket(torch.from_numpy(nodes).to(S.device), _polynomials(S, C)))
    return buckets


def _polynomials(S: Tensor, C: Tensor) -> Tensor:
    """sum_k C[m, k] T_k(S): (B, s, s), (M, K + 1) -> (B, M, s, s)."""
    previous, current = torch.zeros_like(S), torch.eye(S.shape[1], dtype=S.dtype, device=S.device).expand_as(S)
    out = C[:, 0, None, None] * current.unsqueeze(1)
    for k in range(1, C.shape[1]):
        previous, current = current, (S @ current if k == 1 else 2 * (S @ current) - previous)
        out = out + C[:, k, None, None] * current.unsqueeze(1)
    return out


def closed_rows(indptr: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Bounds (R + 1,) of the smallest runs of consecutive rows that no edge leaves.

    Examples
    --------
    >>> closed_rows(np.array([0, 1, 2, 2]), np.array([1, 0])).tolist()  # an edge 0 - 1 and a node alone
    [0, 2, 3]
    """
    n = indptr.size - 1
    reach = np.arange(n)
    np.maximum.at(reach, np.repeat(np.arange(n), np.diff(indptr)), indices)
    ends = np.flatnonzero(np.maximum.accumulate(reach) <= np.arange(n)) + 1
    return np.concatenate([[0], ends])

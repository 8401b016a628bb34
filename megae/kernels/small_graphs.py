"""The filter of small graphs on CPU: one dense matrix per graph and band, made once, and then one product each.

For a graph of n nodes, ``P_m = sum_k C[m, k] T_k(S)`` is a dense (n, n) matrix. A product with it costs n for each node
and column, whatever K is, and runs near the rate of dense arithmetic, where K sparse steps cost K (degree + 2) at less
than half of it. Graphs of up to twice as many nodes as a band has columns take this way, if most rows are of such
graphs: then the matrices take at most twice the memory of the signal, whatever K is.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import torch

from megae.kernels.compiled import closed_rows, compiled, expand_rows
from megae.kernels.operator import FilterOperator
from megae.kernels.panel import ROWS, VECTOR_BYTES, VECTORS, narrow, wide

LEAST_STEPS = 4
"""Degree of the polynomials from which a dense product pays."""

LARGEST = 96
"""Nodes of a graph from which the recurrence is as fast: about twice K (degree + 2) on molecules and proteins."""

KEPT = 2
"""Sets of coefficients whose matrices an operator keeps: those of the way there and of the way back."""


@dataclass(frozen=True)
class SmallGraphs:
    """Small graphs of an operator with their dense filters, and the operator of all other rows.

    Parameters
    ----------
    spans : int64 ndarray of shape (G, 2)
        First row and end of each small graph.
    starts : int64 ndarray of shape (G,)
        Where the matrices of a graph begin in ``matrices``, which holds them as (n, M, n): row j of P_m is [j, m].
    matrices : ndarray
    rest : FilterOperator or None
    rows : int64 ndarray
        Row i of ``rest`` is row ``rows[i]`` of the signal.
    """

    spans: np.ndarray
    starts: np.ndarray
    matrices: np.ndarray
    rest: FilterOperator | None
    rows: np.ndarray

    def shares(self, count: int) -> list[tuple[int, int]]:
        """Ranges of graphs of about the same work."""
        work = (self.spans[:, 1] - self.spans[:, 0]) ** 2
        cuts = np.searchsorted(np.cumsum(work) - work / 2, work.sum() * np.arange(1, count) / count)
        return list(pairwise(np.unique([0, *cuts.tolist(), self.spans.shape[0]]).tolist()))


_kept: WeakKeyDictionary[FilterOperator, dict[tuple[int, bytes], SmallGraphs | None]] = WeakKeyDictionary()


def small_graphs(operator: FilterOperator, C: np.ndarray, h: int) -> SmallGraphs | None:
    """The small graphs of an operator, made once for as long as it lives; None where they have few of its rows.

    Parameters
    ----------
    C : ndarray of shape (M, K + 1), in the precision of the operator
    h : columns of a band
    """
    if h < VECTOR_BYTES // C.itemsize or C.shape[1] <= LEAST_STEPS:
        return None
    kept = _kept.setdefault(operator, {})
    key = (h, C.tobytes())
    with contextlib.suppress(KeyError):  # another thread may let go of it at any time
        return kept[key]
    made = _made(operator, C, h)
    if len(kept) >= KEPT:
        kept.pop(next(iter(kept)), None)
    kept[key] = made
    return made


def _made(operator: FilterOperator, C: np.ndarray, h: int) -> SmallGraphs | None:
    indptr, indices, values = operator.indptr.numpy(), operator.indices.numpy(), operator.values.numpy()
    bounds = closed_rows(indptr, indices, 1)
    n = np.diff(bounds)
    small = n <= min(2 * h, LARGEST)
    if 2 * n[small].sum() < operator.n:
        return None
    spans = np.stack([bounds[:-1], bounds[1:]], axis=1)[small]
    size = C.shape[0] * n[small] ** 2
    starts = np.concatenate([[0], np.cumsum(size)[:-1]])
    matrices = np.empty(size.sum(), values.dtype)
    _fill(indptr, indices, values, spans, starts, np.eye(n[small].max(), dtype=values.dtype), C, matrices)
    rows = np.flatnonzero(np.repeat(~small, n))
    rest = _rows_of(operator, rows) if rows.size else None
    return SmallGraphs(spans, starts, matrices, rest, rows)


def _rows_of(operator: FilterOperator, rows: np.ndarray) -> FilterOperator:
    """The operator of rows that no edge leaves."""
    indptr = operator.indptr.numpy().astype(np.int64)
    length = np.diff(indptr)[rows]
    ends = np.cumsum(length)
    entries = np.arange(ends[-1]) + np.repeat(indptr[rows] - ends + length, length)
    place = np.zeros(operator.n, np.int32)
    place[rows] = np.arange(rows.size)
    return FilterOperator(
        torch.from_numpy(np.concatenate([[0], ends]).astype(np.int32)),
        torch.from_numpy(place[operator.indices.numpy()[entries]]),
        operator.values[torch.from_numpy(entries)],
    )


@compiled
def _fill(indptr, indices, values, spans, starts, eye, C, matrices):  # pragma: no cover - compiled
    """The recurrence on the identity gives P_m, row by row."""
    within, none = np.empty(indptr.size - 1, np.int64), np.int64(0)  # a literal 0 would be compiled for anew
    for g in range(spans.shape[0]):
        a, b = spans[g]
        n = b - a
        for i in range(n):
            within[a + i] = i
        P = matrices[starts[g] : starts[g] + n * C.shape[0] * n].reshape(n, C.shape[0], n)
        expand_rows(indptr, indices, values, within, np.array([a, b]), eye[:n], C, P, none, n)


@compiled
def multiply(
    spans, starts, matrices, first, end, Z, z_outer, z_inner, Y, y_outer, outer, inner, h
):  # pragma: no cover - compiled
    """Y[:, o y_outer + c] = sum_i P_{o + i} Z[:, o z_outer + i z_inner + c] for o < outer, c < h, graphs first to end.

    One of ``outer`` and ``inner`` is M, the other 1: band by band, or all bands summed.
    """
    size = matrices.itemsize
    bands = max(outer, inner)
    lanes = VECTOR_BYTES // size
    one = matrices.dtype.type(1)
    p_at, z_at, y_at = np.intp(matrices.ctypes.data), np.intp(Z.ctypes.data), np.intp(Y.ctypes.data)
    z_row, y_row = Z.shape[1] * size, Y.shape[1] * size
    for g in range(first, end):
        a, n = spans[g, 0], spans[g, 1] - spans[g, 0]
        p_row = bands * n * size
        for o in range(outer):
            if n < ROWS:
                P = matrices[starts[g] : starts[g] + n * bands * n].reshape(n, bands, n)
                for i in range(n):
                    for c in range(h):
                        Y[a + i, o * y_outer + c] = 0
                    for m in range(inner):
                        for j in range(n):
                            for c in range(h):
                                Y[a + i, o * y_outer + c] += P[j, o + m, i] * Z[a + j, o * z_outer + m * z_inner + c]
                continue
            p = p_at + (starts[g] + o * n) * size
            z = z_at + a * z_row + o * z_outer * size
            y = y_at + a * y_row + o * y_outer * size
            start = 0
            while start < h:
                many = h - start >= VECTORS * lanes
                c = start if many else min(start, h - lanes)  # the last columns are done twice rather than alone
                for r in range(0, n, ROWS):
                    i = min(r, n - ROWS)  # and so are the last rows
                    to, of, by = y + i * y_row + c * size, p + i * size, z + c * size
                    if many:
                        wide(to, y_row, of, p_row, n * size, by, z_row, z_inner * size, n, inner, one)
                    else:
                        narrow(to, y_row, of, p_row, n * size, by, z_row, z_inner * size, n, inner, one)
                start = c + (VECTORS * lanes if many else lanes)

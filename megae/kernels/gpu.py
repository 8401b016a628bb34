r"""The fused Chebyshev filter on a GPU, written in Triton.

One launch is one step of a recurrence: the sparse product, the term of two steps ago and the coefficients of all bands
in the same pass. Nothing but the step's result goes back to memory.

**Bytes.** A unit is one dense operand, N x columns; at 1 M nodes and 256 float32 columns, 1.02 GB. With K steps:

==================================== =====================================================================
``bandwise``, torch                  8 K: a copy of T_{k-1} 2, the product into it 3, ``total`` 3
``bandwise``, recurrence fused       5 K: T_k, T_{k-1}, Y read; T_{k+1}, Y written
``bandwise``, Clenshaw, as here      4 K + 1: b_{k+1}, b_{k+2}, Z read; b_k written (Z -> b_K first, no b_{K+1})
``expand`` (of N x h)                3 K + K / 3 + 2 M K / 3: the M outputs are touched in every third step only
``contract`` (of N x h)              (3 + M) K: the M inputs are read in every step
==================================== =====================================================================

Clenshaw's recurrence :math:`b_k = C_k Z + 2 S b_{k+1} - b_{k+2}`, :math:`Y = C_0 Z + S b_1 - b_2` beats the forward one
since it reads its input where that one reads and writes its output.

This counts the gathered operand once. Rows are gathered once for each non-zero, though: at 20 M non-zeros 20.5 GB a
step, five times all the rest. A program takes one row, whole up to 1 KB, so that a gather is one long read and the
matrix (8 bytes a non-zero) is read once. Where neighbours have no order, gathers come from device memory and the
filter runs at its rate; where they have near numbers, from the caches, and the rate of those is what limits it.
Narrower column blocks, whose gathered array would fit the second-level cache, measured slower, since each reads the
matrix again (``benchmarks/gpu_filter.py`` has them all). Gathered rows are loaded as last to be evicted, dense operands
that a step uses once as first.

**Order of nodes.** Where neighbours have near numbers, gathers meet in L1 as well; a graph whose nodes come in no
order gains from ``scipy.sparse.csgraph.reverse_cuthill_mckee`` on its adjacency before it is handed over.

**Uneven degrees.** From ``SORT_FROM`` nodes on, rows of far more than the mean number of neighbours are taken first,
so that a hub does not end last; all others keep their own order, and with it what their neighbours left in cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from megae.kernels.gpu_steps import clenshaw_step, expand_step
from megae.kernels.operator import FilterOperator


@dataclass(frozen=True)
class Tile:
    """What one program works on; powers of two.

    Parameters
    ----------
    rows : int
    neighbours : int
        Of each row, gathered at once: independent loads in flight.
    row_bytes : int
        Of a column block, in one row.
    warps : int
    resident : int
        Column blocks run all their steps together as long as one of their two work arrays stays under these bytes.
    """

    rows: int = 1
    neighbours: int = 2
    row_bytes: int = 1024
    warps: int = 1
    resident: int = 32 << 20


tile: ContextVar[Tile] = ContextVar("megae_tile", default=Tile())  # noqa: B039 - frozen
"""The tile in use; ``tile.set(Tile(...))`` tries another."""

SORT_FROM = 1 << 16
"""Nodes from which on hubs go first: fewer do not fill the card anyway."""

_orders: Any = WeakIdKeyDictionary()


def _order(operator: FilterOperator) -> Tensor:
    """Rows of eight times the mean degree and more first, longest first, then the rest as they are: (N,), int32."""
    found = _orders.get(operator.indptr)
    if found is None:
        degrees = operator.indptr.diff().float()
        bits = torch.frexp(degrees.clamp_min(8 * degrees.mean())).exponent
        found = _orders[operator.indptr] = torch.argsort(bits, descending=True, stable=True).to(torch.int32)
    return found


class _Launches:
    """Grid and constants for signals of ``width`` columns, and the column blocks that run together.

    Work arrays are laid out (block, N, stride), so that a column block is dense.
    """

    def __init__(self, operator: FilterOperator, width: int) -> None:
        shape = tile.get()
        size = operator.values.element_size()
        self.n, self.width = operator.n, width
        columns = max(4, min(shape.row_bytes // size, triton.next_power_of_2(width)))
        together = max(1, shape.resident // max(1, self.n * columns * size))
        blocks = min(together, -(-width // columns))
        self.step = blocks * columns
        self.groups = -(-self.n // shape.rows)
        stride = columns if blocks > 1 else min(columns, width)
        self.work = operator.values.new_empty((2, blocks, self.n, stride))
        ordered = self.n >= SORT_FROM
        order = _order(operator) if ordered else operator.indptr
        self.matrix = operator.indptr, operator.indices, operator.values, order
        self.constants = {
            "n": self.n,
            "groups": self.groups,
            "stride": stride,
            "SORTED": ordered,
            "ROWS": shape.rows,
            "NEIGHBOURS": shape.neighbours,
            "COLUMNS": columns,
            "num_warps": shape.warps,
        }

    def chunks(self) -> Iterator[tuple[int, int, tuple[int]]]:
        """First column, number of columns and grid of each launch."""
        for start in range(0, self.width, self.step):
            width = min(self.step, self.width - start)
            yield start, width, (self.groups * -(-width // self.constants["COLUMNS"]),)


def _clenshaw(operator: FilterOperator, Z: Tensor, weights: Tensor) -> Tensor:
    """sum_k sum_m weights[k, m, c] T_k(S) Z[:, m, c]: (N, B, c), (K + 1, B, c) -> (N, c)."""
    n, bands, width = Z.shape
    K = weights.shape[0] - 1
    out = Z.new_empty((n, width))
    if out.numel() == 0:
        return out
    launches = _Launches(operator, width)
    inputs = Z.reshape(n, bands * width).contiguous()
    weights = weights.reshape(K + 1, bands * width).contiguous()
    for start, columns, grid in launches.chunks():
        current, previous = launches.work
        for k in range(K, -1, -1):
            clenshaw_step[grid](
                *launches.matrix,
                current,
                previous,
                out[:, start:] if k == 0 else previous,
                inputs[:, start:],
                weights[k, start:],
                width=columns,
                band_step=width,
                Z_row=bands * width,
                out_row=width,
                scale=1.0 if k == 0 else 2.0,
                GATHER=k < K,
                SUBTRACT=k < K - 1,
                LAST=k == 0,
                BANDS=bands,
                **launches.constants,
            )
            current, previous = previous, current
    return out


def bandwise(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, M, h): band m through filter m."""
    n, bands, h = Z.shape
    with torch.cuda.device_of(Z):
        weights = C.T.repeat_interleave(h, dim=1).unsqueeze(1)
        return _clenshaw(operator, Z.reshape(n, 1, bands * h), weights).view(n, bands, h)


def contract(operator: FilterOperator, G: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, 1, h): the sum over m of filter m on band m, the adjoint of :func:`expand`."""
    with torch.cuda.device_of(G):
        return _clenshaw(operator, G, C.T.unsqueeze(-1).expand(-1, -1, G.shape[2])).unsqueeze(1)


def expand(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, 1, h) -> (N, M, h): one input through every filter."""
    n, _, h = Z.shape
    bands, K = C.shape[0], C.shape[1] - 1
    if K == 0 or Z.numel() == 0:
        return Z * C[:, :1]
    with torch.cuda.device_of(Z):
        launches = _Launches(operator, h)
        inputs, ones, C = Z.reshape(n, h).contiguous(), C.new_ones(h), C.contiguous()
        Y = Z.new_empty((n, bands, h))
        for start, columns, grid in launches.chunks():
            current, previous = launches.work
            clenshaw_step[grid](
                *launches.matrix,
                current,
                previous,
                current,
                inputs[:, start:],
                ones,
                width=columns,
                band_step=h,
                Z_row=h,
                out_row=h,
                scale=1.0,
                GATHER=False,
                SUBTRACT=False,
                LAST=False,
                BANDS=1,
                **launches.constants,
            )
            for s in range(1, K + 1):
                expand_step[grid](
                    *launches.matrix,
                    current,
                    previous,
                    previous,
                    Y[:, :, start:],
                    C[:, s:],
                    width=columns,
                    h=h,
                    orders=K + 1,
                    scale=1.0 if s == 1 else 2.0,
                    SUBTRACT=s > 1,
                    TERMS=s % 3 + 1 if s == K or s % 3 == 2 else 0,
                    FIRST=s <= 2,
                    BANDS=bands,
                    **launches.constants,
                )
                current, previous = previous, current
        return Y

"""The fused Chebyshev filter on CPU, compiled by numba.

Columns never mix in the recurrence ``T_{k+1} = 2 S T_k - T_{k-1}``, so the columns are cut into blocks narrow
enough for the three buffers of a block to stay in cache. One thread runs all K steps of a block: the dense
operands cross memory once in and once out, whatever K is, and threads meet only at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from megae.kernels.operator import FilterOperator

BLOCK_COLUMNS = 64
"""Columns of one block: wide enough for vector instructions, narrow enough for the cache."""

SERIAL_WORK = 1 << 18
"""Below this many multiply-adds a second thread costs more than it saves."""

_compile = numba.njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")


@_compile
def _advance(indptr, indices, values, previous, current, scale, shift):  # pragma: no cover - compiled
    """previous <- scale * S current - shift * previous, both (N, B), in place; neighbours two at a time."""
    for i in range(previous.shape[0]):
        for c in range(previous.shape[1]):
            previous[i, c] *= -shift
        p, end = indptr[i], indptr[i + 1]
        while p + 1 < end:
            v, w = scale * values[p], scale * values[p + 1]
            j, k = np.uint32(indices[p]), np.uint32(indices[p + 1])
            for c in range(previous.shape[1]):
                previous[i, c] += v * current[j, c] + w * current[k, c]
            p += 2
        if p < end:
            v, j = scale * values[p], np.uint32(indices[p])
            for c in range(previous.shape[1]):
                previous[i, c] += v * current[j, c]


@_compile
def _load(block, source, start):  # pragma: no cover - compiled
    for i in range(block.shape[0]):
        for c in range(block.shape[1]):
            block[i, c] = source[i, np.uintp(start + c)]


@_compile
def _store(block, target, start):  # pragma: no cover - compiled
    for i in range(block.shape[0]):
        for c in range(block.shape[1]):
            target[i, np.uintp(start + c)] = block[i, c]


@_compile
def _bandwise(indptr, indices, values, Z, C, band, Y, start, stop):  # pragma: no cover - compiled
    """Y[:, c] = sum_k C[band[c], k] T_k(S) Z[:, c] for start <= c < stop."""
    n, width = Z.shape[0], stop - start
    one, two, zero = values.dtype.type(1), values.dtype.type(2), values.dtype.type(0)
    weight = np.empty((C.shape[1], width), values.dtype)
    for k in range(C.shape[1]):
        for c in range(width):
            weight[k, c] = C[band[start + c], k]
    current = np.empty((n, width), values.dtype)
    previous = np.zeros((n, width), values.dtype)
    total = np.empty((n, width), values.dtype)
    _load(current, Z, start)
    for i in range(n):
        for c in range(width):
            total[i, c] = weight[0, c] * current[i, c]
    for k in range(1, C.shape[1]):
        _advance(indptr, indices, values, previous, current, one if k == 1 else two, zero if k == 1 else one)
        previous, current = current, previous
        for i in range(n):
            for c in range(width):
                total[i, c] += weight[k, c] * current[i, c]
    _store(total, Y, start)


@_compile
def _expand(indptr, indices, values, Z, C, Y, start, stop):  # pragma: no cover - compiled
    """Y[:, m, c] = sum_k C[m, k] T_k(S) Z[:, c] for start <= c < stop."""
    n, width = Z.shape[0], stop - start
    one, two, zero = values.dtype.type(1), values.dtype.type(2), values.dtype.type(0)
    current = np.empty((n, width), values.dtype)
    previous = np.zeros((n, width), values.dtype)
    _load(current, Z, start)
    for k in range(C.shape[1]):
        if k > 0:
            _advance(indptr, indices, values, previous, current, one if k == 1 else two, zero if k == 1 else one)
            previous, current = current, previous
        for i in range(n):
            for m in range(C.shape[0]):
                w = C[m, k]
                if k == 0:
                    for c in range(width):
                        Y[i, m, np.uintp(start + c)] = w * current[i, c]
                else:
                    for c in range(width):
                        Y[i, m, np.uintp(start + c)] += w * current[i, c]


@_compile
def _contract(indptr, indices, values, G, C, Y, start, stop):  # pragma: no cover - compiled
    """Y[:, c] = sum_m sum_k C[m, k] T_k(S) G[:, m, c], by Clenshaw's recurrence on the sum over m."""
    n, width = G.shape[0], stop - start
    one, two = values.dtype.type(1), values.dtype.type(2)
    current = np.zeros((n, width), values.dtype)
    previous = np.zeros((n, width), values.dtype)
    for k in range(C.shape[1] - 1, -1, -1):
        _advance(indptr, indices, values, previous, current, one if k == 0 else two, one)
        previous, current = current, previous
        for i in range(n):
            for m in range(C.shape[0]):
                w = C[m, k]
                for c in range(width):
                    current[i, c] += w * G[i, m, np.uintp(start + c)]
    _store(current, Y, start)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="megae-filter")


def _over_columns(kernel: Callable[..., Any], operator: FilterOperator, columns: int, order: int, *args: Any) -> None:
    """Run ``kernel`` on column blocks sized for the cache, on as many threads as torch uses."""
    csr = (operator.indptr.numpy(), operator.indices.numpy(), operator.values.numpy())
    threads = torch.get_num_threads()
    if (operator.n + csr[2].size) * columns * order < SERIAL_WORK:
        threads = 1
    rounds = max(1, -(-columns // (BLOCK_COLUMNS * threads)))
    width = max(1, -(-columns // (rounds * threads)))
    blocks = [(c, min(columns, c + width)) for c in range(0, columns, width)]
    if threads == 1 or len(blocks) == 1:
        for start, stop in blocks:
            kernel(*csr, *args, start, stop)
    else:
        for done in [_pool(threads).submit(kernel, *csr, *args, start, stop) for start, stop in blocks]:
            done.result()


def bandwise(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, M, h): band m through filter m."""
    n, bands, h = Z.shape
    Y = torch.empty_like(Z, memory_format=torch.contiguous_format)
    band = np.repeat(np.arange(bands), h)
    flat = Z.contiguous().view(n, bands * h).numpy()
    _over_columns(_bandwise, operator, bands * h, C.shape[1], flat, C.numpy(), band, Y.view(n, bands * h).numpy())
    return Y


def expand(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, 1, h) -> (N, M, h): one input through every filter."""
    n, _, h = Z.shape
    Y = Z.new_empty((n, C.shape[0], h))
    _over_columns(_expand, operator, h, C.shape[1], Z.contiguous().view(n, h).numpy(), C.numpy(), Y.numpy())
    return Y


def contract(operator: FilterOperator, G: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, 1, h): the sum over m of filter m on band m, the adjoint of :func:`expand`."""
    n, _, h = G.shape
    Y = G.new_empty((n, 1, h))
    _over_columns(_contract, operator, h, C.shape[1], G.contiguous().numpy(), C.numpy(), Y.view(n, h).numpy())
    return Y

"""The filter on CPU: dense products for small graphs, the fused recurrence in tiles for all other rows.

Work is cut into tiles that each one thread runs to its end; threads meet only when all is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from megae.kernels.compiled import AS_IT_IS, bandwise_rows, closed_rows, contract_rows, expand_rows
from megae.kernels.operator import FilterOperator
from megae.kernels.ordering import with_near_neighbours
from megae.kernels.small_graphs import SmallGraphs, multiply, small_graphs

BLOCK_COLUMNS = 64
"""Columns of a tile at least, where there are as many: wide enough for vector instructions."""

TILE_BYTES = 1 << 20
"""What the three buffers of a tile may take while it grows wider: they stay in the second-level cache."""

TILE_ROWS = 32
"""Rows of a tile at least, where graphs are smaller: setting a tile up costs as much as a few rows."""

SERIAL_WORK = 1 << 24
"""Below this many multiply-adds a second thread costs more than it saves."""


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="megae-filter")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of these threads


def _run_all(run: Callable[..., None], jobs: list[tuple[Any, ...]], threads: int) -> None:
    if threads == 1 or len(jobs) == 1:
        for job in jobs:
            run(*job)
    else:
        for done in [_pool(threads).submit(run, *job) for job in jobs]:
            done.result()


def _over_graphs(small: SmallGraphs, work: int, *args: Any) -> None:
    """Multiply each small graph's rows with its matrices, on as many threads as torch uses."""
    threads = 1 if work < SERIAL_WORK else torch.get_num_threads()

    def run(first: int, end: int) -> None:
        multiply(small.spans, small.starts, small.matrices, first, end, *args)

    _run_all(run, small.shares(threads), threads)


def _over_tiles(
    kernel: Callable[..., Any], operator: FilterOperator, rows: np.ndarray, columns: int, order: int, *args: Any
) -> None:
    """Run ``kernel`` on tiles sized for the cache, on as many threads as torch uses.

    Threads share the rows where enough groups of rows are closed, else the columns. Row i of the operator is row
    ``rows[i]`` of the signal, or row i where ``rows`` is empty.
    """
    csr, places = with_near_neighbours(operator)
    if rows.size:
        places = rows[places] if places.size else rows
    work = operator.n + csr[2].size
    threads = 1 if work * columns * order < SERIAL_WORK else torch.get_num_threads()
    bounds = closed_rows(csr[0], csr[1], TILE_ROWS)
    by_rows = bounds.size - 1 >= 8 * threads
    shares = _row_shares(csr[0], bounds, threads) if by_rows else [bounds]
    lanes = 1 if by_rows else threads
    fits = TILE_BYTES // (3 * max(1, int(np.diff(bounds).max())) * csr[2].itemsize)
    rounds = max(1, -(-columns // (max(BLOCK_COLUMNS, fits) * lanes)))
    width = max(1, -(-columns // (rounds * lanes)))
    blocks = [(c, min(columns, c + width)) for c in range(0, columns, width)]

    def run(mine: np.ndarray, some: list[tuple[int, int]]) -> None:
        for start, stop in some:
            kernel(*csr, places, mine, *args, start, stop)

    jobs = [(mine, blocks) for mine in shares] if by_rows else [(bounds, [block]) for block in blocks]
    _run_all(run, jobs, threads)


def _row_shares(indptr: np.ndarray, bounds: np.ndarray, shares: int) -> list[np.ndarray]:
    """Bounds cut into consecutive shares of about the same number of rows and non-zeros."""
    weight = bounds + indptr[bounds]
    cuts = np.searchsorted(weight, weight[-1] * np.arange(1, shares) / shares)
    edges = np.unique([0, *cuts.tolist(), bounds.size - 1])
    return [bounds[lo : hi + 1] for lo, hi in pairwise(edges)]


def bandwise(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, M, h): band m through filter m."""
    n, bands, h = Z.shape
    Y = torch.empty_like(Z, memory_format=torch.contiguous_format)
    signal, result, weights = _flat(Z), Y.view(n, bands * h).numpy(), C.numpy()
    band = np.repeat(np.arange(bands), h)
    small = small_graphs(operator, weights, h)
    if small is not None:
        _over_graphs(small, small.matrices.size * h, signal, h, 0, result, h, bands, 1, h)
    for part, rows in _others(operator, small):
        _over_tiles(bandwise_rows, part, rows, bands * h, C.shape[1], signal, weights, band, result)
    return Y


def expand(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, 1, h) -> (N, M, h): one input through every filter."""
    n, _, h = Z.shape
    bands = C.shape[0]
    Y = Z.new_empty((n, bands, h))
    signal, weights = _flat(Z), C.numpy()
    small = small_graphs(operator, weights, h)
    if small is not None:
        _over_graphs(small, small.matrices.size * h, signal, 0, 0, Y.view(n, bands * h).numpy(), h, bands, 1, h)
    for part, rows in _others(operator, small):
        _over_tiles(expand_rows, part, rows, h, C.shape[1], signal, weights, Y.numpy())
    return Y


def contract(operator: FilterOperator, G: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, 1, h): the sum over m of filter m on band m, the adjoint of :func:`expand`."""
    n, bands, h = G.shape
    Y = G.new_empty((n, 1, h))
    result, weights = Y.view(n, h).numpy(), C.numpy()
    small = small_graphs(operator, weights, h)
    if small is not None:
        _over_graphs(small, small.matrices.size * h, _flat(G), 0, h, result, 0, 1, bands, h)
    for part, rows in _others(operator, small):
        _over_tiles(contract_rows, part, rows, h, C.shape[1], G.contiguous().numpy(), weights, result)
    return Y


def _flat(Z: Tensor) -> np.ndarray:
    """(N, M, h) -> (N, M h), in C order."""
    return Z.contiguous().view(Z.shape[0], Z.shape[1] * Z.shape[2]).numpy()


def _others(operator: FilterOperator, small: SmallGraphs | None) -> list[tuple[FilterOperator, np.ndarray]]:
    """The rows that are in no small graph: their operator, and which rows of the signal they are (empty for all)."""
    if small is None:
        return [(operator, AS_IT_IS)]
    return [] if small.rest is None else [(small.rest, small.rows)]

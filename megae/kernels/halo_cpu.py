"""One Chebyshev step on a part of a graph on CPU, compiled by numba."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numba
import numpy as np
import torch
from torch import Tensor

from megae.kernels.operator import FilterOperator

SERIAL_WORK = 1 << 18
"""Below this many multiply-adds a second thread costs more than it saves."""


@numba.njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")
def _rows(indptr, indices, values, previous, current, scale, shift):  # pragma: no cover - compiled
    """previous <- scale * S current - shift * previous for some rows of S; neighbours two at a time."""
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


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="megae-halo")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of these threads


def stepper(matrix: FilterOperator) -> Callable[[Tensor, Tensor, float, float], None]:
    """The step of a rectangular operator, on runs of rows with about as many neighbours each: a thread a run.

    Parameters
    ----------
    matrix : FilterOperator of n rows and at least as many columns

    Returns
    -------
    callable
        ``(previous, current, scale, shift)``, the first two of shape (columns of ``matrix``, B): the first n rows of
        ``previous`` become ``scale * matrix @ current - shift * previous``.
    """
    n, real = matrix.n, matrix.values.numpy().dtype.type
    indptr, indices, values = matrix.indptr.numpy(), matrix.indices.numpy(), matrix.values.numpy()
    work = indptr[1:] + np.arange(n)

    def run(start: int, stop: int, previous: np.ndarray, current: np.ndarray, scale: float, shift: float) -> None:
        _rows(indptr[start : stop + 1], indices, values, previous[start:stop], current, real(scale), real(shift))

    def advance(previous: Tensor, current: Tensor, scale: float, shift: float) -> None:
        given = previous.numpy(), current.numpy(), scale, shift
        threads = torch.get_num_threads()
        if threads == 1 or n == 0 or int(work[-1]) * current.shape[1] < SERIAL_WORK:
            run(0, n, *given)
            return
        inner = np.searchsorted(work, np.arange(1, threads) * int(work[-1]) // threads)
        bounds = itertools.pairwise([0, *inner.tolist(), n])
        for done in [_pool(threads).submit(run, start, stop, *given) for start, stop in bounds]:
            done.result()

    return advance

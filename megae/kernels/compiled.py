"""The fused Chebyshev recurrence, compiled by numba: tiles of rows that no edge leaves, a few buffers each.

Columns never mix in the recurrence ``T_{k+1} = 2 S T_k - T_{k-1}``, nor do nodes of different graphs. So a signal is
cut into tiles of some rows and some columns, and one thread runs all K steps of a tile in three small buffers: where
graphs are small these stay in cache, and the dense operands cross memory once in and once out, whatever K is.
Recurrence and accumulation are one pass over the neighbours.
"""

from __future__ import annotations

import numba
import numpy as np

if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
    raise ImportError("numba compiles nothing while NUMBA_DISABLE_JIT is set")

AS_IT_IS = np.empty(0, np.int64)
"""In place of the rows that a tile's rows stand for: its own."""

compiled = numba.njit(nogil=True, fastmath={"contract", "nsz"}, error_model="numpy")


@compiled
def closed_rows(indptr, indices, least):  # pragma: no cover - compiled
    """Bounds (R + 1,) of consecutive rows that no edge leaves, ``least`` rows or more in each."""
    n = indptr.size - 1
    bounds = np.empty(n // least + 2, np.int64)
    bounds[0], count, reach = 0, 1, -1
    for i in range(n):
        for p in range(indptr[i], indptr[i + 1]):
            reach = max(reach, indices[p])
        if reach <= i and i + 1 - bounds[count - 1] >= least:
            bounds[count] = i + 1
            count += 1
    if bounds[count - 1] != n:
        bounds[count] = n
        count += 1
    for r in range(count - 1):
        for p in range(indptr[bounds[r]], indptr[bounds[r + 1]]):
            if indices[p] < bounds[r] or indices[p] >= bounds[r + 1]:
                return np.array([0, n])
    return bounds[:count]


@compiled
def _advance(
    indptr, indices, values, a, b, previous, current, scale, shift, held, weight
):  # pragma: no cover - compiled
    """previous <- scale * S current - shift * previous + weight * held, if any is held; rows a to b, in place.

    ``previous``, ``current`` and ``held`` hold these rows alone, (b - a, B). Neighbours come four at a time.
    """
    for i in range(a, b):
        r = i - a
        keep = -shift
        p, end = indptr[i], indptr[i + 1]
        while end - p > 4:
            v0, v1 = scale * values[p], scale * values[p + 1]
            v2, v3 = scale * values[p + 2], scale * values[p + 3]
            j0, j1 = np.uintp(indices[p] - a), np.uintp(indices[p + 1] - a)
            j2, j3 = np.uintp(indices[p + 2] - a), np.uintp(indices[p + 3] - a)
            for c in range(previous.shape[1]):
                previous[r, c] = (
                    keep * previous[r, c]
                    + v0 * current[j0, c]
                    + v1 * current[j1, c]
                    + v2 * current[j2, c]
                    + v3 * current[j3, c]
                )
            keep = values.dtype.type(1)
            p += 4
        left = end - p
        zero = values.dtype.type(0)
        v0 = scale * values[p] if left > 0 else zero
        v1 = scale * values[p + 1] if left > 1 else zero
        j0 = np.uintp(indices[p] - a) if left > 0 else np.uintp(r)
        j1 = np.uintp(indices[p + 1] - a) if left > 1 else np.uintp(r)
        if left > 2:
            v2, j2 = scale * values[p + 2], np.uintp(indices[p + 2] - a)
            v3 = scale * values[p + 3] if left > 3 else zero
            j3 = np.uintp(indices[p + 3] - a) if left > 3 else np.uintp(r)
            for c in range(previous.shape[1]):
                t = (
                    keep * previous[r, c]
                    + v0 * current[j0, c]
                    + v1 * current[j1, c]
                    + v2 * current[j2, c]
                    + v3 * current[j3, c]
                )
                if held is not None:
                    t += weight[c] * held[r, c]
                previous[r, c] = t
        else:
            for c in range(previous.shape[1]):
                t = keep * previous[r, c] + v0 * current[j0, c] + v1 * current[j1, c]
                if held is not None:
                    t += weight[c] * held[r, c]
                previous[r, c] = t


@compiled
def _longest(bounds):  # pragma: no cover - compiled
    rows = 0
    for r in range(bounds.size - 1):
        rows = max(rows, bounds[r + 1] - bounds[r])
    return rows


@compiled
def _aligned(rows, width, like):  # pragma: no cover - compiled
    """An empty (rows, width) array that starts at a cache line."""
    flat = np.empty(rows * width + 64 // like.itemsize, like.dtype)
    skip = (-flat.ctypes.data % 64) // like.itemsize
    return flat[skip : skip + rows * width].reshape(rows, width)


@compiled
def bandwise_rows(indptr, indices, values, places, bounds, Z, C, band, Y, start, stop):  # pragma: no cover - compiled
    """Y[:, c] = sum_k C[band[c], k] T_k(S) Z[:, c] for start <= c < stop, on the rows within ``bounds``.

    Clenshaw's recurrence, b_k = C_k Z + 2 S b_{k+1} - b_{k+2}: it reads Z where the forward one reads and writes the
    sum.
    """
    width, last = stop - start, C.shape[1] - 1
    one, two, zero = values.dtype.type(1), values.dtype.type(2), values.dtype.type(0)
    weight = _aligned(C.shape[1], width, values)
    for k in range(C.shape[1]):
        for c in range(width):
            weight[k, c] = C[band[start + c], k]
    rows = _longest(bounds)
    first, second, held = _aligned(rows, width, values), _aligned(rows, width, values), _aligned(rows, width, values)
    for r in range(bounds.size - 1):
        a, b = bounds[r], bounds[r + 1]
        current, previous = first, second
        for i in range(b - a):
            row = places[a + i] if places.size else a + i
            for c in range(width):
                z = Z[row, np.uintp(start + c)]
                held[i, c] = z
                current[i, c] = weight[last, c] * z
                previous[i, c] = zero
        for k in range(last - 1, -1, -1):
            scale = one if k == 0 else two
            _advance(indptr, indices, values, a, b, previous, current, scale, one, held, weight[k])
            previous, current = current, previous
        for i in range(b - a):
            row = places[a + i] if places.size else a + i
            for c in range(width):
                Y[row, np.uintp(start + c)] = current[i, c]


@compiled
def expand_rows(indptr, indices, values, places, bounds, Z, C, Y, start, stop):  # pragma: no cover - compiled
    """Y[:, m, c] = sum_k C[m, k] T_k(S) Z[:, c] for start <= c < stop; two steps are added to Y at a time."""
    width, last = stop - start, C.shape[1] - 1
    one, two, zero = values.dtype.type(1), values.dtype.type(2), values.dtype.type(0)
    rows = _longest(bounds)
    first, second = _aligned(rows, width, values), _aligned(rows, width, values)
    for r in range(bounds.size - 1):
        a, b = bounds[r], bounds[r + 1]
        current, previous = first, second
        for i in range(b - a):
            row = places[a + i] if places.size else a + i
            for c in range(width):
                current[i, c] = Z[row, np.uintp(start + c)]
                previous[i, c] = zero
        for k in range(last + 1):
            if k > 0:
                scale, shift = (one, zero) if k == 1 else (two, one)
                _advance(indptr, indices, values, a, b, previous, current, scale, shift, None, None)
                previous, current = current, previous
            if k % 2 == 0 and k != last:
                continue
            for i in range(b - a):
                row = places[a + i] if places.size else a + i
                for m in range(C.shape[0]):
                    w, v = C[m, k], C[m, k - 1] if k % 2 == 1 else zero
                    if k < 2:
                        for c in range(width):
                            Y[row, m, np.uintp(start + c)] = w * current[i, c] + v * previous[i, c]
                    else:
                        for c in range(width):
                            Y[row, m, np.uintp(start + c)] += w * current[i, c] + v * previous[i, c]


@compiled
def contract_rows(indptr, indices, values, places, bounds, G, C, Y, start, stop):  # pragma: no cover - compiled
    """Y[:, c] = sum_m sum_k C[m, k] T_k(S) G[:, m, c], by Clenshaw's recurrence on the sum over m."""
    width = stop - start
    one, two, zero = values.dtype.type(1), values.dtype.type(2), values.dtype.type(0)
    rows = _longest(bounds)
    first, second = _aligned(rows, width, values), _aligned(rows, width, values)
    for r in range(bounds.size - 1):
        a, b = bounds[r], bounds[r + 1]
        current, previous = first, second
        current[: b - a] = zero
        previous[: b - a] = zero
        for k in range(C.shape[1] - 1, -1, -1):
            _advance(indptr, indices, values, a, b, previous, current, one if k == 0 else two, one, None, None)
            previous, current = current, previous
            for i in range(b - a):
                row = places[a + i] if places.size else a + i
                for m in range(C.shape[0]):
                    w = C[m, k]
                    for c in range(width):
                        current[i, c] += w * G[row, m, np.uintp(start + c)]
        for i in range(b - a):
            row = places[a + i] if places.size else a + i
            for c in range(width):
                Y[row, np.uintp(start + c)] = current[i, c]

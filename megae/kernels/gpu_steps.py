"""One step of a recurrence in Triton: the kernels that :mod:`megae.kernels.gpu` launches.

Work arrays are laid out (column block, N, stride). A program handles ROWS rows of one column block, COLUMNS wide, and
gathers NEIGHBOURS entries of each at a time. Arguments in capitals are compiled in.
"""
# mypy: allow-incomplete-defs

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _rows_of(order, n, groups, SORTED: tl.constexpr, ROWS: tl.constexpr):
    """Column block, rows (ROWS,) and which of them exist; the column block is outermost in the grid."""
    group = tl.program_id(0) % groups
    rows = group * ROWS + tl.arange(0, ROWS)
    exist = rows < n
    if SORTED:
        rows = tl.load(order + rows, mask=exist, other=0)
    return tl.program_id(0) // groups, rows.to(tl.int64), exist


@triton.jit
def _product(
    indptr, indices, values, current, rows, exist, n, block, known, stride,
    NEIGHBOURS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Rows of S T for one column block: (ROWS, COLUMNS)."""
    start = tl.load(indptr + rows, mask=exist, other=0)
    stop = tl.load(indptr + rows + 1, mask=exist, other=0)
    base = current + block.to(tl.int64) * n * stride + tl.arange(0, COLUMNS)
    near = tl.arange(0, NEIGHBOURS)[:, None]
    total = tl.full((NEIGHBOURS, rows.shape[0], COLUMNS), 0.0, current.dtype.element_ty)
    for done in range(0, tl.max(stop - start, axis=0), NEIGHBOURS):
        at = start[None, :] + done + near
        inside = at < stop[None, :]
        j = tl.load(indices + at, mask=inside, other=0).to(tl.int64)
        v = tl.load(values + at, mask=inside, other=0.0)
        there = base[None, None, :] + j[:, :, None] * stride
        asked = inside[:, :, None] & known[None, None, :]
        gathered = tl.load(there, mask=asked, other=0.0, eviction_policy="evict_last")
        total += v[:, :, None] * gathered
    return tl.sum(total, axis=0)


@triton.jit
def _inputs(Z, weights, rows, exist, columns, known, Z_row, BANDS: tl.constexpr, band_step, total):
    """total + sum_m weights[m, c] Z[i, m, c]: (ROWS, COLUMNS)."""
    for m in range(BANDS):
        w = tl.load(weights + m * band_step + columns, mask=known, other=0.0)
        there = Z + (rows * Z_row)[:, None] + m * band_step + columns[None, :]
        z = tl.load(there, mask=exist[:, None] & known[None, :], other=0.0, eviction_policy="evict_first")
        total += w[None, :] * z
    return total


@triton.jit
def clenshaw_step(
    indptr, indices, values, order, current, previous, out, Z, weights,
    n, groups, width, stride, band_step, Z_row, out_row, scale,
    GATHER: tl.constexpr, SUBTRACT: tl.constexpr, LAST: tl.constexpr, SORTED: tl.constexpr, BANDS: tl.constexpr,
    ROWS: tl.constexpr, NEIGHBOURS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """out <- scale S current - previous + sum_m weights_m Z_m; ``out`` may be ``previous``."""
    block, rows, exist = _rows_of(order, n, groups, SORTED, ROWS)
    lanes = tl.arange(0, COLUMNS)
    columns = block * COLUMNS + lanes
    known = columns < width
    mask = exist[:, None] & known[None, :]
    packed = ((block.to(tl.int64) * n + rows) * stride)[:, None] + lanes[None, :]
    total = tl.full((ROWS, COLUMNS), 0.0, out.dtype.element_ty)
    if GATHER:
        total += scale * _product(
            indptr, indices, values, current, rows, exist, n, block, known, stride, NEIGHBOURS, COLUMNS
        )
    if SUBTRACT:
        total -= tl.load(previous + packed, mask=mask, other=0.0, eviction_policy="evict_first")
    total = _inputs(Z, weights, rows, exist, columns, known, Z_row, BANDS, band_step, total)
    if LAST:
        there = out + (rows * out_row)[:, None] + columns[None, :]
        tl.store(there, total, mask=mask, eviction_policy="evict_first")
    else:
        tl.store(out + packed, total, mask=mask)


@triton.jit
def expand_step(
    indptr, indices, values, order, current, previous, out, Y, weights,
    n, groups, width, stride, h, orders, scale,
    SUBTRACT: tl.constexpr, TERMS: tl.constexpr, FIRST: tl.constexpr, SORTED: tl.constexpr, BANDS: tl.constexpr,
    ROWS: tl.constexpr, NEIGHBOURS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """T_s <- scale S T_{s-1} - T_{s-2}; every Y_m gains the last ``TERMS`` of weights_m * (T_s, T_{s-1}, T_{s-2})."""
    block, rows, exist = _rows_of(order, n, groups, SORTED, ROWS)
    lanes = tl.arange(0, COLUMNS)
    columns = block * COLUMNS + lanes
    known = columns < width
    mask = exist[:, None] & known[None, :]
    packed = ((block.to(tl.int64) * n + rows) * stride)[:, None] + lanes[None, :]
    newest = scale * _product(
        indptr, indices, values, current, rows, exist, n, block, known, stride, NEIGHBOURS, COLUMNS
    )
    older = tl.full((ROWS, COLUMNS), 0.0, out.dtype.element_ty)
    if SUBTRACT or TERMS == 3:
        older = tl.load(previous + packed, mask=mask, other=0.0, eviction_policy="evict_first")
    if SUBTRACT:
        newest -= older
    tl.store(out + packed, newest, mask=mask)
    if TERMS > 0:
        newer = tl.full((ROWS, COLUMNS), 0.0, out.dtype.element_ty)
        if TERMS > 1:
            newer = tl.load(current + packed, mask=mask, other=0.0)
        for m in range(BANDS):
            there = Y + ((rows * BANDS + m) * h)[:, None] + columns[None, :]
            w = weights + m * orders
            total = tl.load(w) * newest
            if TERMS > 1:
                total += tl.load(w - 1) * newer
            if TERMS > 2:
                total += tl.load(w - 2) * older
            if not FIRST:
                total += tl.load(there, mask=mask, other=0.0, eviction_policy="evict_first")
            tl.store(there, total, mask=mask, eviction_policy="evict_first")

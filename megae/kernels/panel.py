"""The innermost loop of a dense product, in the widest vectors of this processor, as an intrinsic for numba.

Compilers vectorise loops over columns, but write every partial sum back to memory. Here a panel of six rows times a few
vectors of columns stays in registers until it is done; each value of the signal is read once for all six rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

ROWS = 6
"""Rows of a panel: with four vectors of columns 24 sums, which the 32 registers of AVX-512 hold, inputs besides."""


def _widest() -> tuple[int, int]:
    """Bytes of a vector, and vectors of columns in a wide panel."""
    return (64, 4) if binding.get_host_cpu_features().get("avx512f") else (32, 2)


VECTOR_BYTES, VECTORS = _widest()
_FAST = ("contract", "nsz")


def _panel(vectors: int) -> Callable[..., Any]:
    """y[i, c] = sum_m sum_j p[j, m, i] z[j, m, c] for i < ``ROWS`` and the columns that so many vectors hold.

    The compiled function takes addresses and strides in bytes: y and its row stride; p and its strides over j and over
    m, contiguous over i; z and its strides over j and over m; how many j and how many m, both at least 1; any number of
    the type of the arrays. Nothing needs to be aligned.
    """

    @intrinsic
    def panel(context, y, y_row, p, p_row, p_band, z, z_row, z_band, n, bands, one):  # type: ignore[no-untyped-def]
        integers = (types.intp,) * 10
        return types.void(*integers, one), lambda _, builder, __, args: _emit(builder, vectors, *args) or _nothing()

    return panel


def _nothing() -> ir.Constant:
    return ir.Constant(ir.IntType(8).as_pointer(), None)


def _emit(builder, vectors, y, y_row, p, p_row, p_band, z, z_row, z_band, n, bands, one):  # type: ignore[no-untyped-def]
    """Two nested loops, bands without and nodes within, that carry the sums from turn to turn."""
    real, integer, index = one.type, ir.IntType(64), ir.IntType(32)
    size = 4 if isinstance(real, ir.FloatType) else 8
    lanes = VECTOR_BYTES // size
    vector = ir.VectorType(real, lanes)
    undefined, zeros = ir.Constant(vector, ir.Undefined), ir.Constant(vector, [0.0] * lanes)
    everywhere = ir.Constant(ir.VectorType(index, lanes), [0] * lanes)
    cells = [(r, v) for r in range(ROWS) for v in range(vectors)]

    def at(address, offset, kind):  # type: ignore[no-untyped-def]
        return builder.inttoptr(builder.add(address, ir.Constant(integer, offset)), kind.as_pointer())

    def carried(kind, first, source):  # type: ignore[no-untyped-def]
        value = builder.phi(kind)
        value.add_incoming(first, source)
        return value

    entry = builder.block
    band, node, next_band, done = (builder.append_basic_block(name) for name in ("band", "node", "next_band", "done"))
    builder.branch(band)

    builder.position_at_end(band)
    m = carried(integer, ir.Constant(integer, 0), entry)
    p_m, z_m = carried(integer, p, entry), carried(integer, z, entry)
    before = [carried(vector, zeros, entry) for _ in cells]
    builder.branch(node)

    builder.position_at_end(node)
    j = carried(integer, ir.Constant(integer, 0), band)
    p_j, z_j = carried(integer, p_m, band), carried(integer, z_m, band)
    sums = [carried(vector, old, band) for old in before]
    signal = [builder.load(at(z_j, v * VECTOR_BYTES, vector), align=size) for v in range(vectors)]
    added = []
    for (r, v), total in zip(cells, sums, strict=True):
        if v == 0:
            entry_of_p = builder.insert_element(undefined, builder.load(at(p_j, r * size, real)), ir.Constant(index, 0))
            weight = builder.shuffle_vector(entry_of_p, undefined, everywhere)
        added.append(builder.fadd(builder.fmul(weight, signal[v], flags=_FAST), total, flags=_FAST))
        total.add_incoming(added[-1], node)
    following = builder.add(j, ir.Constant(integer, 1))
    j.add_incoming(following, node)
    p_j.add_incoming(builder.add(p_j, p_row), node)
    z_j.add_incoming(builder.add(z_j, z_row), node)
    builder.cbranch(builder.icmp_signed("<", following, n), node, next_band)

    builder.position_at_end(next_band)
    for old, total in zip(before, added, strict=True):
        old.add_incoming(total, next_band)
    following = builder.add(m, ir.Constant(integer, 1))
    m.add_incoming(following, next_band)
    p_m.add_incoming(builder.add(p_m, p_band), next_band)
    z_m.add_incoming(builder.add(z_m, z_band), next_band)
    builder.cbranch(builder.icmp_signed("<", following, bands), band, done)

    builder.position_at_end(done)
    for (r, v), total in zip(cells, added, strict=True):
        row = builder.add(y, builder.mul(y_row, ir.Constant(integer, r)))
        builder.store(total, at(row, v * VECTOR_BYTES, vector), align=size)


wide, narrow = _panel(VECTORS), _panel(1)

"""Layers that look at each node alone, run a few nodes at a time where there are very many."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn

from megae.kernels.threads import side_by_side

WHOLE = 1 << 16
"""Up to this many rows are one piece, and all activations are kept for the backward pass."""

PIECE = {"cpu": 1 << 11}
"""Rows of a piece beyond that, by device: on a CPU a layer of them fits in cache. Elsewhere, ``WHOLE``."""


_drawing: ContextVar[torch.Generator | None] = ContextVar("megae_drawing", default=None)


def uniform(x: Tensor) -> Tensor:
    """Numbers drawn from [0, 1), of the shape of ``x``: torch's own, or inside a piece those of the piece."""
    generator = _drawing.get()
    if generator is None:
        return torch.rand_like(x)
    return torch.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device)


@contextlib.contextmanager
def draws_of_piece(seed: int, rows: slice, device: torch.device) -> Iterator[None]:
    """:func:`uniform` draws the same numbers for these rows each time, whatever else is drawn meanwhile."""
    token = _drawing.set(torch.Generator(device).manual_seed(seed + rows.start))
    try:
        yield
    finally:
        _drawing.reset(token)


def by_rows(function: Callable[..., Any], *tensors: Tensor, of: Iterable[nn.Module] = ()) -> Any:
    """``function(*tensors)`` for a function whose row i depends on row i of the tensors alone.

    Beyond ``WHOLE`` rows it runs in pieces, and the activations inside a piece are computed again in the backward pass
    instead of being kept: at a million nodes they would take over 40 GB where inputs and outputs take a tenth. Pieces
    are written into arrays made for all rows: kept side by side until the last is there, they would leave the heap in
    fragments that are never given back. On a CPU each thread takes pieces of its own, always the same ones.

    Parameters
    ----------
    function : (n, ...) tensors -> (n, ...) tensor, or a tuple of them
        Draws random numbers by :func:`uniform` alone.
    tensors : Tensors of shape (N, ...)
    of : modules whose parameters ``function`` uses
        Others get no gradient.

    Returns
    -------
    Tensor of shape (N, ...), or a tuple of them

    Examples
    --------
    >>> by_rows(torch.square, torch.arange(3.0))
    tensor([0., 1., 4.])
    """
    if tensors[0].shape[0] <= WHOLE:
        return function(*tensors)
    weights = [w for module in of for w in module.parameters()]
    return _InPieces.apply(function, len(tensors), *tensors, *weights)


class _InPieces(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], count: int, *tensors: Tensor) -> Any:
        inputs = tensors[:count]
        ctx.function, ctx.count, ctx.seed = function, count, int(torch.randint(1 << 48, ()))
        ctx.save_for_backward(*tensors)
        n = inputs[0].shape[0]
        whole: list[Tensor] = []

        def run(pieces: Sequence[slice]) -> bool:
            single = False
            with torch.no_grad():
                for rows in pieces:
                    with draws_of_piece(ctx.seed, rows, inputs[0].device):
                        out = function(*(x[rows] for x in inputs))
                    single = isinstance(out, Tensor)
                    if not whole:
                        whole.extend(part.new_empty((n, *part.shape[1:])) for part in _several(out))
                    for target, part in zip(whole, _several(out), strict=True):
                        target[rows] = part
            return single

        shares = _shares(inputs[0])
        single = run(shares[0][:1])  # makes the arrays that all threads write to
        side_by_side([partial(run, pieces) for pieces in (shares[0][1:], *shares[1:])])
        return whole[0] if single else tuple(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weights = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        wanted = ctx.needs_input_grad[2:]
        back = [torch.empty_like(x) if want else None for x, want in zip(inputs, wanted[: ctx.count], strict=True)]
        inward = [g for g in back if g is not None]
        learned = [w for w, want in zip(weights, wanted[ctx.count :], strict=True) if want]

        def run(pieces: Sequence[slice]) -> list[Tensor]:
            sums = [torch.zeros_like(w) for w in learned]
            with torch.enable_grad():
                for rows in pieces:
                    parts = [x[rows].detach().requires_grad_(g is not None) for x, g in zip(inputs, back, strict=True)]
                    with draws_of_piece(ctx.seed, rows, inputs[0].device):
                        out = _several(ctx.function(*parts))
                    sources = [*(part for part in parts if part.requires_grad), *learned]
                    found = torch.autograd.grad(out, sources, [g[rows] for g in grads])
                    for target, g in zip(inward, found, strict=False):
                        target[rows] = g
                    for total, g in zip(sums, found[len(inward) :], strict=True):
                        total += g
            return sums

        of_threads = side_by_side([partial(run, pieces) for pieces in _shares(inputs[0])])
        sums = iter([reduce(torch.Tensor.add_, parts) for parts in zip(*of_threads, strict=True)])
        return None, None, *back, *(next(sums) if want else None for want in wanted[ctx.count :])


def _shares(x: Tensor) -> list[list[slice]]:
    """The pieces of the rows of ``x``, dealt out in turn to the threads that take them: on a CPU as many as torch's."""
    size = PIECE.get(x.device.type, WHOLE)
    pieces = [slice(start, start + size) for start in range(0, x.shape[0], size)]
    alone = x.device.type != "cpu" or torch.is_autocast_enabled("cpu")  # which other threads would not know
    threads = 1 if alone else min(torch.get_num_threads(), len(pieces))
    return [pieces[k::threads] for k in range(threads)]


def _several(out: Any) -> tuple[Tensor, ...]:
    return (out,) if isinstance(out, Tensor) else tuple(out)

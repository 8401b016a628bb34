"""Layers that look at each node alone, run a few nodes at a time where there are very many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

WHOLE = 1 << 16
"""Up to this many rows are one piece, and all activations are kept for the backward pass."""

PIECE = {"cpu": 1 << 12}
"""Rows of a piece beyond that, by device: on a CPU a layer of them fits in cache. Elsewhere, ``WHOLE``."""


def by_rows(function: Callable[..., Any], *tensors: Tensor, of: Iterable[nn.Module] = ()) -> Any:
    """``function(*tensors)`` for a function whose row i depends on row i of the tensors alone.

    Beyond ``WHOLE`` rows it runs in pieces, and the activations inside a piece are computed again in the backward pass
    instead of being kept: at a million nodes they would take over 40 GB where inputs and outputs take a tenth. Pieces
    are written into arrays made for all rows: kept side by side until the last is there, they would leave the heap in
    fragments that are never given back.

    Parameters
    ----------
    function : (n, ...) tensors -> (n, ...) tensor, or a tuple of them
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
        ctx.function, ctx.count, ctx.draws = function, count, _draws(inputs[0].device)
        ctx.save_for_backward(*tensors)
        n, size = inputs[0].shape[0], PIECE.get(inputs[0].device.type, WHOLE)
        whole: list[Tensor] = []
        for start in range(0, n, size):
            rows = slice(start, start + size)
            parts = _several(function(*(x[rows] for x in inputs)))
            whole = whole or [part.new_empty((n, *part.shape[1:])) for part in parts]
            for target, part in zip(whole, parts, strict=True):
                target[rows] = part
            single = len(parts) == 1
        return whole[0] if single else tuple(whole)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weights = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        wanted = ctx.needs_input_grad[2:]
        back = [torch.empty_like(x) if want else None for x, want in zip(inputs, wanted[: ctx.count], strict=True)]
        sums = [torch.zeros_like(w) if want else None for w, want in zip(weights, wanted[ctx.count :], strict=True)]
        learned = [w for w, total in zip(weights, sums, strict=True) if total is not None]
        device = inputs[0].device
        size = PIECE.get(device.type, WHOLE)
        with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.enable_grad():
            _draw_again(device, ctx.draws)
            for start in range(0, inputs[0].shape[0], size):
                rows = slice(start, start + size)
                parts = [x[rows].detach().requires_grad_(g is not None) for x, g in zip(inputs, back, strict=True)]
                sources = [*(part for part in parts if part.requires_grad), *learned]
                found = torch.autograd.grad(_several(ctx.function(*parts)), sources, [g[rows] for g in grads])
                inward = [g[rows] for g in back if g is not None]
                for target, g in zip(inward, found, strict=False):
                    target.copy_(g)
                for total, g in zip([s for s in sums if s is not None], found[len(inward) :], strict=True):
                    total += g
        return None, None, *back, *sums


def _several(out: Any) -> tuple[Tensor, ...]:
    return (out,) if isinstance(out, Tensor) else tuple(out)


def _draws(device: torch.device) -> Tensor:
    """Where the random numbers stand."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _draw_again(device: torch.device, draws: Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(draws, device)
    else:
        torch.set_rng_state(draws)

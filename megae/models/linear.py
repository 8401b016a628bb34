"""Linear maps of node features, by the faster of the two libraries that torch carries for it.

torch multiplies float32 matrices on CPU with MKL, which holds back its AVX-512 code on processors that are not Intel's;
oneDNN, which torch has for convolutions, does not. Both round in float32.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SMALL = 1 << 21
"""Below this many multiply-adds, the way to oneDNN takes longer than it saves."""

ROWS = 64
"""oneDNN compiles for each shape anew, so rows of batches that are never of the same size come in multiples of this."""


class Linear(nn.Linear):
    """``torch.nn.Linear`` with the same weights, whose products :func:`linear` computes.

    Examples
    --------
    >>> Linear(3, 2)(torch.zeros(4, 3)).shape
    torch.Size([4, 2])
    """

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b, (N, i), (o, i) and (o,) -> (N, o); differentiable to any order.

    oneDNN takes large float32 products on CPUs with AVX-512, unless torch has been told to round products or to do
    without it; torch's own product takes all others.
    """
    if x.dim() == 2 and x.dtype == torch.float32 and _by_onednn(x.shape[0], weight):
        return _Product.apply(x, weight, bias)
    return F.linear(x, weight, bias)


def even_rows(n: int, weight: Tensor) -> int:
    """How many rows to map by ``weight`` where n are wanted: n, or the next multiple of ``ROWS`` if by oneDNN."""
    return -(-n // ROWS) * ROWS if _by_onednn(n, weight) else n


def _by_onednn(n: int, weight: Tensor) -> bool:
    return (
        n * weight.numel() >= SMALL
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and _has_onednn()
        and bool(torch.backends.mkldnn.enabled)
        and torch.get_float32_matmul_precision() == "highest"
        and not torch.is_autocast_enabled("cpu")
    )


@cache
def _has_onednn() -> bool:
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return wide and torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        to_x, to_weight, to_bias = ctx.needs_input_grad
        return (
            _Product.apply(grad, weight.t(), None) if to_x else None,
            _over_rows(grad, x) if to_weight else None,
            grad.sum(dim=0) if to_bias else None,
        )


def _over_rows(a: Tensor, b: Tensor) -> Tensor:
    """a^T b, (N, p) and (N, q) -> (p, q); the product is faster with its shorter side first."""
    if a.shape[1] <= b.shape[1]:
        return _Product.apply(a.t(), b.t(), None)
    return _Product.apply(b.t(), a.t(), None).t().contiguous()

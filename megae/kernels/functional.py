"""``apply``: the filter as a differentiable function, whichever implementation runs it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from megae.kernels.choice import backend_for
from megae.kernels.operator import FilterOperator, OwnFilter

Operator = FilterOperator | OwnFilter


class _Bandwise(torch.autograd.Function):
    """g_m(L) is symmetric, so the backward pass is the same filter on the gradient: nothing is stored."""

    @staticmethod
    def forward(ctx: Any, Z: Tensor, operator: Operator, C: Tensor, backend: Any) -> Tensor:
        ctx.rest = operator, C, backend
        return backend.bandwise(operator, Z, C)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        return _Bandwise.apply(grad, *ctx.rest), None, None, None


class _Expand(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, Z: Tensor, operator: Operator, C: Tensor, backend: Any) -> Tensor:
        ctx.rest = operator, C, backend
        return backend.expand(operator, Z, C)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        return _Contract.apply(grad, *ctx.rest), None, None, None


class _Contract(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, G: Tensor, operator: Operator, C: Tensor, backend: Any) -> Tensor:
        ctx.rest = operator, C, backend
        return backend.contract(operator, G, C)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[override]
        return _Expand.apply(grad, *ctx.rest), None, None, None


def _at_one(C: Tensor) -> Tensor:
    """p_m(1) = sum_k C[m, k] T_k(0), all that a graph without edges (L = I) can see: (M, K + 1) -> (M,)."""
    signs = C.new_zeros(C.shape[1])
    signs[0::4], signs[2::4] = 1.0, -1.0
    return C @ signs


def apply(L: Operator | sp.sparray | sp.spmatrix, Z: Tensor, C: Tensor | np.ndarray) -> Tensor:
    r"""Filter every band of a node signal with its own Chebyshev polynomial of the Laplacian.

    .. math:: Y_m = \sum_{k=0}^{K} C_{mk} \, T_k(L - I) \, Z_m

    Parameters
    ----------
    L : FilterOperator or scipy sparse matrix of shape (N, N)
        Normalised Laplacian, spectrum in [0, 2]. A matrix is prepared anew on every call; in a loop, pass a
        :class:`FilterOperator`.
    Z : Tensor of shape (N, M, h), or (N, 1, h) when all bands share their input
        float32 or float64.
    C : array of shape (M, K + 1)
        Chebyshev coefficients on [0, 2].

    Returns
    -------
    Tensor of shape (N, M, h)
        Differentiable in ``Z``, to any order; memory does not grow with K.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, torch
    >>> L = sp.csr_array([[1.0, -1.0], [-1.0, 1.0]])
    >>> Z = torch.tensor([[[1.0]], [[0.0]]])
    >>> apply(L, Z, np.array([[0.0, 1.0]])).flatten()  # T_1(L - I) = L - I
    tensor([ 0., -1.])
    """
    L, C = _matched(L, Z, C)
    if Z.shape[1] not in (1, C.shape[0]):
        raise ValueError(f"Z has {Z.shape[1]} bands but C has {C.shape[0]}; give either as many or one")
    if not L.has_edges:
        return Z * _at_one(C).unsqueeze(-1)
    if Z.shape[1] == C.shape[0]:
        return _Bandwise.apply(Z, L, C, backend_for(L))
    return _Expand.apply(Z, L, C, backend_for(L))


def apply_adjoint(L: Operator | sp.sparray | sp.spmatrix, G: Tensor, C: Tensor | np.ndarray) -> Tensor:
    r"""Sum of the filtered bands, :math:`\sum_m g_m(L) G_m`: (N, M, h) -> (N, 1, h).

    The adjoint of :func:`apply` on a shared input; for a tight frame ``apply_adjoint(L, apply(L, x, C), C)``
    gives ``x`` back up to the polynomials' error.
    """
    L, C = _matched(L, G, C)
    if G.shape[1] != C.shape[0]:
        raise ValueError(f"G has {G.shape[1]} bands but C has {C.shape[0]}; give as many")
    if not L.has_edges:
        return (G * _at_one(C).unsqueeze(-1)).sum(dim=1, keepdim=True)
    return _Contract.apply(G, L, C, backend_for(L))


@cache
def warm_up(kind: str) -> None:
    """Have the filter ready on a kind of device: what is compiled on first use, is compiled now.

    Training that may take so many seconds calls this before they count.
    """
    S = (torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32), -torch.ones(2))
    operator, C = FilterOperator(*S).to(kind), torch.ones(2, 8, device=kind)
    for h in (1, 16):  # few columns go by the recurrence alone, more of them by dense products
        apply(operator, torch.zeros(2, 1, h, device=kind), C)
        apply_adjoint(operator, apply(operator, torch.zeros(2, 2, h, device=kind), C), C)


def _matched(L: Operator | sp.sparray | sp.spmatrix, Z: Tensor, C: Tensor | np.ndarray) -> tuple[Operator, Tensor]:
    """Operator and coefficients in the precision and on the device of the signal; refuses shapes that do not fit."""
    if Z.dim() != 3:
        raise ValueError(f"Z must have shape (N, M, h) or (N, 1, h), got {tuple(Z.shape)}")
    if Z.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"Z must be float32 or float64, got {Z.dtype}")
    if not isinstance(L, Operator):
        L = FilterOperator.from_laplacian(L, Z.dtype, Z.device)
    if L.dtype != Z.dtype or L.device != Z.device:
        L = L.to(Z.device, Z.dtype)
    C = torch.as_tensor(C).to(device=Z.device, dtype=Z.dtype).detach()
    if C.dim() != 2 or C.shape[1] < 1:
        raise ValueError(f"C must have shape (M, K + 1), got {tuple(C.shape)}")
    if Z.shape[0] != L.n:
        raise ValueError(f"Z has {Z.shape[0]} rows but the Laplacian has {L.n} nodes")
    return L, C

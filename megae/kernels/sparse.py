"""The Chebyshev filter in plain torch: any device, and CPUs without numba."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from megae.kernels.operator import FilterOperator


def _product(operator: FilterOperator) -> Callable[..., Tensor]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR|invariant)")
        S = torch.sparse_csr_tensor(
            operator.indptr, operator.indices, operator.values, (operator.n, operator.n), check_invariants=False
        )

    def multiply(T: Tensor, subtract: Tensor | None = None, scale: float = 1.0) -> Tensor:
        """scale * S T - subtract, for T of shape (N, columns)."""
        if operator.values.numel() == 0:
            return torch.zeros_like(T) if subtract is None else -subtract
        if subtract is None:
            return torch.mm(S, T) if scale == 1.0 else scale * torch.mm(S, T)
        return torch.addmm(subtract, S, T, beta=-1.0, alpha=scale)

    return multiply


def bandwise(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, M, h): band m through filter m."""
    n, bands, h = Z.shape
    multiply = _product(operator)
    weights = C.repeat_interleave(h, dim=0).T.contiguous()
    previous, current = None, Z.reshape(n, bands * h)
    total = weights[0] * current
    for k in range(1, C.shape[1]):
        previous, current = current, multiply(current, previous, 1.0 if k == 1 else 2.0)
        total.addcmul_(weights[k].expand_as(current), current)
    return total.view(n, bands, h)


def expand(operator: FilterOperator, Z: Tensor, C: Tensor) -> Tensor:
    """(N, 1, h) -> (N, M, h): one input through every filter."""
    multiply = _product(operator)
    weights = C.T.unsqueeze(-1)
    previous, current = None, Z[:, 0, :].contiguous()
    total = weights[0] * current.unsqueeze(1)
    for k in range(1, C.shape[1]):
        previous, current = current, multiply(current, previous, 1.0 if k == 1 else 2.0)
        total.addcmul_(weights[k], current.unsqueeze(1))
    return total


def contract(operator: FilterOperator, G: Tensor, C: Tensor) -> Tensor:
    """(N, M, h) -> (N, 1, h): the sum over m of filter m on band m, by Clenshaw's recurrence."""
    multiply = _product(operator)
    weights = C.T.contiguous()
    columns = G.transpose(1, 2)
    current = columns @ weights[-1]
    previous = torch.zeros_like(current)
    for k in range(C.shape[1] - 2, -1, -1):
        scale = 1.0 if k == 0 else 2.0
        previous, current = current, multiply(current, previous, scale).add_(columns @ weights[k])
    return current.unsqueeze(1)

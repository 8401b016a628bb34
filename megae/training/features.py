"""What a network sees of a table with holes."""

from __future__ import annotations

import torch
from torch import Tensor

from megae.kernels import FilterOperator, apply
from megae.training.pool import GraphBatch


def plain_inputs(batch: GraphBatch, visible: Tensor) -> Tensor:
    """Standardised visible values, what is visible, and each graph's mean of what is visible: (N, 3 E)."""
    shown = visible.to(batch.values.dtype)
    z = batch.values * shown
    shape = (batch.n_graphs, z.shape[1])
    total = batch.total_within(z.new_zeros(shape).index_add_(0, batch.graph, z))
    count = batch.total_within(z.new_zeros(shape).index_add_(0, batch.graph, shown))
    return torch.cat([z, shown, (total / count.clamp_min(1.0))[batch.graph]], dim=1)


def propagated_inputs(batch: GraphBatch, visible: Tensor, iterations: int) -> Tensor:
    """Visible values propagated into the holes, and what is visible: (N, 2 E)."""
    shown = visible.to(batch.values.dtype)
    return torch.cat([propagate(batch.operator, batch.values * shown, visible, iterations), shown], dim=1)


def row_inputs(batch: GraphBatch, visible: Tensor) -> Tensor:
    """Standardised visible values and what is visible, nothing of the graph: (N, 2 E)."""
    shown = visible.to(batch.values.dtype)
    return torch.cat([batch.values * shown, shown], dim=1)


def masked_inputs(batch: GraphBatch, visible: Tensor) -> Tensor:
    """X * R, the Z^(0) of equation 5: (N, E)."""
    return batch.values * visible


@torch.no_grad()
def propagate(operator: FilterOperator, z: Tensor, visible: Tensor, iterations: int) -> Tensor:
    """Feature propagation (Rossi et al. 2022): z_hole <- (D^-1/2 A D^-1/2 z)_hole, visible cells held.

    Parameters
    ----------
    z : Tensor of shape (N, E), 0 in holes
    visible : bool Tensor of shape (N, E)

    Returns
    -------
    Tensor of shape (N, E)
    """
    if not operator.has_edges:
        return z
    minus_S = -torch.arange(2.0, device=z.device).unsqueeze(0)
    hole = (~visible).to(z.dtype)
    current = z
    for _ in range(iterations):
        current = torch.addcmul(z, hole, apply(operator, current.unsqueeze(1), minus_S).squeeze(1))
    return current

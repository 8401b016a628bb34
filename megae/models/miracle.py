"""The network and the regularisers of MIRACLE (Kyono, Zhang, Bellot and van der Schaar, NeurIPS 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, elu


class CausalNetwork(nn.Module):
    """One sub-network for each column and one for each column's missingness: the m-graph as a network.

    Head o computes ``elu(elu(x W_o + b_o) V + c) . u_o + e_o``: first layer and output are its own, the hidden layer V
    is shared. A column is no parent of itself, nor of another one-hot column of its category, which it would give away,
    and no missingness indicator is a parent of anything, so the inputs are the E columns alone.

    Parameters
    ----------
    column : int64 Tensor of shape (E,)
        Column of the table that each encoded one belongs to.
    hidden : int
    """

    allowed: Tensor

    def __init__(self, column: Tensor, hidden: int = 32) -> None:
        super().__init__()
        self.width = width = len(column)
        self.first = nn.Parameter(0.01 * torch.randn(width, 2 * width, hidden))
        self.first_bias = nn.Parameter(0.01 * torch.randn(2 * width, hidden))
        self.shared = nn.Linear(hidden, hidden)
        self.last = nn.Parameter(torch.randn(2 * width, hidden) / hidden**0.5)
        self.last_bias = nn.Parameter(torch.zeros(2 * width))
        allowed = torch.ones(width, 2 * width, 1)
        allowed[:, :width, 0] = (column[:, None] != column).float()
        self.register_buffer("allowed", allowed)

    def weights(self) -> Tensor:
        """First-layer weights, (E parents, 2 E heads, hidden), with those of a column's own category out."""
        return self.first * self.allowed

    def norms(self) -> Tensor:
        """How strongly each column enters each head, (E, 2 E): the Euclidean norm of its weights."""
        return (self.weights().square().sum(-1) + 1e-16).sqrt() * self.allowed.squeeze(-1)

    def forward(self, x: Tensor, heads: int | None = None) -> Tensor:
        """(N, E) -> (N, 2 E): E values, then E logits of being observed; with ``heads``, the first ones alone."""
        k = 2 * self.width if heads is None else heads
        W = self.weights()[:, :k]
        out = (x @ W.reshape(self.width, -1)).view(len(x), k, -1) + self.first_bias[:k]
        out = elu(self.shared(elu(out)))
        return (out * self.last[:k]).sum(-1) + self.last_bias[:k]


def acyclicity(weights: Tensor) -> Tensor:
    """``tr exp(W * W) - d`` of a (d, d) matrix: 0 if and only if its graph has no cycle (Zheng et al., 2018)."""
    return torch.linalg.matrix_exp(weights * weights).diagonal().sum() - weights.shape[0]


def reconstruction(values: Tensor, target: Tensor, observed: Tensor) -> Tensor:
    """Squared error over observed cells, summed over columns, mean over rows."""
    return ((values - target) * observed).square().sum(-1).mean()


def missingness(logits: Tensor, observed: Tensor, counted: Tensor) -> Tensor:
    """Cross-entropy of the indicators of the columns ``counted`` (E,), summed over those, mean over rows."""
    return (binary_cross_entropy_with_logits(logits, observed, reduction="none") * counted).sum(-1).mean()


def moment_gap(values: Tensor, logits: Tensor, target: Tensor, observed: Tensor, counted: Tensor) -> Tensor:
    r"""Squared distance between the mean of what is predicted and the mean of the complete column.

    .. math::
        \sum_j \Big( \frac1n \sum_i f_j(\tilde x_i)
        - \frac{\sum_i r_{ij} x_{ij} / p_{ij}}{\sum_i r_{ij} / p_{ij}} \Big)^2

    where r is 1 in observed cells and p the predicted chance of that: weighting by its inverse estimates the mean over
    missing cells too.

    Parameters
    ----------
    values, logits, target, observed : Tensor of shape (n, E)
    counted : Tensor of shape (E,), 1 for columns with holes
    """
    chance = (torch.sigmoid(logits) + 0.01) / 1.02
    weight = observed / chance
    whole = (weight * target).sum(0) / weight.sum(0).clamp(min=1e-6)
    shown = counted * (observed.sum(0) > 0)
    return (shown * (values.mean(0) - whole).square()).sum()


@dataclass
class Multiplier:
    """The augmented Lagrangian of the constraint h = 0: ``rho h^2 / 2 + alpha h``.

    Parameters
    ----------
    alpha, rho : float
    most : float
        rho grows tenfold, up to this, whenever h has not fallen to a quarter.
    """

    alpha: float = 1.0
    rho: float = 1.0
    most: float = 1e8
    last: float = float("inf")

    def penalty(self, h: Tensor) -> Tensor:
        return 0.5 * self.rho * h * h + self.alpha * h

    def ascend(self, h: float) -> None:
        """One dual step."""
        self.alpha += self.rho * h
        if h > 0.25 * self.last:
            self.rho = min(10 * self.rho, self.most)
        self.last = h

"""The debiased Sinkhorn divergence between two clouds of points, in the logarithmic domain."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


def annealing(diameter: float, blur: float, scaling: float) -> list[float]:
    """Temperatures of the rounds: from the squared diameter, times ``scaling**2`` each, down to ``blur**2``.

    The first stands twice, as in the schedule of geomloss.
    """
    wide = max(diameter, blur)
    rounds = math.ceil(math.log(blur / wide) / math.log(scaling) - 1e-12)
    return [wide**2, *((wide * scaling**k) ** 2 for k in range(rounds)), blur**2]


def half_squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """``|x_i - y_j|^2 / 2`` for (..., n, D) and (..., m, D), shape (..., n, m)."""
    squares = (x * x).sum(-1).unsqueeze(-1) + (y * y).sum(-1).unsqueeze(-2)
    return squares / 2 - x @ y.transpose(-1, -2)


def _exponents(temperature: float, cost: Tensor, potential: Tensor) -> tuple[Tensor, Tensor]:
    """``(potential_j - cost_ij) / e`` less its maximum over j, (..., n, m), and that maximum, (..., n, 1)."""
    z = torch.sub((potential / temperature).unsqueeze(-2), cost, alpha=1 / temperature)
    top = z.amax(-1, keepdim=True)
    return z.sub_(top), top


def _soft_minimum(temperature: float, cost: Tensor, potential: Tensor) -> Tensor:
    """``-e log mean_j exp((potential_j - cost_ij) / e)`` for (..., n, m) and (..., m), shape (..., n)."""
    z, top = _exponents(temperature, cost, potential)
    return (z.exp_().mean(-1).log_() + top.squeeze(-1)).mul_(-temperature)


class _Divergence(torch.autograd.Function):
    """Value and gradients at once: by the envelope theorem the last round alone carries the gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, blur: float, scaling: float) -> Tensor:
        ends = torch.cat([x.flatten(0, -2), y.flatten(0, -2)])
        rounds = annealing(float((ends.amax(0) - ends.amin(0)).norm()), blur, scaling)
        near, far = torch.stack([x, y, x, y]), torch.stack([y, x, x, y])  # (4, ..., n, D)
        cost = half_squared_distances(near, far)  # (4, ..., n, n)
        potential = _soft_minimum(rounds[0], cost, torch.zeros_like(cost[..., 0]))  # f, g, f of x alone, g of y alone
        swap = torch.tensor([1, 0, 2, 3], device=x.device)
        for e in rounds:
            potential = (potential + _soft_minimum(e, cost, potential[swap])) / 2
        e = rounds[-1]
        z, top = _exponents(e, cost, potential[swap])
        share = z.exp_()
        total = share.sum(-1, keepdim=True)
        f, g, fx, gy = -e * ((total / share.shape[-1]).log_() + top).squeeze(-1)
        to_y, to_x, in_x, in_y = (share / total) @ far  # where the plan sends each point, (4, ..., n, D)
        ctx.save_for_backward((in_x - to_y) / x.shape[-2], (in_y - to_x) / x.shape[-2])
        return (f - fx).mean(-1) + (g - gy).mean(-1)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        weight = upstream[0][..., None, None]
        of_x, of_y = ctx.saved_tensors
        return weight * of_x, weight * of_y, None, None


def sinkhorn_divergence(x: Tensor, y: Tensor, blur: float, scaling: float = 0.9) -> Tensor:
    r"""How far two clouds of equally many, equally heavy points are apart.

    .. math::
        S_\varepsilon(\alpha, \beta) = OT_\varepsilon(\alpha, \beta) - \tfrac12 OT_\varepsilon(\alpha, \alpha)
        - \tfrac12 OT_\varepsilon(\beta, \beta), \qquad
        OT_\varepsilon(\alpha, \beta) = \min_\pi \sum_{ij} \pi_{ij} \tfrac12 |x_i - y_j|^2
        + \varepsilon \, KL(\pi, \alpha \otimes \beta)

    with :math:`\varepsilon = \mathrm{blur}^2` (Feydy et al., AISTATS 2019): what ``geomloss.SamplesLoss`` computes with
    ``p=2``. Symmetric Sinkhorn rounds at falling temperature find the dual potentials of all three problems at once.

    Parameters
    ----------
    x, y : Tensor of shape (..., n, D)
    blur : float
        Square root of the temperature, in units of distance.
    scaling : float in (0, 1)
        Ratio of the blurs of successive rounds; nearer to 1 is slower and closer to convergence.

    Returns
    -------
    Tensor of shape (...,), differentiable in x and y
    """
    if x.shape != y.shape:
        raise ValueError(f"both clouds must have the same shape, got {tuple(x.shape)} and {tuple(y.shape)}")
    if not blur > 0 or not 0 < scaling < 1:
        raise ValueError(f"blur must be positive and scaling lie in (0, 1), got {blur!r} and {scaling!r}")
    return _Divergence.apply(x, y, blur, scaling)

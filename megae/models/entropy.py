"""The entropy of the latent bands, which training maximises."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def _here(x: Tensor) -> Tensor:
    """A sum as it is, where no other process has a part in it."""
    return x


def latent_entropy(
    Z: Tensor,
    graph: Tensor,
    n_graphs: int,
    within: Callable[[Tensor], Tensor] = _here,
    across: Callable[[Tensor], Tensor] = _here,
) -> Tensor:
    r"""Wavelet entropy of the latent code, averaged over graphs and channels: the paper's L_S.

    .. math::
        P_m^d = \frac{\|Z_m(:, d)\|^2}{\sum_m \|Z_m(:, d)\|^2}, \qquad
        \mathcal{L}_S = -\frac{1}{D} \sum_d \sum_m P_m^d \log P_m^d

    The norms run over the nodes of one graph. A channel without any energy has entropy 0 and gradient 0; so has a band
    without energy.

    Parameters
    ----------
    Z : Tensor of shape (N, M, h)
        Latent code :math:`Z^{(2)}`.
    graph : Tensor of shape (N,), int64
        Which graph each node is of.
    n_graphs : int
    within : callable
        Makes energies (n_graphs, M, h) of the nodes here those of all nodes, where a graph spans several processes;
        applied before the division and the logarithm.
    across : callable
        Makes sums over the graphs here sums over the graphs of all processes, where each has its own.

    Returns
    -------
    Tensor, a scalar between 0 and log M

    Examples
    --------
    >>> Z = torch.ones(5, 4, 3)
    >>> round(float(latent_entropy(Z, torch.zeros(5, dtype=torch.long), 1).exp()), 5)
    4.0
    """
    energy = within(Z.new_zeros((n_graphs, *Z.shape[1:])).index_add_(0, graph, Z.square()))
    total = energy.sum(dim=1, keepdim=True)
    tiny = torch.finfo(Z.dtype).tiny ** 0.5
    share = energy / total.clamp_min(tiny)
    entropy = -(share * share.clamp_min(tiny).log()).sum(dim=1)  # (n_graphs, h)
    total, count = across(torch.stack([entropy.sum(), entropy.new_full((), entropy.numel())]))
    return total / count

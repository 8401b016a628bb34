"""What the autoencoders and the GAN over graphs share: how much to hide, and how held-out cells are judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.imputers.build import standardisation
from megae.imputers.neural import Ground
from megae.training.hiding import HidingRates
from megae.training.holdout import HeldOut

MOST_HIDDEN = 0.3
"""Of a single table at most this share is hidden in a step: its own holes are missing already."""


def tempered(ground: Ground) -> Ground:
    """The same ground; on few graphs, with no column hidden more often than ``MOST_HIDDEN``."""
    if ground.division.by_graph:
        return ground
    return replace(ground, rates=HidingRates(np.minimum(ground.rates.columns, MOST_HIDDEN), ground.rates.rows))


def per_range(ground: Ground) -> Tensor:
    """What a scaled error is multiplied with to count in ranges of its column: float32 (E,) on the device."""
    span = standardisation(ground.division.train, ground.division.trainable, "range", "range")[2]
    return torch.as_tensor(ground.scaler.scale / span, dtype=torch.float32, device=ground.device)


def judge(held: HeldOut | None, fill: Callable[[], Tensor], ground: Ground) -> Callable[[], float] | None:
    """A function that tells the mean over graphs of the RMSE on held-out cells, in ranges of the columns.

    On one graph that is the RMSE.

    Parameters
    ----------
    held : HeldOut or None
        Without held-out cells there is no such function.
    fill : returns scaled values (N, E) over the nodes of ``held.graphs``, made of its visible cells
    """
    if held is None:
        return None
    device = ground.device
    truth = torch.nan_to_num(ground.scaler.forward(torch.cat([g.x for g in held.graphs]), device))
    hidden, weight = held.hidden.to(device), per_range(ground)
    n = len(held.graphs) // held.copies
    sizes = torch.tensor([len(g.x) for g in held.graphs])
    graph = (torch.repeat_interleave(torch.arange(len(held.graphs)), sizes) % n).to(device)
    count = torch.zeros(n, dtype=torch.float64, device=device).index_add_(0, graph, hidden.sum(dim=1).double())
    asked = count > 0

    def rmse() -> float:
        squares = ((fill() - truth) * weight * hidden).double().square().sum(dim=1)
        total = torch.zeros_like(count).index_add_(0, graph, squares)
        return float((total[asked] / count[asked]).sqrt().mean())

    return rmse


def largest(graphs: Sequence[Data], most: int) -> int:
    """Nodes of the largest graph, ``most`` at most."""
    return min(most, max(len(g.x) for g in graphs))


def mean_weight(graphs: Sequence[Data]) -> float:
    """The mean weight of an edge; 1 where there is none."""
    weights = torch.cat([g.edge_weight for g in graphs])
    return float(weights.mean()) if weights.numel() else 1.0

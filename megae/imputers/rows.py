"""What the learnt methods that look at rows alone share: rows out of graphs, holes to learn from, held-out errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.imputers.build import column_of
from megae.imputers.neural import Ground
from megae.training.hiding import HidingRates, hide, step_generator
from megae.training.holdout import HeldOut

Fill = Callable[[list[Data]], Tensor]
"""Graphs whose ``x`` has NaN in its holes -> scaled values (N, E) over the nodes of all."""


def rows_of(graphs: Sequence[Data]) -> Tensor:
    """The rows of all graphs, one below the other: float64 (N, E) with NaN."""
    return torch.cat([g.x for g in graphs])


def blinded(graphs: Sequence[Data], visible: Tensor) -> list[Data]:
    """The graphs with NaN wherever ``visible`` (N, E) is False."""
    parts = visible.cpu().split([len(g.x) for g in graphs])
    return [
        Data(x=g.x.masked_fill(~v, torch.nan), edge_index=g.edge_index, edge_weight=g.edge_weight)
        for g, v in zip(graphs, parts, strict=True)
    ]


def missing_rates(observed: Tensor, ground: Ground) -> HidingRates | None:
    """How often to hide more cells until holes are as frequent as where they will be filled; None if they are.

    Complete training graphs have to be given holes to learn from; a table with holes of its own needs no more.

    Parameters
    ----------
    observed : bool Tensor of shape (N, E)
    """
    first = [c.start for c in ground.columns]
    there = 1 - observed[:, first].double().mean(dim=0).cpu().numpy()
    wanted = 1 - (1 - ground.rates.columns) * (1 - ground.rates.rows)
    share = np.clip((wanted - there) / np.maximum(1 - there, 1e-9) / wanted, 0.0, 1.0)
    if not (share > 0.5).any():
        return None
    return HidingRates(ground.rates.columns * share, ground.rates.rows * float(share.mean()))


def hide_more(observed: Tensor, ground: Ground, rates: HidingRates | None, step: int) -> Tensor:
    """What stays visible of ``observed`` (N, E) once cells are hidden at ``rates``."""
    if rates is None:
        return observed
    chance = torch.as_tensor(rates.columns, dtype=torch.float32, device=observed.device)
    column = column_of(ground.columns).to(observed.device)
    return observed & ~hide(observed, column, chance, rates.rows, step_generator(ground.seed, step, observed.device))


def fixed_holes(ground: Ground) -> Tensor:
    """Training cells that a method with one fixed table sees, (N, E): holes drawn once, no column loses its last."""
    observed = ground.division.trainable
    visible = hide_more(observed, ground, missing_rates(observed, ground), 0)
    lost = ~visible.any(dim=0)
    visible[:, lost] = observed[:, lost]
    return visible


def ranges(ground: Ground) -> np.ndarray:
    """Range of each encoded column over trainable cells, (E,); 1 where it does not vary."""
    x = np.where(ground.division.trainable.numpy(), rows_of(ground.division.train).numpy(), np.nan)
    span = np.nanmax(x, axis=0) - np.nanmin(x, axis=0)
    return np.where(span > 0, span, 1.0)


def examiner(ground: Ground, fill: Fill, most: int = 20_000) -> Callable[[], float] | None:
    """A function that returns the RMSE of ``fill`` on held-out cells, in ranges of the columns; None without any.

    Parameters
    ----------
    most : int
        Rows to look at; whole graphs, the first ones.
    """
    held = ground.division.validation
    if held is None:
        return None
    held = _some_graphs(held, most)
    given, truth = blinded(held.graphs, held.visible), rows_of(held.graphs)
    scale, unit = torch.from_numpy(ground.scaler.scale), torch.from_numpy(ranges(ground))
    shift = torch.from_numpy(ground.scaler.shift)

    def error() -> float:
        wrong = (fill(given).double().cpu() * scale + shift - truth) / unit
        return float(wrong[held.hidden].square().mean().sqrt())

    return error


def _some_graphs(held: HeldOut, most: int) -> HeldOut:
    sizes = np.cumsum([len(g.x) for g in held.graphs])
    k = max(1, int(np.searchsorted(sizes, most, side="right")))
    n = int(sizes[k - 1])
    if k == len(held.graphs) or not held.hidden[:n].any():
        return held
    return HeldOut(held.graphs[:k], held.visible[:n], held.hidden[:n])

"""Held-out observed cells for methods that look at rows alone and have one setting to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.data import Data

from megae.columns import Column
from megae.imputers.build import column_of, standardisation
from megae.training.hiding import rates_like_holes
from megae.training.holdout import divide


@dataclass(frozen=True)
class Choice:
    """Rows to learn from, and rows with cells to predict.

    Parameters
    ----------
    train : ndarray of shape (N, E), NaN where nothing may be seen
    asked : list of ndarrays of shape (M_i, E), one per graph, NaN where nothing may be seen
    truth : ndarray of shape (M, E)
    hidden : bool ndarray of shape (M, E), the cells that count
    unit : ndarray of shape (E,), what errors are divided by
    """

    train: np.ndarray
    asked: list[np.ndarray]
    truth: np.ndarray
    hidden: np.ndarray
    unit: np.ndarray

    def error(self, filled: np.ndarray) -> float:
        """RMSE of filled rows (M, E) on the hidden cells, in units of the columns' ranges."""
        return float(np.sqrt(np.mean((((filled - self.truth) / self.unit)[self.hidden]) ** 2)))


def hold_out(
    graphs: Sequence[Data], validation: Sequence[Data], columns: Sequence[Column], fraction: float, seed: int
) -> Choice | None:
    """Set cells aside the way holes fall (see :func:`megae.training.holdout.divide`); None where there are too few.

    Parameters
    ----------
    graphs, validation : Data whose ``x`` is (N_i, E) with NaN in holes
    columns : columns of the encoded table
    fraction : share of the graphs (many) or of the observed cells (few)
    """
    first = [c.start for c in columns]
    rates = rates_like_holes([g.x.numpy()[:, first] for g in [*graphs, *validation]], "auto")
    division = divide(graphs, validation, rates, column_of(columns), (fraction, 0.0), seed)
    held = division.validation
    if held is None:
        return None
    unit = standardisation(division.train, division.trainable, "standard", "range")[3]
    asked = _visible(held.graphs, held.visible)
    return Choice(
        _visible(division.train, division.trainable),
        np.split(asked, np.cumsum([len(g.x) for g in held.graphs])[:-1]),
        torch.cat([g.x for g in held.graphs]).numpy(),
        held.hidden.numpy(),
        unit,
    )


def _visible(graphs: Sequence[Data], visible: torch.Tensor) -> np.ndarray:
    return torch.cat([g.x for g in graphs]).masked_fill(~visible, torch.nan).numpy()

"""From a resolved configuration to a network: the parts that fitting and loading share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.columns import Column
from megae.models import FilterBank, OutputHead, PaperAutoencoder, WaveletAutoencoder
from megae.training.features import masked_inputs, plain_inputs, propagated_inputs, row_inputs
from megae.training.task import ImputationNetwork, Inputs


def seed_from(random_state: Any) -> int:
    """An integer seed out of an int, a RandomState, a Generator or None (fresh entropy); no global state is touched."""
    if random_state is None:
        return int(np.random.default_rng().integers(2**31 - 1))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state) % (2**31 - 1)
    raise ValueError(
        f"random_state must be a non-negative int, a RandomState, a Generator or None, got {random_state!r}"
    )


def column_of(columns: Sequence[Column]) -> Tensor:
    """Position of the column that each encoded column belongs to, (E,)."""
    return torch.from_numpy(np.concatenate([np.repeat(j, c.stop - c.start) for j, c in enumerate(columns)]))


def standardisation(
    graphs: Sequence[Data], trainable: Tensor, scaling: str, unit: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, shift, scale and unit of error of every encoded column, from trainable cells alone.

    Parameters
    ----------
    trainable : bool Tensor of shape (N, E)
    scaling : "standard" (mean, standard deviation) or "range" (minimum, maximum - minimum)
    unit : "range" or "std"

    Returns
    -------
    mean, shift, scale, unit : ndarrays of shape (E,); scale and unit are 1 for a column that does not vary
    """
    x = torch.cat([g.x for g in graphs]).numpy()
    x = np.where(trainable.numpy(), x, np.nan)
    mean, deviation = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    low, high = np.nanmin(x, axis=0), np.nanmax(x, axis=0)
    flat = deviation <= 1e-9 * np.abs(mean)
    span = np.where(flat, 1.0, high - low)
    deviation = np.where(flat, 1.0, deviation)
    shift, scale = (mean, deviation) if scaling == "standard" else (low, span)
    return mean, shift, scale, span if unit == "range" else deviation


def build_network(
    config: Mapping[str, Any],
    columns: Sequence[Column],
    shift: np.ndarray,
    scale: np.ndarray,
    unit: np.ndarray,
    binary_loss: str,
    by_graph: bool,
    use_graph: bool,
    filters: FilterBank,
    seed: int,
) -> ImputationNetwork:
    """A freshly initialised network; the same seed gives the same weights and no global state moves."""
    E = len(shift)
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(seed)
        if config["network"] == "paper":
            body: torch.nn.Module = PaperAutoencoder(E, filters, width=config["hidden"])
            columns = [replace(c, kind="continuous") for c in columns]
            inputs: Inputs = masked_inputs
        else:
            inputs = row_inputs
            if use_graph and by_graph:
                inputs = plain_inputs
            elif use_graph:
                inputs = partial(propagated_inputs, iterations=config["propagation"])
            body = WaveletAutoencoder(
                (3 if use_graph and by_graph else 2) * E,
                E,
                filters,
                width=config["hidden"],
                band_width=config["band_width"],
                blocks=config["blocks"],
                dropout=config["dropout"],
            )
        return ImputationNetwork(body, OutputHead(columns, shift, scale, unit, binary_loss), inputs)

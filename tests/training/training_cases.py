"""Small graphs and a small trainer, for the tests of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from megae.columns import Column
from megae.graphs import to_data
from megae.imputers.build import build_network, column_of, standardisation
from megae.imputers.presets import PRESETS
from megae.models import FilterBank
from megae.models.filters import make_frame
from megae.training.hiding import HidingRates
from megae.training.holdout import Division, divide
from megae.training.loop import Settings, Trainer
from megae.training.pool import GraphPool
from megae.training.task import Exam

CPU = torch.device("cpu")
COLUMNS = [Column("a", "continuous", 0, 1), Column("b", "categorical", 1, 4, categories=("x", "y", "z"))]


def ring(n: int) -> sp.csr_array:
    A = np.zeros((n, n))
    i = np.arange(n)
    A[i, (i + 1) % n] = 1.0
    return sp.csr_array(np.maximum(A, A.T) * (1 - np.eye(n)))


def graphs(k: int, n: int = 10, d: int = 3, rate: float = 0.2, seed: int = 0) -> list[Data]:
    """k rings of n, n + 1, ... nodes with smooth attributes and holes."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(k):
        size = n + i % 4
        angle = 2 * np.pi * np.arange(size)[:, None] / size
        x = np.cos(angle + np.arange(d) + rng.random()) + 0.05 * rng.standard_normal((size, d))
        x[rng.random(x.shape) < rate] = np.nan
        out.append(to_data(x, ring(size)))
    return out


def plain_columns(d: int) -> list[Column]:
    return [Column(f"c{j}", "continuous", j, j + 1) for j in range(d)]


def trainer(
    k: int = 2, n: int = 24, max_steps: int = 20, config: dict[str, Any] | None = None, **settings: Any
) -> tuple[Trainer, Division]:
    """A small network ready to train on k rings, and how their cells were divided."""
    members, columns = graphs(k, n), plain_columns(3)
    rates = HidingRates(np.full(3, 0.2))
    division = divide(members, [], rates, column_of(columns), (0.15, 0.15), seed=0)
    _, shift, scale, unit = standardisation(division.train, division.trainable, "standard", "range")
    small = {"hidden": 12, "band_width": 3, "blocks": 1, "dropout": 0.0}
    c = {**PRESETS["default"], **small, **(config or {})}
    bank = FilterBank.from_frame(make_frame("log", 4), 6)
    network = build_network(c, columns, shift, scale, unit, "brier", division.by_graph, True, bank, seed=0)
    held = division.validation
    assert held is not None
    exam = Exam(GraphPool(held.graphs, shift, scale, CPU), held.visible, held.hidden)
    chosen = Settings(
        **{
            "max_steps": max_steps,
            "learning_rate": 3e-3,
            "weight_decay": 1e-4,
            "gamma": 0.01,
            "batch_fraction": 1.0,
            "decay": 0.9,
            "jitter": 0.5,
            "gradient_clip": 1.0,
            "eval_every": 5,
            "patience": None,
            "time_budget": None,
            "seed": 0,
            "verbose": 0,
            **settings,
        }
    )
    pool = GraphPool(division.train, shift, scale, CPU)
    weight = scale / unit
    return Trainer(network, pool, division.trainable, column_of(columns), rates, exam, weight, chosen), division


def weights(t: Trainer) -> list[torch.Tensor]:
    return [w.detach().clone() for w in t.weights]

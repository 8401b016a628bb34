"""Intervals keep their promise on real data: pooled over five seeds, within two points of the coverage."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from megae_cases import megae
from torch_geometric.data import Data

from megae.datasets import load, split_indices

COVERAGES = (0.8, 0.9, 0.95)
SEEDS = range(5)


def with_holes(graph: Data, columns: slice, rate: float, rng: np.random.Generator) -> Data:
    x = graph.x.double()
    lost = torch.zeros(x.shape, dtype=torch.bool)
    lost[:, columns] = torch.from_numpy(rng.random(tuple(x[:, columns].shape)) < rate)
    return Data(x=x.masked_fill(lost, torch.nan), edge_index=graph.edge_index)


def pooled_coverage(graphs: list[Data], columns: slice, rate: float, n_train: int, steps: int) -> dict[float, float]:
    """Share of hidden test values inside their interval, over all seeds together."""
    inside: dict[float, list[np.ndarray]] = {c: [] for c in COVERAGES}
    for seed in SEEDS:
        rng = np.random.default_rng([seed, 1])
        train, judge, test = split_indices(len(graphs), random_state=seed)
        fitted = megae(hidden=32, band_width=6, blocks=1, max_steps=steps, learning_rate=3e-3, random_state=seed).fit(
            [with_holes(graphs[i], columns, 0.0, rng) for i in train[:n_train]],
            validation=[with_holes(graphs[i], columns, rate, rng) for i in judge],
        )
        chosen = test[:200]
        holed = [with_holes(graphs[i], columns, rate, rng) for i in chosen]
        truth = torch.cat([graphs[i].x.double() for i in chosen])
        lost = torch.isnan(torch.cat([g.x for g in holed]))
        for coverage in COVERAGES:
            lower, upper = (torch.cat([g.x for g in ends]) for ends in fitted.intervals(holed, coverage=coverage))
            inside[coverage].append(((lower <= truth) & (truth <= upper))[lost].numpy())
    return {c: float(np.concatenate(parts).mean()) for c, parts in inside.items()}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the (model|graph) does not help")
def test_coverage_on_digits():
    covered = pooled_coverage(load("digits"), slice(0, 1), 0.3, n_train=200, steps=100)
    assert all(abs(got - asked) < 0.02 for asked, got in covered.items()), covered


@pytest.mark.slow
@pytest.mark.data("ENZYMES")
@pytest.mark.filterwarnings("ignore:the (model|graph) does not help")
def test_coverage_on_enzymes():
    covered = pooled_coverage(load("ENZYMES"), slice(None), 0.1, n_train=420, steps=150)
    assert all(abs(got - asked) < 0.02 for asked, got in covered.items()), covered

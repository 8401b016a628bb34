"""Section by section: no registered method can tell what lies under its holes."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from imputer_cases import SMALL, same_bits
from torch_geometric.data import Data

from megae.bench.protocol import pose
from megae.bench.running import fill
from megae.bench.trials import Trial
from megae.datasets import load_digits_graphs
from megae.imputers import REGISTRY


def altered(graphs: list[Data], seed: int, rate: float) -> list[Data]:
    """The same graphs with other values under the holes that ``pose`` will punch."""
    _, answers = pose("digits", graphs, "mcar", rate, seed)
    out = [g.clone() for g in graphs]
    parts = [([0], answers.holes)]
    if not answers.single:
        parts = [(answers.parts[1], answers.validation_holes), (answers.parts[2], answers.holes)]
    for where, masks in parts:
        for i, holes in zip(where, masks, strict=True):
            out[i].x[torch.from_numpy(holes)] = 77.0
    return out


def one_graph() -> list[Data]:
    graph = load_digits_graphs()[0].clone()
    graph.x = graph.x + 0.01 * torch.randn(graph.x.shape, generator=torch.Generator().manual_seed(0))
    return [graph]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("graphs", [load_digits_graphs()[:25], one_graph()], ids=["many", "one"])
@pytest.mark.parametrize("method", sorted(REGISTRY))
def test_altering_hidden_truth_changes_no_bit(method, graphs):
    settings = {k: v for k, v in SMALL.get(method, {}).items() if k in inspect.signature(REGISTRY[method]).parameters}
    trial = Trial("digits", "mcar", 0.3, 0, method, settings)
    fills = []
    for truth in (graphs, altered(graphs, 0, 0.3)):
        task, _ = pose("digits", truth, "mcar", 0.3, 0)
        fills.append(fill(trial, task, "cpu").test)
    assert any(not np.array_equal(a.x, b.x) for a, b in zip(graphs, altered(graphs, 0, 0.3), strict=True))
    for a, b in zip(*fills, strict=True):
        assert same_bits(a, b)

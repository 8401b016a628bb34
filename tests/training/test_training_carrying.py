"""Shares of propagated values against least squares in numpy, and when they fill in place of a network."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from training_cases import CPU, graphs, plain_columns

from megae.graphs import knn_adjacency, to_data
from megae.imputers.build import build_network, column_of, standardisation
from megae.imputers.presets import PRESETS
from megae.models import FilterBank
from megae.models.filters import make_frame
from megae.training import carrying
from megae.training.carrying import BEFORE_TRAINING, carried_shares, carry_unless_better
from megae.training.hiding import HidingRates, hide, step_generator
from megae.training.holdout import neighbours
from megae.training.pool import GraphPool
from megae.training.task import Exam, ImputationNetwork

D = 3
RATES = HidingRates(np.full(D, 0.3), 0.1)
COLUMN = column_of(plain_columns(D))
WEIGHT = np.array([0.5, 1.0, 2.0])


@pytest.fixture(scope="module")
def pool() -> GraphPool:
    members = graphs(1, n=60, d=D, rate=0.7)
    observed = torch.isfinite(members[0].x)
    _, shift, scale, _ = standardisation(members, observed, "standard", "range")
    return GraphPool(members, shift, scale, CPU)


def dense_propagation(pool: GraphPool, z: np.ndarray, visible: np.ndarray, iterations: int) -> np.ndarray:
    """z_hole <- (S z)_hole with S as a dense matrix."""
    indptr, indices, values = pool.csr
    S = np.zeros((len(z), len(z)))
    for i in range(len(z)):
        for at in range(indptr[i], indptr[i + 1]):
            S[i, indices[at]] -= values[at]
    out = z.copy()
    for _ in range(iterations):
        out = np.where(visible, z, S @ out)
    return out


def test_shares_against_least_squares_cell_by_cell(pool, monkeypatch):
    monkeypatch.setattr(carrying, "ENOUGH_CELLS", 80)
    trainable = pool.whole.observed
    got = carried_shares(pool, trainable, COLUMN, RATES, WEIGHT, iterations=7, seed=5).numpy()
    thinned = 0.1 / (1 - 0.7 * 0.9)  # a draw hides a tenth at most
    hidden_share = 1 - (1 - 0.3 * thinned) * (1 - 0.1 * thinned)
    draws = int(np.ceil(80 / (hidden_share * int(trainable.sum()))))
    assert draws * hidden_share > 1
    truth = pool.whole.values.double().numpy()
    pairs = [[] for _ in range(D)]
    for draw in range(draws):
        generator = step_generator(5, BEFORE_TRAINING + draw, CPU)
        rates = torch.full((D,), 0.3 * thinned)
        hidden = hide(trainable, COLUMN, rates, 0.1 * thinned, generator).numpy()
        visible = trainable.numpy() & ~hidden
        for j in range(D):
            centre = truth[visible[:, j], j].mean()
            start = np.where(visible[:, j], truth[:, j] - centre, 0.0)
            p = dense_propagation(pool, start[:, None], visible[:, j : j + 1], 7)[:, 0]
            pairs[j] += [(p[i], truth[i, j] - centre) for i in np.flatnonzero(hidden[:, j])]
    once = draws * hidden_share
    both = np.array([sum(p * z for p, z in column) for column in pairs]) / once
    own = np.array([sum(p * p for p, _ in column) for column in pairs]) / once
    v = WEIGHT**2
    of_all = (v * both).sum() / ((v * own).sum() + 5.0 * v.mean())
    expected = (both + 50.0 * of_all) / (own + 50.0)
    assert np.allclose(got, expected, rtol=1e-4)
    assert (got > 0.1).all()


def network_and_exam(pool: GraphPool) -> tuple[ImputationNetwork, Exam]:
    c = {**PRESETS["default"], "hidden": 8, "band_width": 2, "blocks": 1, "propagation": 20}
    bank = FilterBank.from_frame(make_frame("log", 3), 4)
    ones, zeros = np.ones(D), np.zeros(D)
    network = build_network(c, plain_columns(D), zeros, ones, ones, "brier", False, True, bank, seed=0)
    observed = pool.whole.observed
    hidden = hide(observed, COLUMN, torch.full((D,), 0.4), 0.0, torch.Generator().manual_seed(3))
    return network, Exam(pool, observed & ~hidden, hidden)


class Knows(torch.nn.Module):
    """A body that says the truth plus noise of a given size."""

    def __init__(self, truth: torch.Tensor, noise: float) -> None:
        super().__init__()
        self.says = truth + noise * torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))

    def forward(self, x, operator):
        return self.says, []


@pytest.mark.parametrize(("noise", "carries"), [(0.01, False), (3.0, True)])
def test_shares_fill_unless_the_network_is_better(pool, noise, carries):
    network, exam = network_and_exam(pool)
    network.body = Knows(pool.whole.values, noise)
    before = network.predict(pool, exam.visible)
    shares = torch.tensor([0.9, 0.8, 0.7])
    assert carry_unless_better(network, shares, exam, WEIGHT) is carries
    after = network.predict(pool, exam.visible)
    if not carries:
        assert network.carried is None
        assert torch.equal(after, before)
        return
    z = (pool.whole.values * exam.visible).double().numpy()
    expected = dense_propagation(pool, z, exam.visible.numpy(), 20) * shares.numpy()
    assert np.allclose(after.numpy(), expected, atol=1e-5)


def test_a_network_as_good_as_the_shares_gives_way(pool):
    network, exam = network_and_exam(pool)
    shares = torch.zeros(D)
    assert carry_unless_better(network, shares, exam, WEIGHT)


def test_without_an_exam_the_shares_fill(pool):
    network, _ = network_and_exam(pool)
    shares = torch.tensor([0.9, 0.8, 0.7])
    assert carry_unless_better(network, shares, None, WEIGHT)
    assert network.carried is shares


def test_a_graph_made_of_the_values_is_made_anew_without_the_hidden_ones():
    """Noise tells nothing of its hidden cells; a graph that knows them joins rows like their own."""
    noise = np.random.default_rng(0).standard_normal((2000, 8))
    x = np.where(np.random.default_rng(1).random(noise.shape) < 0.9, np.nan, noise)
    known = to_data(x, knn_adjacency(x, 10))
    observed = torch.isfinite(known.x)
    _, shift, scale, _ = standardisation([known], observed, "standard", "range")

    def rewired(visible: torch.Tensor):
        return GraphPool(neighbours([known], visible, 10), shift, scale, CPU).whole.operator

    rates, column = HidingRates(np.full(8, 0.3)), column_of(plain_columns(8))
    fixed = partial(carried_shares, GraphPool([known], shift, scale, CPU), observed, column, rates, np.ones(8), 10, 0)
    assert fixed().mean() > 0.7
    assert fixed(rewired).abs().mean() < 0.3


def test_seeds_differ_and_repeat(pool):
    shares = partial(carried_shares, pool, pool.whole.observed, COLUMN, RATES, WEIGHT, 5)
    assert torch.equal(shares(seed=1), shares(seed=1))
    assert not torch.equal(shares(seed=1), shares(seed=2))

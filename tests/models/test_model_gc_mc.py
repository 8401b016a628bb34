"""GC-MC's levels, messages and decoder, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_cases import adjacency, operator
from torch.nn import functional as F

from megae.models.gc_mc import Levels, MatrixCompletionNetwork, neighbours

N, E, R = 9, 4, 3


def cells(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shown = torch.rand((N, E), generator=generator) < 0.7
    shown[0] = False
    return torch.randint(0, R, (N, E), generator=generator).double(), shown


def network(accumulation: str = "stack") -> MatrixCompletionNetwork:
    levels = Levels(np.tile([0.0, 1.0, 2.0], (E, 1)), np.tile([0.5, 1.5], (E, 1)), np.full(E, R))
    shares = np.tile([0.2, 0.3, 0.5], (E, 1))
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(0)
        net = MatrixCompletionNetwork(
            levels, shares, hidden=6, code=5, side_hidden=4, bases=2, dropout=0.0, accumulation=accumulation
        )
    return net.double().eval()


def test_few_distinct_values_are_levels_of_their_own():
    values = np.array([[0.0, 5.0], [1.0, 5.0], [1.0, 5.0], [0.0, 5.0]])
    levels = Levels.learn(values, np.ones((4, 2), bool), 10)
    assert levels.count.tolist() == [2, 1]
    assert levels.centres.tolist() == [[0.0, 1.0], [5.0, 5.0]]
    assert levels.thresholds[0, 0] == 0.5
    assert levels.thresholds[1, 0] == np.inf


def test_continuous_values_fall_into_bins_of_about_equal_mass():
    values = np.random.default_rng(0).standard_normal((1000, 1))
    levels = Levels.learn(values, np.ones((1000, 1), bool), 10)
    shares = levels.shares(values, np.ones((1000, 1), bool))
    assert levels.count.tolist() == [10]
    assert 0.05 < shares.min() <= shares.max() < 0.16
    level = np.searchsorted(levels.thresholds[0], values[:, 0])
    means = [values[level == r, 0].mean() for r in range(10)]
    np.testing.assert_allclose(levels.centres[0], means)


def test_a_value_that_fills_most_of_a_column_does_not_use_up_its_levels():
    rest = np.random.default_rng(0).random(100) + 1
    values = np.concatenate([np.zeros(900), rest])[:, None]
    levels = Levels.learn(values, np.ones_like(values, dtype=bool), 8)
    assert levels.count.tolist() == [8]
    assert levels.centres[0, 0] == 0.0
    assert (levels.centres[0, 1:] > 1).all()


def test_only_shown_values_make_levels():
    values = np.array([[0.0], [1.0], [7.0]])
    assert Levels.learn(values, np.array([[True], [True], [False]]), 5).centres.tolist() == [[0.0, 1.0]]


def test_expectation_is_the_mean_of_the_centres_under_the_softmax():
    net = network()
    scores = torch.log(torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]]], dtype=torch.float64))
    value = net.expectation(torch.cat([scores, scores], dim=1))
    np.testing.assert_allclose(value, [[0.75, 1.6, 0.75, 1.6]])


@pytest.mark.parametrize("accumulation", ["sum", "stack"])
def test_rows_add_up_one_message_per_shown_cell(accumulation):
    net, (values, shown), A = network(accumulation), cells(), adjacency(N)
    h = torch.zeros(N, 6, dtype=torch.float64)
    weights = E**0.5 * net.column_messages.detach()
    for i in range(N):
        for j in range(E):
            if shown[i, j]:
                r = int(values[i, j])
                if accumulation == "sum":
                    h[i] += weights[: r + 1, j].sum(dim=0) / shown[i].sum()
                else:
                    h[i, 2 * r : 2 * r + 2] += weights[r, j] / shown[i].sum()
    side = F.relu(net.side_row(neighbours(values * shown, shown.double(), operator(A))))
    expected = net.dense_row(torch.cat([F.relu(h), side], dim=1))
    torch.testing.assert_close(net.rows(values, shown, operator(A)), expected)


@pytest.mark.parametrize("accumulation", ["sum", "stack"])
def test_columns_hear_each_level_by_its_share(accumulation):
    net = network(accumulation).requires_grad_(False)
    net.shares.copy_(torch.rand((E, R), generator=torch.Generator().manual_seed(0)))
    h = torch.zeros(E, 6, dtype=torch.float64)
    weights = net.row_messages[:, 0]
    for j in range(E):
        for r in range(R):
            if accumulation == "sum":
                h[j] += net.shares[j, r] * weights[: r + 1].sum(dim=0)
            else:
                h[j, 2 * r : 2 * r + 2] += net.shares[j, r] * weights[r]
    expected = net.dense_column(torch.cat([F.relu(h), F.relu(net.side_column)], dim=1))
    torch.testing.assert_close(net.columns(), expected)


def test_filled_values_are_expectations_of_the_bilinear_scores():
    net, (values, shown), A = network().requires_grad_(False), cells(), adjacency(N)
    z, v = net.rows(values, shown, operator(A)), net.columns()
    out = net(values, shown, operator(A))
    for i in range(N):
        for j in range(E):
            Q = [sum(net.mixture[s, r] * net.bases[s] for s in range(2)) for r in range(R)]
            p = torch.softmax(torch.stack([z[i] @ Q[r] @ v[j] for r in range(R)]), dim=0)
            assert out[i, j].item() == pytest.approx(float(p[1] + 2 * p[2]))


def test_loss_is_the_mean_cross_entropy_of_asked_levels():
    net, (values, shown), A = network(), cells(), adjacency(N)
    asked = ~shown
    z, v = net.rows(values, shown, operator(A)), net.columns()
    scores = torch.einsum("sne,sr->ner", torch.stack([z @ P @ v.T for P in net.bases]), net.mixture)
    nll = -scores.log_softmax(dim=-1).gather(2, values.long().unsqueeze(2)).squeeze(2)
    torch.testing.assert_close(net.loss(values, shown, asked, operator(A)), nll[asked].mean())


def test_levels_a_column_does_not_have_get_no_mass():
    levels = Levels(
        np.array([[0.0, 1.0, 1.0], [0.0, 5.0, 9.0]]), np.array([[0.5, np.inf], [2.5, 7.0]]), np.array([2, 3])
    )
    net = MatrixCompletionNetwork(levels, np.full((2, 3), 1 / 3), hidden=6, code=5, side_hidden=4, dropout=0.0).eval()
    with torch.no_grad():
        net.mixture[:, 2] = 100.0
        out = net(torch.zeros(4, 2), torch.ones(4, 2, dtype=torch.bool), operator(adjacency(4), torch.float32))
    assert (out[:, 0] <= 1.0).all()
    assert out.isfinite().all()


def test_neighbours_are_means_of_what_neighbours_show():
    A = adjacency(N)
    values, shown = cells()
    out = neighbours(values * shown, shown.double(), operator(A))
    D = np.asarray(A.sum(axis=1)).ravel()
    S = A.toarray() / np.sqrt(np.outer(D, D).clip(1e-12))
    weight = S @ shown.double().numpy()
    mean = np.divide(S @ (values * shown).numpy(), weight, out=np.zeros_like(weight), where=weight > 0)
    np.testing.assert_allclose(out.numpy(), np.hstack([mean, weight]), atol=1e-12)

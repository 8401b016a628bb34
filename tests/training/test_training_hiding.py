"""What is hidden, and how often."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from megae.training.hiding import hide, rates_like_holes, step_generator

CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def within_binomial(count: int, n: int, p: float) -> bool:
    return abs(count - n * p) < 5 * np.sqrt(n * p * (1 - p)) + 1


def test_hidden_cells_are_observed_and_as_many_as_asked_for():
    observed = torch.rand((4000, 3), generator=generator(1)) < 0.7
    rates = torch.tensor([0.05, 0.3, 0.6])
    hidden = hide(observed, torch.arange(3), rates, 0.0, generator())
    assert not (hidden & ~observed).any()
    for j in range(3):
        n = int(observed[:, j].sum())
        assert within_binomial(int(hidden[:, j].sum()), n, float(rates[j]))


@pytest.mark.parametrize("jitter", [0.5, 1.5])
def test_jitter_multiplies_the_rates(jitter):
    observed = torch.ones((6000, 1), dtype=torch.bool)
    hidden = hide(observed, torch.arange(1), torch.tensor([0.4]), 0.0, generator(), jitter)
    assert within_binomial(int(hidden.sum()), 6000, 0.4 * jitter)


def test_never_quite_everything_is_hidden():
    observed = torch.ones((5000, 1), dtype=torch.bool)
    hidden = hide(observed, torch.arange(1), torch.tensor([0.9]), 0.0, generator(), 1.5)
    assert within_binomial(int(hidden.sum()), 5000, 0.95)


def test_one_hot_groups_are_hidden_as_one():
    observed = torch.ones((500, 5), dtype=torch.bool)
    column = torch.tensor([0, 1, 1, 1, 2])
    hidden = hide(observed, column, torch.tensor([0.3, 0.5, 0.2]), 0.0, generator())
    group = hidden[:, 1:4]
    assert torch.equal(group.any(dim=1), group.all(dim=1))
    assert 0 < int(group[:, 0].sum()) < 500
    assert not torch.equal(hidden[:, 0], hidden[:, 1])


def test_whole_rows_at_their_rate():
    observed = torch.ones((5000, 6), dtype=torch.bool)
    hidden = hide(observed, torch.arange(6), torch.full((6,), 0.05), 0.25, generator())
    assert within_binomial(int(hidden.all(dim=1).sum()), 5000, 0.25)


def test_generators_depend_on_seed_and_step_alone():
    def draw(seed: int, step: int) -> torch.Tensor:
        return torch.rand(4, generator=step_generator(seed, step, CPU))

    assert torch.equal(draw(3, 5), draw(3, 5))
    draws = [draw(s, t) for s in range(3) for t in range(3)]
    assert len({tuple(d.tolist()) for d in draws}) == 9


def test_rates_follow_the_holes():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 3))
    X[rng.random(4000) < 0.4, 0] = np.nan
    X[rng.random(4000) < 0.1, 1] = np.nan
    X[:400] = np.nan
    rates = rates_like_holes([X], "auto")
    assert rates.rows == pytest.approx(0.1)
    assert rates.columns[0] == pytest.approx(0.4, abs=0.03)
    assert rates.columns[1] == pytest.approx(0.1, abs=0.02)
    assert rates.columns[2] == pytest.approx(0.025, abs=0.005)  # a tenth of the mean over the others


def test_complete_training_graphs_do_not_dilute_the_rates():
    rng = np.random.default_rng(0)
    complete = [rng.standard_normal((50, 2)) for _ in range(40)]
    holed = [rng.standard_normal((50, 2)) for _ in range(10)]
    for X in holed:
        X[rng.random(50) < 0.3, 0] = np.nan
    assert rates_like_holes(complete + holed, "auto").columns[0] == pytest.approx(0.3, abs=0.06)


def test_without_holes_the_default_rate():
    rates = rates_like_holes([np.zeros((5, 2)), np.ones((3, 2))], "auto", default=0.15)
    assert np.array_equal(rates.columns, [0.15, 0.15])
    assert rates.rows == 0.0


def test_a_table_with_nothing_but_empty_rows_and_full_ones():
    X = np.ones((10, 2))
    X[:4] = np.nan
    rates = rates_like_holes([X], "auto", default=0.15)
    assert rates.rows == pytest.approx(0.4)
    assert np.array_equal(rates.columns, [0.15, 0.15])


def test_a_rate_by_hand():
    assert np.array_equal(rates_like_holes([np.full((4, 2), np.nan)], 0.3).columns, [0.3, 0.3])


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, 2])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(ValueError, match="hole_rate must be 'auto' or lie strictly between 0 and 1"):
        rates_like_holes([np.zeros((2, 2))], rate)

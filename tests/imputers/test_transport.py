"""The parts of OT imputation."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from torch_geometric.data import Data

from megae.imputers.transport import (
    ColumnModels,
    Deadline,
    Table,
    batch_size_for,
    draw,
    fill_beside,
    filled_in_time,
    make_divergence,
    typical_cost,
)
from megae.training.holdout import HeldOut


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_typical_cost_is_the_median_of_half_squared_distances():
    rows = torch.randn(60, 4, generator=generator(), dtype=torch.float64)
    cost = np.sort(np.repeat(pdist(rows.numpy(), "sqeuclidean") / 2, 2))
    assert typical_cost(rows, generator()) == pytest.approx(cost[(len(cost) - 1) // 2], rel=1e-6)
    assert typical_cost(torch.ones(5, 2), generator()) == 1.0


def test_batches_are_no_larger_than_half_of_the_rows():
    assert [batch_size_for(n, 128) for n in (1000, 256, 255, 24, 3, 1)] == [128, 128, 64, 8, 1, 1]


@pytest.mark.parametrize(("n", "size"), [(10, 10), (1000, 128), (600, 128)])
def test_draws_are_different_rows_all_equally_likely(n, size):
    g = generator()
    draws = torch.stack([draw(n, size, g, torch.device("cpu")) for _ in range(400)])
    assert all(len(d.unique()) == size for d in draws)
    counts = torch.bincount(draws.flatten(), minlength=n).double() / (400 * size / n)
    assert float(counts.std()) < 3 * (n / (400 * size)) ** 0.5
    assert float(draws.double().mean()) == pytest.approx((n - 1) / 2, rel=0.05)


def test_geomloss_and_our_own_divergence_are_interchangeable():
    pytest.importorskip("geomloss")
    x, y = torch.randn(2, 30, 4, generator=generator())
    own, theirs = (make_divergence(s, 0.5, 0.7)(x, y) for s in ("own", "geomloss"))
    torch.testing.assert_close(own, theirs, rtol=1e-4, atol=1e-4)


def test_missing_geomloss_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "geomloss", None)
    with pytest.raises(ImportError, match=r"pip install 'megae\[peers\]'"):
        make_divergence("geomloss", 0.5, 0.5)
    assert make_divergence("own", 0.5, 0.5) is not None


def test_only_holes_of_a_table_are_parameters():
    rows = torch.tensor([[1.0, torch.nan], [3.0, 4.0]])
    table = Table(rows, torch.full((2, 2), 9.0))
    assert torch.equal(table(), torch.tensor([[1.0, 9.0], [3.0, 4.0]]))
    table().sum().backward()
    assert torch.equal(table.values.grad, torch.tensor([[0.0, 1.0], [0.0, 0.0]]))


def test_new_rows_move_to_where_the_donors_are():
    g = generator()
    first = torch.randn(400, 1, generator=g)
    donors = torch.cat([first, 2 * first, -first], dim=1)
    rows = donors[:12] + 0.0
    truth = rows.clone()
    rows[::2, 1] = torch.nan
    filled = fill_beside(
        rows, donors[12:], torch.zeros(3), make_divergence("own", 0.2, 0.5),
        size=64, visits=100, learning_rate=0.05, noise=0.1, seed=0,
    )  # fmt: skip
    assert torch.equal(filled[1::2], truth[1::2])
    assert torch.equal(filled[:, [0, 2]], truth[:, [0, 2]])
    wrong = (filled - truth)[::2, 1].square().mean().sqrt()
    assert wrong < 0.5 * truth[::2, 1].square().mean().sqrt()


def test_new_rows_settle_within_the_time_there_is(ticking):
    """The clock looks twice in a step, so half an hour is fifteen steps of the hundred; the last are small ones."""
    g, rates = generator(), []
    donors = torch.randn(400, 3, generator=g)
    rows = donors[:12] + 0.0
    rows[::2, 1] = torch.nan
    step = torch.optim.RMSprop.step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.RMSprop, "step", lambda self: rates.append(self.param_groups[0]["lr"]) or step(self))
        filled = fill_beside(
            rows, donors[12:], torch.zeros(3), make_divergence("own", 0.2, 0.5),
            size=64, visits=100, learning_rate=0.05, noise=0.1, seed=0, time_budget=1800.0,
        )  # fmt: skip
    assert 10 < len(rates) < 20
    assert rates[0] > 0.045
    assert rates[-1] < 0.01
    assert filled.isfinite().all()


def held_out(sizes: list[int], hidden: list[int]) -> HeldOut:
    """Graphs of so many rows (n, 2); ``hidden`` cells of their first column."""
    graphs = [Data(x=torch.full((n, 2), float(k)), edge_index=torch.empty(2, 0)) for k, n in enumerate(sizes)]
    mask = torch.zeros(sum(sizes), 2, dtype=torch.bool)
    for k, n in enumerate(hidden):
        mask[sum(sizes[:k]) :][:n, 0] = True
    return HeldOut(graphs, ~mask, mask)


def test_without_a_deadline_the_first_graphs_are_filled_at_once():
    held, given = held_out([3, 4, 5, 6], [1, 1, 1, 1]), []

    def fill(graphs, seconds):
        given.append((graphs, seconds))
        return torch.cat([g.x for g in graphs])

    assert len(filled_in_time(held, 12, fill, None)) == 12
    assert len(filled_in_time(held, 1, fill, None)) == 3
    assert len(filled_in_time(held_out([3, 4, 5], [0, 1, 1]), 1, fill, None)) == 7, "something must be asked for"
    assert [len(graphs) for graphs, _ in given] == [3, 1, 2]
    assert all(seconds is None for _, seconds in given)
    assert torch.equal(given[0][0][1].x.isnan(), held.hidden[3:7])


def test_the_graph_at_which_time_runs_out_is_left_out(ticking):
    """Each fill takes ten minutes."""
    told = []

    def fill(graphs, seconds):
        told.append(seconds)
        ticking.looks += 10
        return graphs[0].x

    sizes = [3, 4, 5, 6]
    assert len(filled_in_time(held_out(sizes, [1, 1, 1, 1]), 100, fill, Deadline(1800.0))) == 7
    assert len(told) == 3
    assert 1800 > told[0] > told[1] > told[2] > 0
    assert len(filled_in_time(held_out(sizes, [1, 1, 1, 1]), 100, fill, Deadline(60.0))) == 3
    assert len(filled_in_time(held_out(sizes, [0, 0, 1, 1]), 100, fill, Deadline(60.0))) == 12
    assert len(filled_in_time(held_out(sizes, [1, 1, 1, 1]), 8, fill, Deadline(1e6))) == 7


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_column_model_sees_the_other_columns_alone(kind):
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        models = ColumnModels(torch.arange(4), kind)
    rows = torch.randn(9, 4, generator=generator(), requires_grad=True)
    (gradient,) = torch.autograd.grad(models.column(rows, 2).sum(), rows)
    assert gradient[:, 2].abs().max() < 1e-6
    assert gradient[:, [0, 1, 3]].abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_the_model_of_a_category_does_not_see_its_other_columns(kind):
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        models = ColumnModels(torch.tensor([0, 1, 1, 1, 2]), kind)
    rows = torch.randn(9, 5, generator=generator(), requires_grad=True)
    for j, seen in ((2, [0, 4]), (0, [1, 2, 3, 4])):
        (gradient,) = torch.autograd.grad(models.column(rows, j).sum(), rows)
        unseen = [k for k in range(5) if k not in seen]
        assert gradient[:, unseen].abs().max() < 1e-6
        assert (gradient[:, seen].abs().amax(dim=0) > 1e-4).all()


def test_a_sweep_fills_holes_in_turn():
    models = ColumnModels(torch.arange(2), "linear")
    with torch.no_grad():
        for model, weight in zip(models.models, ([5.0, 2.0], [3.0, 5.0]), strict=True):
            model[0].weight.copy_(torch.tensor([weight]))
            model[0].bias.fill_(1.0)
        rows = torch.tensor([[1.0, 1.0], [1.0, 1.0]])
        models.sweep(rows, [torch.tensor([0]), torch.tensor([0, 1])], [0, 1])
    torch.testing.assert_close(rows, torch.tensor([[3.0, 10.0], [1.0, 4.0]]))

"""Values in range and the loss of each kind of column, against arithmetic in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from model_cases import columns

from megae.models import OutputHead

KINDS = ("continuous", "binary", "categorical3", "count", "continuous")
MEAN = np.array([4.0, 0.3, 0.2, 0.5, 0.3, 2.5, -7.0])
SCALE = np.array([2.0, 0.458, 0.4, 0.5, 0.458, 1.5, 30.0])
UNIT = np.array([8.0, 1.0, 1.0, 1.0, 1.0, 6.0, 100.0])


def head(binary_loss: str = "brier", kinds=KINDS, which=slice(None)) -> OutputHead:
    return OutputHead(columns(*kinds), MEAN[which], SCALE[which], UNIT[which], binary_loss).double()


def restored(values: torch.Tensor) -> np.ndarray:
    return values.detach().numpy() * SCALE + MEAN


def raw(n: int = 40, size: float = 1.0, seed: int = 0) -> torch.Tensor:
    return size * torch.randn(n, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("binary_loss", ["brier", "cross-entropy"])
def test_zero_gives_the_column_means(binary_loss):
    values = head(binary_loss)(torch.zeros(3, 7, dtype=torch.float64))
    assert np.allclose(restored(values), MEAN, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 10.0, 1e4])
def test_ranges_hold_however_wild_the_output(size):
    x = restored(head()(raw(200, size)))
    assert np.isfinite(x).all()
    assert ((x[:, 1:5] >= -1e-6) & (x[:, 1:5] <= 1 + 1e-6)).all()
    assert (x[:, 5] >= -1e-6).all()
    assert np.allclose(x[:, 2:5].sum(axis=1), 1.0, atol=1e-6)


def test_links_against_numpy():
    o = raw()
    x = restored(head()(o))
    o = o.numpy()
    assert np.allclose(x[:, [0, 6]], MEAN[[0, 6]] + SCALE[[0, 6]] * o[:, [0, 6]], rtol=1e-6)
    assert np.allclose(x[:, 1], 1 / (1 + np.exp(-(math.log(0.3 / 0.7) + o[:, 1]))), atol=1e-6)
    softmax = np.exp(np.log(MEAN[2:5]) + o[:, 2:5])
    assert np.allclose(x[:, 2:5], softmax / softmax.sum(axis=1, keepdims=True), atol=1e-6)
    step = o[:, 5] * 1.5 / 2.5
    assert np.allclose(x[:, 5], 2.5 * np.where(step > 0, 1 + step, np.exp(np.minimum(step, 0))), atol=1e-6)


def test_unlinked_values_come_back():
    inside = head()(raw(200, 0.5, seed=4))
    again = head()(head().unlink(inside))
    near = np.isclose(restored(again), restored(inside), atol=1e-6)
    x = restored(inside)
    kept = (x > 0.1 * MEAN) & (x < 1 - 0.1 * (1 - MEAN))
    assert near[:, [0, 6]].all()
    assert near[kept[:, 1], 1].all()
    assert near[x[:, 5] > 0.25, 5].all()
    whole_group = kept[:, 2:5].all(axis=1)
    assert near[whole_group][:, 2:5].all()
    assert min(kept[:, 1].mean(), whole_group.mean()) > 0.5


def test_unlinked_values_out_of_bounds_come_back_inside():
    wild = 50 * raw(100, seed=5)
    x = restored(head()(head().unlink(wild)))
    assert ((x[:, 1:5] > 0) & (x[:, 1:5] < 1)).all()
    assert (x[:, 5] >= 0.25 - 1e-9).all()
    assert np.allclose(x[:, [0, 6]], restored(wild)[:, [0, 6]])


def test_recentred_head_is_one_made_with_those_means():
    other = np.array([5.0, 0.6, 0.1, 0.2, 0.7, 1.5, 3.0])
    moved = head()
    moved.recentre(other)
    made = OutputHead(columns(*KINDS), other, SCALE, UNIT, "brier").double()
    assert torch.allclose(moved(raw()), made(raw()), atol=1e-6)


def truth_and_hidden(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = np.stack([rng.normal(4, 2, 40), rng.random(40) < 0.3, *np.eye(3)[rng.integers(3, size=40)].T,
                  rng.poisson(2.5, 40), rng.normal(-7, 30, 40)], axis=1).astype(float)  # fmt: skip
    hidden = rng.random((40, 7)) < 0.4
    hidden[:, 3] = hidden[:, 4] = hidden[:, 2]
    return x, hidden


@pytest.mark.parametrize("binary_loss", ["brier", "cross-entropy"])
def test_loss_against_a_loop_over_the_cells(binary_loss):
    h, o = head(binary_loss), raw(seed=3)
    x, hidden = truth_and_hidden()
    values = h(o)
    got = float(h.loss(values, torch.from_numpy((x - MEAN) / SCALE), torch.from_numpy(hidden)))
    p = restored(values)
    typical = np.sqrt(np.mean((SCALE / UNIT) ** 2))
    squares, others, rooted = 0.0, 0.0, 0
    for i, j in zip(*hidden.nonzero(), strict=True):
        if j in (0, 6) or (j == 1 and binary_loss == "brier"):
            squares += ((p[i, j] - x[i, j]) / UNIT[j] / typical) ** 2
            rooted += 1
        elif j == 1:
            others -= x[i, 1] * math.log(p[i, 1]) + (1 - x[i, 1]) * math.log(1 - p[i, 1])
        elif j == 5:
            log_ratio = x[i, 5] * math.log(x[i, 5] / p[i, 5]) if x[i, 5] > 0 else 0.0
            others += 2 * MEAN[5] / SCALE[5] ** 2 * (log_ratio - x[i, 5] + p[i, 5])
        else:
            others -= x[i, j] * math.log(p[i, j])
    count = hidden.sum()
    expected = math.sqrt(squares / rooted) * rooted / count + others / count
    assert got == pytest.approx(expected, rel=1e-5)


def test_plain_loss_is_the_rmse_in_units_of_the_columns():
    h = OutputHead(columns("continuous", "continuous"), np.zeros(2), np.array([2.0, 3.0]), np.array([1.0, 6.0]))
    values = torch.tensor([[1.0, 5.0], [9.0, 2.0]])
    truth = torch.tensor([[0.0, 5.0], [4.0, 0.0]])
    hidden = torch.tensor([[True, False], [False, True]])
    typical = math.sqrt((2.0**2 + 0.5**2) / 2)
    expected = math.sqrt(((1.0 * 2.0) ** 2 + (2.0 * 0.5) ** 2) / 2) / typical
    assert float(h.loss(values, truth, hidden)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kinds", [("continuous",), KINDS])
def test_gradient_is_finite_at_zero_error_and_with_nothing_hidden(kinds):
    E = len(MEAN) if kinds is KINDS else 1
    h = head(kinds=kinds, which=slice(0, E))
    o = torch.zeros(5, E, dtype=torch.float64, requires_grad=True)
    for hidden in (torch.ones(5, E, dtype=torch.bool), torch.zeros(5, E, dtype=torch.bool)):
        values = h(o)
        loss = h.loss(values, values.detach(), hidden)
        (gradient,) = torch.autograd.grad(loss, o)
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()
    assert float(loss.detach()) == pytest.approx(0.0, abs=2e-6)


@pytest.mark.parametrize("size", [1e3, 1e8])
def test_gradient_is_finite_at_wild_outputs(size):
    h = head("cross-entropy").float()
    o = raw(size=size).float().requires_grad_()
    x, hidden = truth_and_hidden()
    h.loss(h(o), torch.from_numpy((x - MEAN) / SCALE).float(), torch.from_numpy(hidden)).backward()
    assert torch.isfinite(o.grad).all()


@pytest.mark.parametrize("binary_loss", ["brier", "cross-entropy"])
def test_gradcheck(binary_loss):
    h = head(binary_loss)
    x, hidden = truth_and_hidden()
    truth, mask = torch.from_numpy((x - MEAN) / SCALE)[:6], torch.from_numpy(hidden)[:6]
    o = raw(6, 0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda r: h.loss(h(r), truth, mask), (o,))


def test_cells_that_are_not_hidden_have_no_say():
    h, o = head(), raw()
    x, hidden = truth_and_hidden()
    truth, mask = torch.from_numpy((x - MEAN) / SCALE), torch.from_numpy(hidden)
    other = torch.where(mask, truth, truth + 5.0)
    assert torch.equal(h.loss(h(o), truth, mask), h.loss(h(o), other, mask))


def test_deviance_is_the_standardised_square_near_the_mean():
    h = head(kinds=("count",), which=slice(5, 6))
    o = torch.tensor([[1e-3]], dtype=torch.float64)
    loss = h.loss(h(o), torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.bool))
    assert float(loss) == pytest.approx(1e-6, rel=1e-2)


def test_an_unknown_loss_is_refused():
    with pytest.raises(ValueError, match="binary_loss must be 'brier' or 'cross-entropy', got 'hinge'"):
        head("hinge")

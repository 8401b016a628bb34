"""Hints, losses and networks of GAIN against sums done by hand."""

from __future__ import annotations

import math

import pytest
import torch

from megae.models.gain import (
    Perceptron,
    adversarial_loss,
    all_but_one,
    discriminator_loss,
    hint_vector,
    reconstruction_loss,
)


def test_statistics_of_the_hint():
    generator = torch.Generator().manual_seed(0)
    mask = (torch.rand(4000, 20, generator=generator) < 0.7).float()
    told = (torch.rand(4000, 20, generator=generator) < 0.9).float()
    code, paper = hint_vector(mask, told, "code"), hint_vector(mask, told, "paper")
    assert set(code.unique().tolist()) == {0.0, 1.0}
    assert set(paper.unique().tolist()) == {0.0, 0.5, 1.0}
    assert (code[mask == 0] == 0).all()
    assert float(code[mask == 1].mean()) == pytest.approx(0.9, abs=0.01)
    assert float((paper == 0.5).float().mean()) == pytest.approx(0.1, abs=0.01)
    assert torch.equal(paper[told == 1], mask[told == 1])


def test_the_hint_of_the_paper_leaves_out_one_column_of_each_row():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        told = all_but_one(6000, torch.arange(5))
    assert set(told.unique().tolist()) == {0.0, 1.0}
    assert (told.sum(dim=1) == 4).all()
    assert (1 - told).mean(dim=0).tolist() == pytest.approx([0.2] * 5, abs=0.02)
    mask = (torch.rand(6000, 5, generator=torch.Generator().manual_seed(1)) < 0.7).float()
    hint = hint_vector(mask, told, "paper")
    assert ((hint == 0.5).sum(dim=1) == 1).all()
    assert torch.equal(hint[told == 1], mask[told == 1])


def test_the_columns_of_a_category_are_left_out_together():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        told = all_but_one(6000, torch.tensor([0, 1, 1, 1, 2]))
    assert torch.equal(told[:, 1], told[:, 2])
    assert torch.equal(told[:, 1], told[:, 3])
    columns = told[:, [0, 1, 4]]
    assert (columns.sum(dim=1) == 2).all()
    assert (1 - columns).mean(dim=0).tolist() == pytest.approx([1 / 3] * 3, abs=0.02)
    assert not all_but_one(3, torch.zeros(2, dtype=torch.int64)).any(), "a table of one column has nothing to tell"


def test_losses_by_hand():
    logits = torch.tensor([[0.0, math.log(3.0)], [-math.log(3.0), 0.0]])  # D = 1/2, 3/4, 1/4, 1/2
    mask = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    log = math.log
    assert float(discriminator_loss(logits, mask)) == pytest.approx(-(log(0.5) + log(0.25) + log(0.75) + log(0.5)) / 4)
    assert float(adversarial_loss(logits, mask)) == pytest.approx(-(log(0.75) + log(0.25)) / 4)
    untold = torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    assert float(adversarial_loss(logits, mask, untold)) == pytest.approx(-log(0.75) / 2)
    assert float(discriminator_loss(logits, mask, untold)) == pytest.approx(-(log(0.5) + log(0.25)) / 2)
    made, values = torch.tensor([[1.0, 9.0], [9.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    assert float(reconstruction_loss(made, values, mask)) == pytest.approx((1 + 4) / 2)


def test_losses_without_a_cell_to_count_are_zero():
    nothing = torch.zeros(2, 2)
    assert float(reconstruction_loss(torch.ones(2, 2), nothing, nothing)) == 0.0
    assert float(adversarial_loss(torch.ones(2, 2), nothing, nothing)) == 0.0


def test_weights_start_with_the_variance_of_the_authors():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        net = Perceptron(100, 300)
    first = net.layers[0]
    assert first.weight.shape == (300, 200)
    assert float(first.weight.detach().std()) == pytest.approx((2 / 200) ** 0.5, rel=0.02)
    assert not first.bias.any()
    assert net(torch.zeros(7, 100), torch.zeros(7, 100)).shape == (7, 100)

"""Acyclicity, moments, multipliers and sub-networks of MIRACLE against dense and hand-made twins."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.linalg import expm
from torch.nn.functional import elu

from megae.models.miracle import CausalNetwork, Multiplier, acyclicity, missingness, moment_gap, reconstruction


def network(width: int = 5, hidden: int = 4) -> CausalNetwork:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        net = CausalNetwork(torch.arange(width), hidden)
        with torch.no_grad():
            net.first.normal_()
            net.last_bias.normal_()
    return net


def test_acyclicity_is_the_dense_exponential():
    W = np.random.default_rng(0).standard_normal((7, 7)) * 0.6
    assert float(acyclicity(torch.from_numpy(W))) == pytest.approx(np.trace(expm(W * W)) - 7, rel=1e-10)


def test_acyclicity_is_zero_on_a_dag_and_only_there():
    rng = np.random.default_rng(1)
    W = np.triu(rng.standard_normal((9, 9)), 1)
    order = rng.permutation(9)
    dag = torch.from_numpy(W[np.ix_(order, order)])
    assert float(acyclicity(dag)) == pytest.approx(0.0, abs=1e-10)
    cyclic = dag.clone()
    child, parent = dag.nonzero()[0].tolist()
    cyclic[parent, child] = 0.5
    assert float(acyclicity(cyclic)) > 1e-3


def test_acyclicity_of_the_m_graph_needs_the_columns_alone():
    norms = network().norms().detach()  # (5, 10): columns as parents of columns and of indicators
    whole = torch.zeros(10, 10)
    whole[:5] = norms
    assert float(acyclicity(whole)) == pytest.approx(float(acyclicity(norms[:, :5])), rel=1e-5)
    assert norms[:, 5:].gt(0).all()


def test_no_column_sees_itself():
    net = network()
    assert not net.norms().diagonal().any()
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    for j in range(5):
        (gradient,) = torch.autograd.grad(net(x)[:, j].sum(), x)
        assert not gradient[:, j].any()
        assert gradient[:, [k for k in range(5) if k != j]].ne(0).all()
        (gradient,) = torch.autograd.grad(net(x)[:, 5 + j].sum(), x)
        assert gradient[:, j].ne(0).all()


def test_the_columns_of_a_category_are_no_parents_of_each_other():
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        net = CausalNetwork(torch.tensor([0, 1, 1, 2]), 4)
    apart = torch.tensor([[0.0, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 0]])
    assert torch.equal((net.norms()[:, :4] > 0).float(), apart)
    assert net.norms()[:, 4:].gt(0).all(), "all of them may be causes of what goes missing"


def test_heads_are_sub_networks_of_their_own():
    net = network()
    x = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    out = net(x)
    for o in (0, 3, 8):
        W = net.first[:, o].clone()
        if o < 5:
            W[o] = 0.0
        hidden = elu(net.shared(elu(x @ W + net.first_bias[o])))
        torch.testing.assert_close(out[:, o], hidden @ net.last[o] + net.last_bias[o])
    torch.testing.assert_close(net(x, 5), out[:, :5])


def test_moment_gap_by_hand():
    target = torch.tensor([[2.0, 5.0], [4.0, 5.0], [9.0, 5.0]])
    observed = torch.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 1.0]])
    values = torch.tensor([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    chance = torch.tensor([0.8, 0.4, 0.5])
    logits = torch.logit(chance).unsqueeze(1).repeat(1, 2)
    p = (chance + 0.01) / 1.02
    whole = (2 / p[0] + 4 / p[1]) / (1 / p[0] + 1 / p[1])
    first = float((2.0 - whole) ** 2)
    both = moment_gap(values, logits, target, observed, torch.tensor([1.0, 1.0]))
    assert float(both) == pytest.approx(first + 4.0, rel=1e-5)
    assert float(moment_gap(values, logits, target, observed, torch.tensor([1.0, 0.0]))) == pytest.approx(first)


def test_inverse_probabilities_undo_selection():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200_000, 1, generator=generator)
    logits = 1.5 * x
    observed = (torch.rand(x.shape, generator=generator) < torch.sigmoid(logits)).float()
    naive = float((x * observed).sum() / observed.sum())
    gap = float(moment_gap(torch.zeros_like(x), logits, x, observed, torch.ones(1))) ** 0.5
    assert naive > 0.4
    assert gap < 0.1


def test_errors_count_observed_cells_and_columns_with_holes():
    values, target = torch.ones(2, 2), torch.zeros(2, 2)
    observed = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    assert float(reconstruction(3 * values, target, observed)) == pytest.approx((9 + 18) / 2)
    right = missingness(torch.zeros(2, 2), observed, torch.tensor([0.0, 1.0]))
    assert float(right) == pytest.approx(np.log(2))


def test_multipliers_rise_while_h_does_not_fall():
    multiplier = Multiplier(most=50.0)
    assert float(multiplier.penalty(torch.tensor(2.0))) == pytest.approx(0.5 * 4 + 2)
    multiplier.ascend(2.0)
    assert (multiplier.alpha, multiplier.rho) == (3.0, 1.0)
    multiplier.ascend(1.0)
    assert (multiplier.alpha, multiplier.rho) == (4.0, 10.0)
    multiplier.ascend(0.1)
    assert (multiplier.alpha, multiplier.rho) == (5.0, 10.0)
    multiplier.ascend(0.1)
    assert multiplier.rho == 50.0

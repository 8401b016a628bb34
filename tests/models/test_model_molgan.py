"""The pieces of MolGAN: the penalty by hand, edges that can be drawn, a critic that reads graphs as sets of nodes."""

from __future__ import annotations

import math

import pytest
import torch

from megae.models.molgan import Critic, Generator, RelationalConvolutions, drawn_edges, gradient_penalty


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def graph(B: int, n: int, E: int) -> tuple[torch.Tensor, torch.Tensor]:
    A = (drawn(B, n, n, seed=7) > 0).float().triu(1)
    return A + A.transpose(1, 2), drawn(B, n, E, seed=8)


def test_penalty_of_a_linear_critic_is_its_norm_less_one_squared():
    """D(A, x) = <U, A> + <V, x> has gradient (U, V) everywhere: 3-4-12 gives norm 13, penalty 144."""
    U, V = torch.zeros(2, 2), torch.zeros(2, 3)
    U[0, 1], U[1, 0], V[1, 2] = 3.0, 4.0, 12.0
    pair = (drawn(5, 2, 2), drawn(5, 2, 3)), (drawn(5, 2, 2, seed=1), drawn(5, 2, 3, seed=2))
    penalty = gradient_penalty(lambda A, x: (A * U).sum((1, 2)) + (x * V).sum((1, 2)), *pair, torch.rand(5))
    assert penalty.item() == pytest.approx(144.0, rel=1e-5)


def test_penalty_is_taken_between_real_and_fake():
    """D = |x|^2 / 2 has gradient x: at share 1 that is the real graph, at share 0 the fake one."""
    real, fake = (torch.zeros(1, 1, 1), torch.full((1, 1, 1), 3.0)), (torch.zeros(1, 1, 1), torch.full((1, 1, 1), 6.0))

    def half_square(A: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return x.square().sum((1, 2)) / 2 + 0 * A.sum((1, 2))

    for share, expected in ((1.0, 4.0), (0.0, 25.0), (0.5, 12.25)):
        assert gradient_penalty(half_square, real, fake, torch.tensor([share])).item() == pytest.approx(
            expected, rel=1e-5
        )


def test_penalty_reaches_the_weights_of_the_critic():
    critic = Critic(3, minibatch=True)
    filled = torch.ones(4, 5, dtype=torch.bool)
    real, fake = graph(4, 5, 3), (torch.rand(4, 5, 5), drawn(4, 5, 3))
    gradient_penalty(lambda A, x: critic(A, x, filled), real, fake, torch.rand(4)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for n, p in critic.named_parameters() if n != "out.bias")


@pytest.mark.parametrize("minibatch", [True, False])
def test_critic_sees_neither_order_nor_empty_places(minibatch):
    critic, (A, x) = Critic(2, minibatch=minibatch), graph(1, 5, 2)
    A[:, 4], A[:, :, 4] = 0.0, 0.0
    filled = torch.tensor([[True] * 4 + [False]])
    out = critic(A, x, filled)
    order = torch.tensor([2, 0, 3, 1, 4])
    moved = x[:, order].clone()
    moved[:, 4] = 50.0
    torch.testing.assert_close(critic(A[:, order][:, :, order], moved, filled), out)
    assert not torch.allclose(critic(1 - A, x, filled), out)


def test_only_minibatch_discrimination_looks_at_other_graphs():
    A, x = graph(3, 4, 2)
    filled = torch.ones(3, 4, dtype=torch.bool)
    alone, together = Critic(2, minibatch=False), Critic(2, minibatch=True)
    torch.testing.assert_close(alone(A, x, filled)[:1], alone(A[:1], x[:1], filled[:1]))
    assert not torch.allclose(together(A, x, filled)[:1], together(A[:1], x[:1], filled[:1]))


def test_relational_convolution_is_the_papers_layer():
    layer, (A, x) = RelationalConvolutions(3, (4,), 5), graph(1, 6, 3)
    degree = A[0].sum(dim=1, keepdim=True).clamp_min(1)
    h = torch.tanh(layer.own[0](x[0]) + A[0] @ layer.joined[0](x[0]) / degree)
    both = torch.cat([h, x[0]], dim=1)
    said = torch.sigmoid(layer.pooling.gate(both)) * torch.tanh(layer.pooling.content(both))
    torch.testing.assert_close(layer(x, A, torch.ones(1, 6, dtype=torch.bool))[0], torch.tanh(said.sum(dim=0)))


@pytest.mark.parametrize("how", ["soft", "gumbel", "hard"])
def test_drawn_edges_are_symmetric_and_without_loops(how):
    logits = drawn(2, 6, 6, 2)
    logits = ((logits + logits.transpose(1, 2)) / 2).requires_grad_()
    edges = drawn_edges(logits, how)
    assert torch.equal(edges, edges.transpose(1, 2))
    assert edges.diagonal(dim1=1, dim2=2).eq(0).all()
    assert not (how == "hard" and ((edges != 0) & (edges != 1)).any())
    (edges * drawn(2, 6, 6)).sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum() > 0


def test_gumbel_draws_have_the_chance_the_logits_say():
    logits = torch.tensor([0.0, math.log(3.0)]).expand(1, 120, 120, 2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        share = drawn_edges(logits, "hard").sum() / (120 * 119)
    assert abs(share - 0.75) < 0.02


def test_what_is_visible_within_two_edges_reaches_a_node_that_shows_nothing():
    """On a path, with what a place and the summary say silenced."""
    model = Generator(2, 5, noise=3, node_width=8)
    torch.nn.init.zeros_(model.nodes.weight)
    A, x = torch.diag(torch.ones(4), 1).unsqueeze(0), drawn(1, 5, 2, seed=8)
    visible = torch.ones(1, 5, 2, dtype=torch.bool)
    visible[:, 0] = False
    rest = visible, A + A.transpose(1, 2), torch.ones(1, 5, dtype=torch.bool)
    first = model(drawn(1, 3), x, *rest)[1][0, 0]
    for far, reaches in ((0, False), (1, True), (2, True), (3, False)):
        changed = x.clone()
        changed[:, far] += 1
        assert torch.equal(model(drawn(1, 3), changed, *rest)[1][0, 0], first) != reaches


def test_generator_listens_to_noise_graph_and_visible_cells_alone():
    model, (A, x) = Generator(2, 6, noise=3, node_width=8), graph(1, 5, 2)
    z, visible, filled = drawn(1, 3), drawn(1, 5, 2, seed=3) > 0, torch.ones(1, 5, dtype=torch.bool)
    logits, out = model(z, x, visible, A, filled)
    assert logits.shape == (1, 5, 5, 2)
    assert torch.equal(logits, logits.transpose(1, 2))
    same = model(z, torch.where(visible, x, 77.0), visible, A, filled)
    assert torch.equal(same[1], out)
    for other in (
        model(z + 1, x, visible, A, filled),
        model(z, x, visible, 1 - A, filled),
        model(z, x + 1, visible, A, filled),
    ):
        assert not torch.allclose(other[1], out)

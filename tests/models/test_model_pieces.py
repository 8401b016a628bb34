"""Layers run in pieces: the same values and gradients, without keeping what is inside."""

from __future__ import annotations

import threading

import pytest
import torch
from model_cases import adjacency, bank, operator, stirred

from megae.kernels.threads import with_threads
from megae.models import WaveletAutoencoder, pieces
from megae.models.pieces import by_rows, uniform


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "WHOLE", 10)
    monkeypatch.setattr(pieces, "PIECE", {"cpu": 4})


def network(dropout: float = 0.0) -> WaveletAutoencoder:
    body = WaveletAutoencoder(6, 3, bank(), width=8, band_width=2, blocks=2, dropout=dropout)
    stirred(body)
    return body


def run(body: WaveletAutoencoder, n: int) -> list[torch.Tensor]:
    """Outputs, latent codes and gradients of a loss that reads both."""
    x = torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    body.zero_grad()
    out, codes = body(x, operator(adjacency(n)))
    (out.square().sum() + sum(Z.pow(3).sum() for Z in codes)).backward()
    return [out, *codes, x.grad, *(w.grad for w in body.parameters())]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n", [11, 12, 29])
def test_pieces_change_neither_values_nor_gradients(n, threads, request):
    whole = run(network(), n)
    request.getfixturevalue("small_pieces")
    with with_threads(threads):
        for a, b in zip(whole, run(network(), n), strict=True):
            assert torch.allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("small_pieces")
def test_threads_take_pieces_in_turn():
    seen: dict[int, list[float]] = {}

    def mine(x: torch.Tensor) -> torch.Tensor:
        seen.setdefault(threading.get_ident(), []).append(float(x[0]))
        return x

    with with_threads(2):
        by_rows(mine, torch.arange(30.0))
    assert sorted(seen.values()) == [[0.0, 8.0, 16.0, 24.0], [4.0, 12.0, 20.0, 28.0]]
    seen.clear()
    with with_threads(2), torch.autocast("cpu"):
        by_rows(mine, torch.arange(30.0))
    assert len(seen) == 1, "other threads would not know of the autocast"


@pytest.mark.usefixtures("small_pieces")
def test_draws_are_the_same_whatever_the_threads_and_differ_from_piece_to_piece():
    x, drawn = torch.zeros(30), []
    for threads in (1, 2, 5):
        torch.manual_seed(3)
        with with_threads(threads):
            drawn.append(by_rows(uniform, x))
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])
    assert len(set(drawn[0].tolist())) == 30
    torch.manual_seed(3)
    first, second = by_rows(uniform, x), by_rows(uniform, x)
    assert not torch.equal(first, second)


@pytest.mark.usefixtures("small_pieces")
def test_dropout_draws_the_same_again_on_the_way_back():
    body, h = network(dropout=0.5).train(), 1e-6
    state = torch.random.get_rng_state()
    x = torch.randn(13, 6, dtype=torch.float64)
    graph = operator(adjacency(13))

    def loss() -> torch.Tensor:
        torch.random.set_rng_state(state)
        return body(x, graph)[0].square().sum()

    body.zero_grad()
    loss().backward()
    weight, grad = body.embed.weight, body.embed.weight.grad
    with torch.no_grad():
        weight[0, 0] += h
        above = loss()
        weight[0, 0] -= 2 * h
        below = loss()
        weight[0, 0] += h
    assert float(grad[0, 0]) == pytest.approx(float(above - below) / (2 * h), rel=1e-5)


@pytest.mark.usefixtures("small_pieces")
def test_nothing_inside_a_piece_is_kept():
    def kept(n: int) -> set[tuple[int, ...]]:
        shapes: set[tuple[int, ...]] = set()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: shapes.add(tuple(t.shape)) or t, lambda t: t):
            network()(torch.randn(n, 6, dtype=torch.float64), operator(adjacency(n)))
        return shapes

    assert (9, 16) in kept(9)  # twice the width, inside a perceptron
    assert not any(len(shape) > 1 and shape[-1] == 16 and shape[0] != 8 for shape in kept(13))


@pytest.mark.usefixtures("small_pieces")
def test_several_outputs_and_no_gradient():
    x = torch.arange(25.0)
    with torch.no_grad():
        double, square = by_rows(lambda t: (2 * t, t * t), x)
    assert torch.equal(double, 2 * x)
    assert torch.equal(square, x * x)


@pytest.mark.usefixtures("small_pieces")
def test_frozen_weights_and_inputs_get_no_gradient():
    layer, x, z = torch.nn.Linear(3, 3), torch.randn(20, 3), torch.randn(20, 3, requires_grad=True)
    layer.bias.requires_grad_(False)
    by_rows(lambda x, z: layer(x) * z, x, z, of=(layer,)).sum().backward()
    assert x.grad is None
    assert layer.bias.grad is None
    assert torch.allclose(z.grad, layer(x), atol=1e-6)
    assert torch.allclose(layer.weight.grad, z.detach().T @ x, atol=1e-5)

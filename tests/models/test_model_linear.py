"""Linear maps by oneDNN against torch's own, and batches filled up with rows that change nothing."""

from __future__ import annotations

import pytest
import torch
from model_cases import adjacency, bank, operator, stirred
from torch.nn import functional as F

from megae.models import WaveletAutoencoder, autoencoder, linear
from megae.models.linear import Linear

needs_onednn = pytest.mark.skipif(not linear._has_onednn(), reason="this CPU has no AVX-512, or torch no oneDNN")


@pytest.fixture
def products(monkeypatch) -> list[tuple[int, ...]]:
    """Sends the smallest product to oneDNN, and tells the shapes that went there."""
    monkeypatch.setattr(linear, "SMALL", 1)
    found, inner = [], linear._Product.apply

    def noted(x, weight, bias):
        found.append((*x.shape, weight.shape[0]))
        return inner(x, weight, bias)

    monkeypatch.setattr(linear._Product, "apply", noted)
    return found


def given(n: int, i: int, o: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in ((n, i), (o, i), (o,))]


@needs_onednn
@pytest.mark.parametrize(("n", "i", "o"), [(1, 1, 1), (7, 3, 5), (130, 64, 33), (50, 20, 90)])
@pytest.mark.parametrize("biased", [True, False])
def test_values_and_gradients_are_those_of_torch(products, n, i, o, biased):
    x, weight, bias = given(n, i, o)
    inputs = [x, weight, bias] if biased else [x, weight]
    upstream = torch.randn(n, o, generator=torch.Generator().manual_seed(1))
    found, expected = linear.linear(*inputs), F.linear(*(t.double() for t in inputs))
    assert products[0] == (n, i, o)
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-5)
    backward = torch.autograd.grad(found, inputs, upstream)
    for got, want in zip(backward, torch.autograd.grad(expected, inputs, upstream.double()), strict=True):
        assert got.is_contiguous()
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert len(products) == 3, "forward, to x and to the weights"


@needs_onednn
@pytest.mark.usefixtures("products")
def test_gradients_of_gradients_are_those_of_torch():
    def twice(f) -> list[torch.Tensor]:
        x, weight, bias = given(9, 4, 6)
        (slope,) = torch.autograd.grad(f(x, weight, bias).pow(3).sum(), x, create_graph=True)
        return list(torch.autograd.grad(slope.square().sum(), [x, weight, bias]))

    for got, want in zip(twice(linear.linear), twice(F.linear), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-2)


@needs_onednn
def test_torch_settings_count(products):
    x, weight, bias = given(8, 4, 4)
    with torch.backends.mkldnn.flags(enabled=False):
        linear.linear(x, weight, bias)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear.linear(x, weight, bias).dtype == torch.bfloat16
    torch.set_float32_matmul_precision("medium")
    try:
        linear.linear(x, weight, bias)
    finally:
        torch.set_float32_matmul_precision("highest")
    linear.linear(x.double(), weight.double(), bias.double())
    linear.linear(x.unsqueeze(0), weight, bias)
    assert products == []
    linear.linear(x, weight, bias)
    assert products == [(8, 4, 4)]


def test_small_products_and_other_processors_stay_with_torch(monkeypatch):
    x, weight, bias = given(8, 4, 4)
    assert torch.equal(linear.linear(x, weight, bias), F.linear(x, weight, bias))
    monkeypatch.setattr(linear, "SMALL", 1)
    monkeypatch.setattr(linear, "_has_onednn", lambda: False)
    assert torch.equal(linear.linear(x, weight, bias), F.linear(x, weight, bias))
    assert linear.even_rows(8, weight) == 8


def test_weights_are_those_of_torch():
    torch.manual_seed(0)
    ours = Linear(5, 3)
    torch.manual_seed(0)
    theirs = torch.nn.Linear(5, 3)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("n", [1, 63, 64, 65])
@pytest.mark.parametrize("edges", [True, False])
def test_rows_that_fill_a_batch_up_change_nothing(monkeypatch, n, edges):
    body = stirred(WaveletAutoencoder(6, 3, bank(), width=8, band_width=2, blocks=2))
    graph = operator(adjacency(n) if edges else 0 * adjacency(n))
    x = torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()

    def run() -> list[torch.Tensor]:
        body.zero_grad()
        out, codes = body(x, graph)
        slope = torch.autograd.grad(out.square().sum() + sum(Z.pow(3).sum() for Z in codes), [x, *body.parameters()])
        return [out, *codes, *slope]

    alone, seen = run(), []
    monkeypatch.setattr(autoencoder, "even_rows", lambda n, weight: -(-n // 64) * 64 + 64)
    inner = WaveletAutoencoder._through
    monkeypatch.setattr(WaveletAutoencoder, "_through", lambda self, x, op: seen.append(op.n) or inner(self, x, op))
    for a, b in zip(alone, run(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)
    assert seen == [-(-n // 64) * 64 + 64]

"""The two networks: equation by equation, at the start, under permutation, graph by graph."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from model_cases import adjacency, bank, laplacian, operator, stirred

from megae.kernels import chebyshev_response
from megae.models import FilterBank, PaperAutoencoder, WaveletAutoencoder
from megae.models.autoencoder import BandLinear, WaveletBlock
from megae.models.filters import DECODERS, FRAMES, make_frame, polynomial_quality
from megae.spectral import chebyshev_coefficients


def dense_polynomials(A: sp.csr_array, C: torch.Tensor) -> np.ndarray:
    """p_m(L) as dense matrices, by eigendecomposition: (M, N, N)."""
    eigenvalues, U = np.linalg.eigh(laplacian(A).toarray())
    response = chebyshev_response(C.double().numpy(), eigenvalues)
    return np.einsum("ni,mi,ki->mnk", U, response, U)


def leaky(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, 0.01 * x)


def numbers(parameter: torch.Tensor) -> np.ndarray:
    return parameter.detach().double().numpy()


@pytest.mark.parametrize("decoder", DECODERS)
def test_paper_network_is_equations_5_to_9(decoder):
    A = adjacency(13)
    filters = bank(decoder=decoder)
    network = stirred(PaperAutoencoder(3, filters, width=5))
    x = np.random.default_rng(0).standard_normal((13, 3))
    got, codes = network(torch.from_numpy(x), operator(A))
    g = dense_polynomials(A, filters.analysis)
    back = np.stack([np.eye(13)] * 4) if filters.synthesis is None else dense_polynomials(A, filters.synthesis)
    bands, Z2s = [], []
    for m in range(4):
        Z1 = leaky(g[m] @ x @ numbers(network.convolve.weight)[m] + numbers(network.convolve.bias)[m])
        Z2 = leaky(Z1 @ numbers(network.encode.weight)[m] + numbers(network.encode.bias)[m])
        Z2s.append(Z2)
        bands.append(leaky(back[m] @ Z2 @ numbers(network.decode.weight)[m] + numbers(network.decode.bias)[m]))
    out = leaky(np.concatenate(bands, axis=1) @ numbers(network.merge.weight).T + numbers(network.merge.bias))
    assert np.allclose(numbers(got), out, atol=1e-9)
    assert len(codes) == 1
    assert np.allclose(numbers(codes[0]), np.stack(Z2s, axis=1), atol=1e-9)


def test_decoders_are_what_the_table_says():
    A = adjacency(11)
    N = 11
    frame = make_frame("uniform", 4)
    dense = laplacian(A).toarray()
    eigenvalues, U = np.linalg.eigh(dense)
    Z = np.random.default_rng(1).standard_normal((N, 4, 2))

    def decoded(decoder: str, K: int) -> np.ndarray:
        filters = FilterBank.from_frame(frame, K, decoder, eps=0.1).double()
        return numbers(filters.decode(operator(A), torch.from_numpy(Z)))

    g = np.asarray(frame(eigenvalues))
    kernel = {"adjoint": g, "inverse": g / (g**2 + 0.1)}
    for name, response in kernel.items():
        exact = np.einsum("ni,mi,ki,kmh->nmh", U, response, U, Z)
        assert np.abs(decoded(name, 80) - exact).max() < 0.02 * np.abs(exact).max()
    halved = (np.eye(N) + (np.eye(N) - dense)) / 2
    assert np.allclose(decoded("gcn", 8), np.einsum("nk,kmh->nmh", halved, Z), atol=1e-6)
    assert np.array_equal(decoded("mlp", 8), Z)


def test_adjoint_decoder_undoes_the_encoder_of_a_tight_frame():
    A = adjacency(15)
    filters = FilterBank.from_frame(make_frame("uniform", 5), 40, "adjoint").double()
    x = torch.randn(15, 1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    back = filters.decode(operator(A), filters.encode(operator(A), x)).sum(dim=1, keepdim=True)
    assert float((back - x).abs().max()) < 0.02


@pytest.mark.parametrize("frame", FRAMES)
def test_every_frame_makes_filters_of_its_own(frame):
    filters = bank(frame, M=5, K=12)
    assert filters.bands == 5
    spectrum = adjacency(12) if frame == "adapted" else None
    exact = chebyshev_coefficients(make_frame(frame, 5, spectrum=spectrum), 12)
    assert np.allclose(filters.analysis.numpy(), exact, atol=1e-6)
    others = [bank(other, M=5, K=12).analysis for other in FRAMES if other != frame]
    assert not any(torch.allclose(filters.analysis, other, atol=1e-3) for other in others)
    network = WaveletAutoencoder(3, 2, filters, width=8, band_width=3, blocks=1)
    out, codes = network(torch.zeros(12, 3), operator(adjacency(12), torch.float32))
    assert out.shape == (12, 2)
    assert codes[0].shape == (12, 5, 3)


def test_polynomial_quality_falls_with_the_degree():
    frame = make_frame("log", 6)
    low, high = (polynomial_quality(frame, FilterBank.from_frame(frame, K)) for K in (8, 40))
    assert (low["order"], high["order"]) == (8, 40)
    assert high["filter_error"] < low["filter_error"] / 4
    assert high["frame_error"] < low["frame_error"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_frame("haar", 4), "frame must be one of .*got 'haar'"),
        (lambda: bank(decoder="cnn"), "decoder must be one of .*got 'cnn'"),
    ],
)
def test_unknown_names_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_default_network_starts_at_exactly_zero_with_a_living_code():
    network = WaveletAutoencoder(6, 3, bank(), width=16, band_width=4, blocks=2).double()
    x = torch.randn(14, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    out, codes = network(x, operator(adjacency(14)))
    assert not out.detach().any()
    assert [tuple(Z.shape) for Z in codes] == [(14, 4, 4)] * 2
    assert all(float(Z.detach().abs().max()) > 0 for Z in codes)


def test_wavelet_block_is_its_equation():
    A = adjacency(9)
    filters = bank(K=6)
    block = stirred(WaveletBlock(7, 3, filters))
    x = torch.randn(9, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    got, Z2 = block(x, operator(A))
    g, gelu = (
        dense_polynomials(A, filters.analysis),
        lambda a: numbers(torch.nn.functional.gelu(torch.from_numpy(a))),
    )
    v = x.numpy()
    norm = (v - v.mean(axis=1, keepdims=True)) / np.sqrt(v.var(axis=1, keepdims=True) + 1e-5)
    norm = norm * numbers(block.norm.weight) + numbers(block.norm.bias)
    Z0 = (norm @ numbers(block.project.weight).T + numbers(block.project.bias)).reshape(9, 4, 3)
    code, bands = [], []
    for m in range(4):
        Z1 = gelu(g[m] @ Z0[:, m])
        code.append(gelu(Z1 @ numbers(block.encode.weight)[m] + numbers(block.encode.bias)[m]))
        bands.append(gelu(g[m] @ (code[m] @ numbers(block.decode.weight)[m] + numbers(block.decode.bias)[m])))
    out = v + np.concatenate(bands, axis=1) @ numbers(block.merge.weight).T + numbers(block.merge.bias)
    assert np.allclose(numbers(Z2), np.stack(code, axis=1), atol=1e-9)
    assert np.allclose(numbers(got), out, atol=1e-9)


def test_band_linear_is_one_matrix_per_band():
    layer = stirred(BandLinear(3, 4, 2))
    Z = np.random.default_rng(0).standard_normal((5, 3, 4))
    expected = np.einsum("nmi,mio->nmo", Z, numbers(layer.weight)) + numbers(layer.bias)[:, 0]
    assert np.allclose(numbers(layer(torch.from_numpy(Z))), expected)


def networks() -> dict[str, torch.nn.Module]:
    return {
        "default": stirred(WaveletAutoencoder(4, 3, bank(), width=12, band_width=3, blocks=2)),
        "paper": stirred(PaperAutoencoder(4, bank(decoder="inverse"), width=5)),
    }


@pytest.mark.parametrize("name", ["default", "paper"])
def test_permuting_the_nodes_permutes_the_output(name):
    network = networks()[name]
    A = adjacency(16)
    x = torch.randn(16, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    order = np.random.default_rng(0).permutation(16)
    out, codes = network(x, operator(A))
    moved, moved_codes = network(x[order], operator(sp.csr_array(A.toarray()[np.ix_(order, order)])))
    assert torch.allclose(moved, out[order], atol=1e-10)
    assert all(torch.allclose(b, a[order], atol=1e-10) for a, b in zip(codes, moved_codes, strict=True))
    unmoved = network(x[order], operator(A))[0]
    assert not torch.allclose(unmoved, out[order], atol=1e-3)


@pytest.mark.parametrize("name", ["default", "paper"])
def test_a_batch_of_graphs_is_its_graphs_one_by_one(name):
    network = networks()[name]
    graphs = [adjacency(n, seed=n) for n in (5, 9, 1, 7)]
    xs = [torch.randn(A.shape[0], 4, dtype=torch.float64) for A in graphs]
    together = network(torch.cat(xs), operator(sp.csr_array(sp.block_diag(graphs, format="csr"))))[0]
    alone = torch.cat([network(x, operator(A))[0] for x, A in zip(xs, graphs, strict=True)])
    assert torch.allclose(together, alone, atol=1e-10)

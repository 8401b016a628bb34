"""The frames through the production filter: dense twin, adjoint reconstruction, gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from spectral_cases import WARPS, cases, make_frame, make_graph, spectrum

from megae.kernels import apply
from megae.spectral import (
    HeatFrame,
    SGWTFrame,
    TightFrame,
    chebyshev_coefficients,
    chebyshev_error,
    evaluate_chebyshev,
    frame_error,
    maclaurin_coefficients,
    normalized_laplacian,
)


def dense_filter(A: np.ndarray, Z: np.ndarray, kernels) -> np.ndarray:
    """U g_m(Lambda) U^T Z_m for Z of shape (N, M, h)."""
    eigenvalues, U = spectrum(A)
    return np.einsum("ij,mj,kj,kmh->imh", U, kernels(np.clip(eigenvalues, 0, 2)), U, Z, optimize=True)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases(), st.integers(0, 40), st.integers(0, 10**6))
def test_polynomial_filter_against_eigendecomposition(case, K: int, seed: int) -> None:
    A, x, frame = case
    C = chebyshev_coefficients(frame, K)
    Z = np.random.default_rng(seed).normal(size=(len(A), frame.M, 2))
    L = normalized_laplacian(A)
    expected = dense_filter(A, Z, lambda l: evaluate_chebyshev(C, l))
    np.testing.assert_allclose(apply(L, torch.from_numpy(Z), C).numpy(), expected, atol=1e-10)
    shared = np.repeat(x[:, None, :], frame.M, axis=1)
    expected = dense_filter(A, shared, lambda l: evaluate_chebyshev(C, l))
    np.testing.assert_allclose(apply(L, torch.from_numpy(x[:, None, :]), C).numpy(), expected, atol=1e-10)


FRAMES = [TightFrame(6, "log"), HeatFrame(4), SGWTFrame(5), TightFrame(4).inverse(0.1)]


@pytest.mark.parametrize("frame", FRAMES, ids=repr)
def test_filter_errs_by_no_more_than_the_reported_error(frame) -> None:
    A = make_graph("random", 40, 1)
    C = chebyshev_coefficients(frame, 20)
    x = np.random.default_rng(0).normal(size=(40, 1, 5))
    filtered = apply(normalized_laplacian(A), torch.from_numpy(x), C).numpy()
    exact = dense_filter(A, np.repeat(x, frame.M, axis=1), frame)
    off = np.linalg.norm(filtered - exact, axis=0) / np.linalg.norm(x, axis=0)
    assert (off <= chebyshev_error(frame, C)[:, None] * (1 + 1e-3) + 1e-12).all()


def test_maclaurin_coefficients_serve_the_same_filter() -> None:
    A, frame = make_graph("random", 30, 1), HeatFrame(3, scales=[0.5, 1.0, 2.0])
    x = np.random.default_rng(0).normal(size=(30, 1, 2))
    C = maclaurin_coefficients(frame, tol=1e-8)
    filtered = apply(normalized_laplacian(A), torch.from_numpy(x), C).numpy()
    np.testing.assert_allclose(filtered, dense_filter(A, np.repeat(x, 3, axis=1), frame), atol=1e-6)


@pytest.mark.parametrize("M", [3, 6, 9])
@pytest.mark.parametrize("warp", WARPS)
def test_adjoint_reconstructs_the_signal(warp: str, M: int) -> None:
    """sum_m g_m(L)[g_m(L) x] = x: exactly with exact filters, within the frame error with polynomials."""
    A = make_graph("random", 40, M)
    frame = make_frame(warp, M, 10.0, A)
    x = np.random.default_rng(0).normal(size=(40, 1, 3))
    once = dense_filter(A, np.repeat(x, M, axis=1), frame)
    np.testing.assert_allclose(dense_filter(A, once, frame).sum(axis=1), x[:, 0], atol=1e-11)

    C, L = chebyshev_coefficients(frame, 25), normalized_laplacian(A)
    back = apply(L, apply(L, torch.from_numpy(x), C), C).sum(dim=1).numpy()
    off = np.linalg.norm(back - x[:, 0], axis=0) / np.linalg.norm(x[:, 0], axis=0)
    assert (off <= frame_error(frame, C) * (1 + 1e-3)).all()
    assert frame_error(frame, C) < 0.7


@pytest.mark.parametrize("bands", [1, 4])
def test_gradcheck_through_wavelet_entropy(bands: int) -> None:
    A = make_graph("weighted", 7, 2)
    L, C = normalized_laplacian(A), chebyshev_coefficients(TightFrame(4, "log"), 8)

    def entropy(Z: torch.Tensor) -> torch.Tensor:
        energies = apply(L, Z, C).square().sum(dim=0)
        return torch.special.entr(energies / energies.sum(dim=0)).sum(dim=0)

    Z = torch.from_numpy(np.random.default_rng(0).normal(size=(7, bands, 2))).requires_grad_()
    assert torch.autograd.gradcheck(entropy, (Z,))
    assert torch.autograd.gradgradcheck(entropy, (Z,))

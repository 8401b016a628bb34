"""Graphs, frames and dense twins shared by the tests of megae.spectral."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from scipy.special import entr

from megae.spectral import TightFrame, normalized_laplacian

WARPS = ("uniform", "log", "paper-log", "adapted")
KINDS = ("random", "weighted", "ring", "path", "star", "complete", "two-parts", "empty")


def make_graph(kind: str, n: int, seed: int) -> np.ndarray:
    """Dense symmetric adjacency of shape (n, n); some kinds have repeated eigenvalues or isolated nodes."""
    rng = np.random.default_rng(seed)
    A = np.zeros((n, n))
    i = np.arange(n)
    if kind in ("random", "weighted"):
        upper = np.triu(rng.random((n, n)) < rng.uniform(0.05, 0.6), 1).astype(float)
        A = upper * (rng.lognormal(0.0, 2.0, (n, n)) if kind == "weighted" else 1.0)
    elif kind in ("ring", "path"):
        A[i[:-1], i[1:]] = 1.0
        if kind == "ring" and n > 2:
            A[0, -1] = 1.0
    elif kind == "star":
        A[0, 1:] = 1.0
    elif kind == "complete":
        A = np.triu(np.ones((n, n)), 1)
    elif kind == "two-parts":
        A = np.triu(np.ones((n, n)), 1)
        A[: n // 2, n // 2 :] = 0.0
    return A + A.T


def spectrum(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.linalg.eigh(normalized_laplacian(A).toarray())


def make_frame(warp: str, M: int, c: float, A: np.ndarray) -> TightFrame:
    return TightFrame(M, warp, c=c, spectrum=A if warp == "adapted" else None)


def entropy_of_energies(energies: np.ndarray) -> np.ndarray:
    """Entropy of each column of energies (bands, D)."""
    total = energies.sum(axis=0)
    return entr(energies / np.where(total > 0, total, 1.0)).sum(axis=0)


def dense_wavelet_entropy(x: np.ndarray, A: np.ndarray, kernels) -> np.ndarray:
    """Wavelet entropy of the columns of x (N, D) with exact filters U g_m(Lambda) U^T."""
    eigenvalues, U = spectrum(A)
    bands = [U @ (row[:, None] * (U.T @ x)) for row in kernels(np.clip(eigenvalues, 0.0, 2.0))]
    return entropy_of_energies(np.stack([np.square(band).sum(axis=0) for band in bands]))


def make_signals(A: np.ndarray, seed: int) -> np.ndarray:
    """Columns of unlike spectra: noise, one eigenvector, two eigenvectors, a flat spectrum, a delta."""
    rng = np.random.default_rng(seed)
    n = A.shape[0]
    U = spectrum(A)[1]
    i, j = rng.integers(n, size=2)
    return np.stack([rng.normal(size=n), U[:, i], U[:, i] + U[:, j], U.sum(axis=1), np.eye(n)[i]], axis=1)


@st.composite
def cases(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, TightFrame]:
    """A graph, signals (N, 5) on it and a tight frame."""
    A = make_graph(draw(st.sampled_from(KINDS)), draw(st.integers(1, 24)), draw(st.integers(0, 10**6)))
    frame = make_frame(
        draw(st.sampled_from(WARPS)), draw(st.integers(3, 20)), draw(st.sampled_from([1.0, 10.0, 20.0])), A
    )
    return A, make_signals(A, draw(st.integers(0, 10**6))), frame

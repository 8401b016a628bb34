"""Frames and Laplacian against PyGSP, on those that both have."""

from __future__ import annotations

import numpy as np
import pytest
from spectral_cases import make_graph

from megae.spectral import HeatFrame, SGWTFrame, TightFrame, normalized_laplacian

pygsp = pytest.importorskip("pygsp", reason="PyGSP is the oracle here")


@pytest.fixture(scope="module")
def graph():
    A = make_graph("weighted", 40, 5) + make_graph("ring", 40, 0)
    G = pygsp.graphs.Graph(A, lap_type="normalized")
    G.compute_fourier_basis()
    G._lmax = 2.0
    return G


def test_laplacian(graph) -> None:
    np.testing.assert_allclose(normalized_laplacian(graph.W).toarray(), graph.L.toarray(), atol=1e-14)


def compare(graph, theirs, ours, scale: float = 1.0) -> None:
    l = np.linspace(0, 2, 1001)
    np.testing.assert_allclose(ours(l), theirs.evaluate(l) / scale, atol=1e-9)
    x = np.random.default_rng(0).normal(size=graph.N)
    eigenvalues, U = np.linalg.eigh(normalized_laplacian(graph.W).toarray())
    filtered = U @ (ours(eigenvalues) * (U.T @ x)).T
    np.testing.assert_allclose(filtered, theirs.filter(x, method="exact") / scale, atol=1e-9)


@pytest.mark.parametrize("M", [3, 6, 9, 20])
def test_uniform_hann_translates_are_half_cosines(graph, M: int) -> None:
    """PyGSP leaves the frame bound at 9/8."""
    compare(graph, pygsp.filters.HalfCosine(graph, M), TightFrame(M), np.sqrt(9 / 8))


def test_heat(graph) -> None:
    """PyGSP divides eigenvalues by their maximum, 2."""
    scales = np.array([0.25, 1.0, 4.0])
    compare(graph, pygsp.filters.Heat(graph, 2 * scales), HeatFrame(3, scales=scales))


@pytest.mark.parametrize("M", [3, 6, 9])
def test_sgwt_is_the_ab_spline(graph, M: int) -> None:
    compare(graph, pygsp.filters.Abspline(graph, M), SGWTFrame(M))
    compare(graph, pygsp.filters.Abspline(graph, M, lpfactor=8), SGWTFrame(M, ratio=8.0))

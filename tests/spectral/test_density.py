from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from spectral_cases import make_graph

from megae.spectral import normalized_laplacian, spectral_cdf
from megae.spectral.density import _jackson, _moments, chebyshev_moments

GRAPHS = {
    "scale-free": nx.barabasi_albert_graph(500, 3, seed=0),
    "grid": nx.grid_2d_graph(20, 20),
    "regular": nx.random_regular_graph(4, 400, seed=1),
    "blocks": nx.stochastic_block_model([150, 150], [[0.05, 0.005], [0.005, 0.05]], seed=2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_cdf_against_eigenvalues(name: str) -> None:
    L = normalized_laplacian(GRAPHS[name])
    eigenvalues = np.linalg.eigvalsh(L.toarray())
    l = np.linspace(0, 2, 401)
    estimate = spectral_cdf(L, random_state=0)(l)
    true = np.searchsorted(eigenvalues, l + 1e-10, "right") / eigenvalues.size
    assert np.abs(estimate - true).mean() < 0.006
    assert np.abs(estimate - true).max() < 0.06
    assert estimate[0] == pytest.approx(0.0, abs=1e-12)
    assert estimate[-1] == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(estimate) >= -1e-12).all()


def test_moments_against_eigenvalues() -> None:
    L = normalized_laplacian(GRAPHS["scale-free"])
    n, order, probes = L.shape[0], 41, 64
    x = np.linalg.eigvalsh(L.toarray()) - 1.0
    true = np.cos(np.arange(order + 1)[:, None] * np.arccos(np.clip(x, -1, 1))).mean(axis=1)
    np.testing.assert_allclose(_moments(L, np.eye(n), order), true, atol=1e-12)
    estimate = spectral_cdf(L, probes, order, random_state=1).moments / _jackson(order)
    assert np.abs(estimate - true).max() < 5.0 / np.sqrt(n * probes)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 8, 9])
def test_moments_of_each_column(order: int) -> None:
    L = normalized_laplacian(make_graph("weighted", 15, 0))
    eigenvalues, U = np.linalg.eigh(L.toarray())
    x = np.random.default_rng(0).normal(size=(15, 3))
    T = np.cos(np.arange(order + 1)[:, None] * np.arccos(np.clip(eigenvalues - 1.0, -1, 1)))
    moments = chebyshev_moments(L, x, order)
    np.testing.assert_allclose(moments, T @ np.square(U.T @ x), atol=1e-11)
    np.testing.assert_allclose(chebyshev_moments(L, x[:, :1], order), moments[:, :1], atol=1e-12)


def test_jackson_factors_keep_the_density_of_a_single_eigenvalue_positive() -> None:
    theta = np.linspace(0, np.pi, 2001)
    for order in (1, 2, 7, 64, 128):
        g = _jackson(order)
        assert g[0] == pytest.approx(1.0)
        kernel = 1 + 2 * np.cos(np.multiply.outer(theta, np.arange(1, order + 1))) @ g[1:]
        assert kernel.min() > -1e-10


def test_small_graphs_need_no_random_numbers() -> None:
    L = normalized_laplacian(make_graph("random", 20, 0))
    l = np.linspace(0, 2, 50)
    np.testing.assert_array_equal(spectral_cdf(L, random_state=0)(l), spectral_cdf(L, random_state=1)(l))


def test_random_state_decides_the_result() -> None:
    L = normalized_laplacian(GRAPHS["grid"])
    first = spectral_cdf(L, random_state=0).moments
    np.testing.assert_array_equal(first, spectral_cdf(L, random_state=0).moments)
    assert np.abs(first - spectral_cdf(L, random_state=1).moments).max() > 1e-6


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one node"):
        spectral_cdf(sp.csr_array((0, 0)))
    with pytest.raises(ValueError, match="n_probes and order"):
        spectral_cdf(sp.eye_array(3), n_probes=0)

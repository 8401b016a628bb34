"""GDN's filters and network against eigendecompositions."""

from __future__ import annotations

from math import factorial

import numpy as np
import pytest
import torch

from megae.imputers.gdn import looped_laplacian
from megae.kernels import FilterOperator, apply, exact_filter
from megae.models.gdn import GraphDeconvolution, deconvolution_filters
from megae.spectral import evaluate_chebyshev, symmetrized_adjacency

N = 20


def laplacian(seed: int = 0):
    rng = np.random.default_rng(seed)
    return looped_laplacian(symmetrized_adjacency(np.triu(rng.random((N, N)) < 0.25, 1) * rng.random((N, N))))


def series(name: str, kernel: str, order: int, scale: float):
    """The truncated Maclaurin series, term by term."""
    terms = {
        ("smooth", "heat"): lambda n: (-1.0) ** n / factorial(n),
        ("sharpen", "heat"): lambda n: 1.0 / factorial(n),
        ("smooth", "gcn"): lambda n: (1.0, -1.0)[n] if n < 2 else 0.0,
        ("sharpen", "gcn"): lambda n: 1.0,
        ("synthesise", kernel): lambda n: (-scale) ** n / factorial(n),
        ("analyse", kernel): lambda n: scale**n / factorial(n),
    }[name, kernel]
    return lambda l: sum(terms(n) * l**n for n in range(order + 1))[None, :]


@pytest.mark.parametrize("kernel", ["heat", "gcn"])
@pytest.mark.parametrize("name", ["smooth", "sharpen", "analyse", "synthesise"])
def test_each_filter_is_its_series_of_the_eigenvalues(kernel, name):
    L, Z = laplacian(), np.random.default_rng(1).standard_normal((N, 1, 3))
    C = deconvolution_filters(kernel, 4, 0.7)[name]
    out = apply(L, torch.from_numpy(Z), C)
    np.testing.assert_allclose(out, exact_filter(L, Z, series(name, kernel, 4, 0.7)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.5])
def test_the_heat_series_converge_to_the_exponentials(scale):
    l = np.linspace(0.0, 2.0, 50)
    filters = deconvolution_filters("heat", 24, scale)
    np.testing.assert_allclose(evaluate_chebyshev(filters["smooth"], l)[0], np.exp(-l), atol=1e-8)
    np.testing.assert_allclose(evaluate_chebyshev(filters["sharpen"], l)[0], np.exp(l), atol=1e-8)
    np.testing.assert_allclose(evaluate_chebyshev(filters["synthesise"], l)[0], np.exp(-scale * l), atol=1e-8)
    np.testing.assert_allclose(evaluate_chebyshev(filters["analyse"], l)[0], np.exp(scale * l), atol=1e-8)


def test_the_inverse_convolution_converges_where_its_series_does():
    l = np.linspace(0.0, 0.4, 30)
    filters = deconvolution_filters("gcn", 20, 1.0)
    product = evaluate_chebyshev(filters["smooth"], l) * evaluate_chebyshev(filters["sharpen"], l)
    np.testing.assert_allclose(product, 1.0, atol=1e-6)


def test_unknown_kernels_are_refused():
    with pytest.raises(ValueError, match="kernel must be one of heat, gcn"):
        deconvolution_filters("ppr", 4, 1.0)


def test_the_network_is_its_equations_on_dense_matrices():
    L = laplacian()
    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(0)
        net = GraphDeconvolution(3, 5, width=8, kernel="heat", order=4, scale=0.7).double()
    x = torch.from_numpy(np.random.default_rng(2).standard_normal((N, 3)))
    l, U = np.linalg.eigh(L.toarray())

    def dense(name: str) -> np.ndarray:
        return (U * series(name, "heat", 4, 0.7)(l)) @ U.T

    def relu(z: np.ndarray) -> np.ndarray:
        return np.maximum(z, 0.0)

    def linear(layer: torch.nn.Linear, z: np.ndarray) -> np.ndarray:
        return z @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()

    def perceptron(layers: torch.nn.Sequential, z: np.ndarray) -> np.ndarray:
        return relu(linear(layers[2], relu(linear(layers[0], z))))

    smooth, sharpen = dense("smooth"), dense("sharpen")
    H1 = perceptron(net.encode1, smooth @ x.numpy())
    H2 = perceptron(net.encode2, smooth @ H1)
    M = perceptron(net.invert, sharpen @ np.hstack([H1, H2]))
    expected = linear(net.out, dense("synthesise") @ relu(linear(net.denoise, dense("analyse") @ M)))
    operator = FilterOperator.from_laplacian(L, torch.float64)
    np.testing.assert_allclose(net(x, operator).detach(), expected, rtol=1e-6, atol=1e-7)

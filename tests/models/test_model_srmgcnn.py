"""sRMGCNN's filters, start and smoothness against dense matrices and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_cases import adjacency, laplacian, operator, stirred
from sklearn.linear_model import Ridge

from megae.models.srmgcnn import Diffusion, SeparableRecurrentNetwork, dirichlet, least_squares

N, E, RANK = 12, 6, 3


def test_convolution_is_chebyshev_polynomials_of_the_dense_laplacian():
    A = adjacency(N)
    diffusion = stirred(Diffusion(RANK, order=4, features=5))
    factor = torch.from_numpy(np.random.default_rng(0).standard_normal((N, RANK)))
    l, U = np.linalg.eigh(laplacian(A).toarray() - np.eye(N))
    bands = [(U * np.cos(k * np.arccos(l.clip(-1, 1)))) @ U.T @ factor.numpy() for k in range(5)]
    weight, bias = diffusion.convolve.weight.detach().numpy(), diffusion.convolve.bias.detach().numpy()
    expected = np.maximum(np.hstack(bands) @ weight.T + bias, 0.0)
    np.testing.assert_allclose(diffusion.convolution(factor, operator(A)).detach(), expected, atol=1e-6)


def test_diffusion_takes_its_steps_one_after_the_other():
    A = adjacency(N)
    factor = torch.from_numpy(np.random.default_rng(0).standard_normal((N, RANK)))
    three = stirred(Diffusion(RANK, order=2, features=5, steps=3))
    state, moved = None, factor
    for _ in range(3):
        state = three.recur(three.convolution(moved, operator(A)), state)
        moved = moved + torch.tanh(three.move(state[1]))
    out = three(factor, operator(A))
    assert out.shape == factor.shape
    torch.testing.assert_close(out, moved)
    three.steps = 2
    assert not torch.allclose(three(factor, operator(A)), out)


def test_nothing_moves_before_training():
    factor = torch.randn(N, RANK, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Diffusion(RANK)(factor, operator(adjacency(N), torch.float32)), factor)


def test_rows_start_as_ridge_regression_on_what_is_visible():
    rng = np.random.default_rng(0)
    x, H, visible = rng.standard_normal((N, E)), rng.standard_normal((E, RANK)), rng.random((N, E)) < 0.6
    visible[0] = False
    W = least_squares(torch.from_numpy(x), torch.from_numpy(visible), torch.from_numpy(H), 0.3)
    assert (W[0] == 0).all()
    for i in range(1, N):
        oracle = Ridge(alpha=0.3, fit_intercept=False).fit(H[visible[i]], x[i, visible[i]])
        np.testing.assert_allclose(W[i], oracle.coef_, rtol=1e-6, atol=1e-9)


def test_invisible_values_do_not_matter():
    rng = np.random.default_rng(0)
    visible = torch.from_numpy(rng.random((N, E)) < 0.6)
    x = torch.from_numpy(rng.standard_normal((N, E)))
    H = torch.from_numpy(rng.standard_normal((E, RANK)))
    other = torch.where(visible, x, 1e6)
    assert torch.equal(least_squares(x, visible, H, 0.1), least_squares(other, visible, H, 0.1))


def test_dirichlet_is_the_trace():
    A = adjacency(N)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((N, E)))
    expected = np.trace(x.numpy().T @ laplacian(A).toarray() @ x.numpy())
    assert dirichlet(x, operator(A)).item() == pytest.approx(expected)


def test_output_is_the_product_of_the_diffused_factors():
    rows, columns = operator(adjacency(N)), operator(adjacency(E))
    H = torch.from_numpy(np.random.default_rng(0).standard_normal((E, RANK)))
    net = stirred(SeparableRecurrentNetwork(H, columns, order=2, features=5, steps=2, ridge=0.1))
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((N, E)))
    visible = torch.ones(N, E, dtype=torch.bool)
    W = net.rows(least_squares(x, visible, H, 0.1), rows)
    torch.testing.assert_close(net(x, visible, rows), W @ net.columns(H, columns).T)

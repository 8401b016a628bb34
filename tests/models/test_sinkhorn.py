"""The Sinkhorn divergence against geomloss, exact transport and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from megae.models.sinkhorn import annealing, half_squared_distances, sinkhorn_divergence


def clouds(*shape: int, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, *shape, generator=generator, dtype=dtype)
    return x.requires_grad_(), (1.5 * y + 0.3).requires_grad_()


@pytest.mark.parametrize("shape", [(40, 5), (128, 18), (3, 20, 4)])
@pytest.mark.parametrize(("blur", "scaling"), [(0.5, 0.9), (0.05, 0.5), (30.0, 0.7)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_agrees_with_geomloss_in_value_and_gradient(shape, blur, scaling, dtype):
    geomloss = pytest.importorskip("geomloss")
    theirs = geomloss.SamplesLoss("sinkhorn", p=2, blur=blur, scaling=scaling, backend="tensorized")
    x, y = clouds(*shape, dtype=dtype)
    expected, value = theirs(x, y), sinkhorn_divergence(x, y, blur, scaling)
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)
    for mine, right in zip(
        torch.autograd.grad(value.sum(), (x, y)), torch.autograd.grad(expected.sum(), (x, y)), strict=True
    ):
        assert right.abs().max() > 1e-3
        close = 1e-4 if dtype == torch.float64 else 5e-4
        torch.testing.assert_close(mine, right, rtol=close, atol=close * float(right.abs().max()))


def test_little_blur_is_exact_transport():
    x, y = clouds(30, 3)
    cost = cdist(x.detach(), y.detach(), "sqeuclidean") / 2
    rows, columns = linear_sum_assignment(cost)
    value = float(sinkhorn_divergence(x, y, 0.02, 0.98).detach())
    assert value == pytest.approx(cost[rows, columns].mean(), rel=0.01)


def test_gradient_agrees_with_finite_differences_at_convergence():
    x, y = clouds(8, 2)

    def value(points: torch.Tensor) -> torch.Tensor:
        return sinkhorn_divergence(points, y, 0.8, 0.9995)

    (gradient,) = torch.autograd.grad(value(x), x)
    step = torch.zeros_like(x)
    step[2, 1] = 1e-4
    slope = (value(x + step) - value(x - step)) / 2e-4
    assert float(gradient[2, 1]) == pytest.approx(float(slope.detach()), rel=2e-3)


def test_is_zero_between_equal_clouds_and_positive_otherwise():
    x, y = clouds(30, 3)
    assert float(sinkhorn_divergence(x, x, 0.5).detach()) == pytest.approx(0.0, abs=1e-12)
    assert float(sinkhorn_divergence(x, y, 0.5).detach()) > 0.1


def test_points_that_all_coincide():
    x = torch.ones(4, 2, requires_grad=True)
    value = sinkhorn_divergence(x, torch.ones(4, 2), 0.5)
    value.backward()
    assert float(value.detach()) == pytest.approx(0.0, abs=1e-6)
    assert x.grad is not None
    assert x.grad.abs().max() < 1e-6


def test_temperatures_fall_from_the_diameter_to_the_blur():
    np.testing.assert_allclose(annealing(4.0, 1.0, 0.5), [16.0, 16.0, 4.0, 1.0])
    np.testing.assert_allclose(annealing(0.5, 1.0, 0.5), [1.0, 1.0])


def test_half_squared_distances_agree_with_scipy():
    x, y = (c.detach() for c in clouds(20, 4))
    np.testing.assert_allclose(half_squared_distances(x, y), cdist(x, y, "sqeuclidean") / 2, atol=1e-12)


def test_bad_input_is_refused():
    x, y = clouds(5, 2)
    with pytest.raises(ValueError, match="same shape"):
        sinkhorn_divergence(x, y[:4], 0.5)
    with pytest.raises(ValueError, match="blur must be positive"):
        sinkhorn_divergence(x, y, 0.0)

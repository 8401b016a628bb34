import numpy as np
import pytest

from megae.models import low_rank
from megae.models.low_rank import Completion, RowSpace, complete, leading

RNG = np.random.default_rng


def holed(n: int = 60, e: int = 20, rank: int = 3, rate: float = 0.3, noise: float = 0.1) -> np.ndarray:
    rng = RNG(0)
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, e)) + noise * rng.standard_normal((n, e)) + 1.0
    x[rng.random(x.shape) < rate] = np.nan
    return x


def settle(z: np.ndarray, **how) -> Completion:
    return complete(z, max_iter=20_000, tol=1e-12, rng=RNG(0), **how)


def plain(z: np.ndarray, shrink, iterations: int = 20_000) -> np.ndarray:
    """Fill, decompose, shrink, over and over."""
    holes = np.isnan(z)
    Z = np.zeros_like(z)
    for _ in range(iterations):
        U, d, Vt = np.linalg.svd(np.where(holes, Z, z), full_matrices=False)
        new = (U * shrink(d)) @ Vt
        if np.abs(new - Z).max() < 1e-12:
            return new
        Z = new
    raise AssertionError("the twin did not settle")


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("exact", [True, False])
def test_soft_impute_satisfies_its_optimality_conditions(center, exact, monkeypatch):
    """P(X - Z) = lambda (U V' + W) with U'W = 0, WV = 0 and no singular value of W above 1."""
    if not exact:
        monkeypatch.setattr(low_rank, "EXACT", 0)
    z, shrinkage = holed(), 3.0
    done = settle(z, shrinkage=shrinkage, center=center)
    residual = np.where(np.isnan(z), 0.0, z - done.mean - done.Z)
    k = done.d.size
    assert 0 < k < 20
    U = (done.Z @ done.V) / done.d
    np.testing.assert_allclose(U.T @ residual @ done.V, shrinkage * np.eye(k), atol=1e-6)
    np.testing.assert_allclose(residual @ done.V, shrinkage * U, atol=1e-6)
    np.testing.assert_allclose(U.T @ residual, shrinkage * done.V.T, atol=1e-6)
    assert np.linalg.norm(residual, 2) <= shrinkage * (1 + 1e-6)
    if center:
        np.testing.assert_allclose(residual.sum(axis=0), 0, atol=1e-8)


def test_soft_form_agrees_with_a_plain_twin():
    z = holed()
    done = settle(z, shrinkage=3.0, center=False)
    np.testing.assert_allclose(done.Z, plain(z, lambda d: np.maximum(d - 3.0, 0)), atol=1e-8)


def test_iterative_form_agrees_with_a_plain_twin():
    z = holed()
    done = settle(z, rank=3, center=False)
    np.testing.assert_allclose(done.Z, plain(z, lambda d: d * (np.arange(20) < 3)), atol=1e-8)
    assert done.d.shape == (3,)
    assert done.V.shape == (20, 3)


def test_a_warm_start_leads_to_the_same_place_sooner():
    z = holed()
    cold = complete(z, shrinkage=3.0, tol=1e-6, max_iter=1000, rng=RNG(0))
    near = settle(z, shrinkage=3.3)
    warm = complete(z, shrinkage=3.0, tol=1e-6, max_iter=1000, start=near, rng=RNG(0))
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.Z, cold.Z, atol=1e-3)


def test_iterations_and_time_are_bounded():
    assert complete(holed(), rank=3, tol=0.0, max_iter=7, rng=RNG(0)).n_iter == 7
    assert complete(holed(), rank=3, tol=0.0, rng=RNG(0), late=lambda: True).n_iter == 1


def test_subspace_iteration_finds_the_leading_singular_vectors(monkeypatch):
    monkeypatch.setattr(low_rank, "EXACT", 0)
    rng = RNG(0)
    Y = rng.standard_normal((80, 5)) @ rng.standard_normal((5, 50)) + 0.01 * rng.standard_normal((80, 50))
    U, d, V = leading(Y, 5, None, rng)
    np.testing.assert_allclose(d[:5], np.linalg.svd(Y)[1][:5], rtol=1e-6)
    np.testing.assert_allclose((U[:, :5] * d[:5]) @ V[:, :5].T, Y, atol=0.1)
    again = leading(Y, 5, V, rng)
    np.testing.assert_allclose(again[1][:5], d[:5], rtol=1e-9)
    assert V.shape[1] == 15, "vectors beyond the wanted ones speed up the next round"


@pytest.mark.parametrize("chunk", [1, 1 << 22])
def test_rows_are_projected_as_least_squares_would(chunk, monkeypatch):
    monkeypatch.setattr(low_rank, "CHUNK", chunk)
    rng = RNG(1)
    B, mean, x = rng.standard_normal((8, 3)), rng.standard_normal(8), rng.standard_normal((30, 8))
    x[rng.random(x.shape) < 0.3] = np.nan
    x[4] = np.nan
    for ridge in (0.0, 0.7):
        filled = RowSpace(mean, B, ridge).fill(x)
        for row, out in zip(x, filled, strict=True):
            o = ~np.isnan(row)
            if o.sum() < 3 and ridge == 0:
                continue
            stacked = np.vstack([B[o], np.sqrt(ridge) * np.eye(3)])
            a = np.linalg.lstsq(stacked, np.concatenate([(row - mean)[o], np.zeros(3)]), rcond=None)[0]
            np.testing.assert_allclose(out, mean + B @ a, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(filled[4], mean)


@pytest.mark.parametrize("center", [False, True])
def test_rows_that_were_completed_come_back_as_completed(center):
    z = holed()
    soft = settle(z, shrinkage=3.0, center=center)
    np.testing.assert_allclose(RowSpace.of_soft(soft, 3.0).fill(z), soft.Z + soft.mean, atol=1e-6)
    hard = settle(z, rank=3, center=center)
    np.testing.assert_allclose(RowSpace.of_hard(hard, z, ridge=0.0).fill(z), hard.Z + hard.mean, atol=1e-6)


def test_the_default_ridge_gives_the_conditional_mean_of_probabilistic_pca():
    rng = RNG(0)
    z = rng.standard_normal((500, 2)) @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((500, 6))
    done = settle(z, rank=2)
    space = RowSpace.of_hard(done, z, None)
    values = np.linalg.eigvalsh(np.cov(z.T, bias=True))
    assert space.ridge == pytest.approx(values[:4].mean(), rel=1e-9)
    covariance = space.B @ space.B.T + space.ridge * np.eye(6)
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance)[4:], values[4:], rtol=1e-9)
    row = z[:1].copy()
    row[0, [1, 4]] = np.nan
    o, h = [0, 2, 3, 5], [1, 4]
    slope = covariance[np.ix_(h, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
    expected = done.mean[h] + slope @ (row[0, o] - done.mean[o])
    np.testing.assert_allclose(space.fill(row)[0, h], expected, rtol=1e-9)

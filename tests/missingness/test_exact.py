"""The exact logistic model against numpy, scipy and rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from missingness_cases import correlated
from scipy.optimize import brentq
from scipy.special import expit

from megae.missingness.exact import GRAIN, exact_product, grains, logistic_holes, probabilities, sigmoid, standardize


def test_sigmoid_is_the_logistic_function():
    t = np.linspace(-40, 40, 100_001)
    np.testing.assert_allclose(sigmoid(t), expit(t), rtol=2e-14)
    assert (np.diff(sigmoid(np.linspace(-40, 40, 4001))) >= 0).all()


def test_sigmoid_is_held_far_out():
    assert (sigmoid(np.array([-np.inf, -1e9])) * GRAIN < 0.5).all()
    np.testing.assert_array_equal(sigmoid(np.array([1e9, np.inf])), 1.0)
    assert sigmoid(np.array([0.0]))[0] == 0.5


def test_sums_do_not_depend_on_their_order():
    values = np.random.default_rng(0).random((5000, 3))
    where = values > 0.1
    shuffled = np.random.default_rng(1).permutation(5000)
    total = grains(values, where)
    np.testing.assert_array_equal(total, grains(values[shuffled], where[shuffled]))
    np.testing.assert_allclose(total / GRAIN, np.where(where, values, 0).sum(axis=0), rtol=1e-9)


def test_standardised_columns_have_mean_zero_and_variance_one():
    X = correlated(1000, 4) * [1, 1e-8, 1e200, 1] + [0, 5, 0, 1e6]
    X[::5, 0] = np.nan
    Z = standardize(X)
    mean, std = np.nanmean(X / [1, 1, 1e200, 1], axis=0), np.nanstd(X / [1, 1, 1e200, 1], axis=0)
    expected = np.where(np.isnan(X), 0.0, (X / [1, 1, 1e200, 1] - mean) / std)
    np.testing.assert_allclose(Z, expected, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e308, np.nan])
def test_constant_and_empty_columns_are_zero(value):
    X = np.full((5, 2), value)
    X[0, 1] = np.nan
    np.testing.assert_array_equal(standardize(X), 0.0)


def test_product_has_no_rounding_error():
    left = np.round(np.random.default_rng(0).normal(size=(3, 50)) * 20 * 2**16) / 2**16
    right = np.round(np.random.default_rng(1).uniform(-1, 1, (50, 2)) * 256) / 256
    left[0, 0] = 1e6
    held = np.clip(left, -64, 64)
    for i in range(3):
        for j in range(2):
            exact = sum(Fraction(a) * Fraction(b) for a, b in zip(held[i], right[:, j], strict=True))
            assert Fraction(exact_product(left, right)[i, j]) == exact


@pytest.mark.parametrize("rate", [1e-6, 0.01, 0.3, 0.5, 0.99, 1 - 1e-6])
@pytest.mark.parametrize("slope", [0.1, 2.0, -2.0, 100.0])
def test_probabilities_are_those_of_the_solved_intercept(rate, slope):
    score = slope * standardize(np.random.default_rng(0).standard_t(2, size=(400, 3)))
    observed = np.random.default_rng(1).random(score.shape) < 0.8
    p = probabilities(score, observed, rate)
    np.testing.assert_array_equal(p * GRAIN, np.rint(p * GRAIN))
    for j in range(3):
        s = score[observed[:, j], j]
        assert abs(p[observed[:, j], j].mean() - rate) <= 1 / GRAIN
        intercept = brentq(lambda a, s=s: expit(a + s).mean() - rate, -5000, 5000, xtol=1e-13)
        np.testing.assert_allclose(p[observed[:, j], j], expit(intercept + s), atol=(s.size + 1) / GRAIN)


def test_blocks_of_columns_do_not_show():
    score = 2 * standardize(correlated(700, 60))
    observed, u = np.ones(score.shape, dtype=bool), np.random.default_rng(5).random(score.shape)
    whole = logistic_holes(score, observed, 0.3, u)
    for j in range(60):
        np.testing.assert_array_equal(whole[:, [j]], logistic_holes(score[:, [j]], observed[:, [j]], 0.3, u[:, [j]]))
    np.testing.assert_array_equal(whole, u < probabilities(score, observed, 0.3))

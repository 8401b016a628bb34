"""Not at random: the value itself drives its hole."""

from __future__ import annotations

import numpy as np
import pytest
from missingness_cases import assert_binomial, correlated
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from megae.missingness import mnar
from megae.missingness.not_at_random import above_quantile


def fitted(features: np.ndarray, holes: np.ndarray) -> np.ndarray:
    """Coefficients of a logistic regression without penalty."""
    return LogisticRegression(C=np.inf, max_iter=500).fit(features, holes).coef_[0]


@pytest.mark.parametrize("slope", [2.0, 0.7, -1.5])
def test_self_masking_depends_on_the_value_by_the_slope_and_on_no_other(slope):
    X = correlated(20_000, 3) * [1, 50, 0.01] + [0, 7, -3]
    holes = mnar(X, 0.3, 0, slope=slope)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for j in range(3):
        expected = np.where(np.arange(3) == j, slope, 0.0)
        np.testing.assert_allclose(fitted(Z, holes[:, j]), expected, atol=0.15)


def test_default_slope_is_two():
    X = correlated(500)
    np.testing.assert_array_equal(mnar(X, 0.3, 0), mnar(X, 0.3, 0, slope=2.0))


@pytest.mark.parametrize(("slope", "quantile"), [(2.0, 0.75), (2.0, 0.5), (-1.0, 0.2)])
@pytest.mark.parametrize("rate", [0.05, 0.3, 0.9])
def test_quantile_form_has_two_probabilities_whose_mean_is_the_rate(slope, quantile, rate):
    X = correlated(20_000, 2)
    holes = mnar(X, rate, 0, form="quantile", slope=slope, quantile=quantile)
    grid = np.linspace(-12, 12, 240_001)
    mean = quantile * expit(grid) + (1 - quantile) * expit(grid + slope)
    below = float(expit(grid[np.argmin(np.abs(mean - rate))]))
    above = float(expit(logit(below) + slope))
    for j in range(2):
        high = X[:, j] > np.quantile(X[:, j], quantile, method="inverted_cdf")
        assert high.sum() == round((1 - quantile) * len(X))
        assert_binomial(int(holes[high, j].sum()), int(high.sum()), above)
        assert_binomial(int(holes[~high, j].sum()), int((~high).sum()), below)


@pytest.mark.parametrize("n", [10, 25, 50, 100, 150])
@pytest.mark.parametrize("percent", [7, 14, 28, 29, 55, 56, 57, 75, 99])
def test_quantile_is_the_smallest_value_with_its_share_at_or_below_it(n, percent):
    """By whole numbers: 0.55 * 100 is a little more than 55 in floating point."""
    below = min(-(-percent * n // 100), n - 1)
    above = above_quantile(np.arange(n, dtype=float)[:, None], percent / 100)
    assert int(above.sum()) == n - below


def test_quantile_form_depends_on_the_side_alone():
    X = correlated(20_000, 1)
    holes = mnar(X, 0.3, 0, form="quantile", quantile=0.5)
    edge = np.quantile(X, 0.5, method="inverted_cdf")
    high = np.greater(X, edge)
    assert abs(fitted(np.hstack([X, high]), holes[:, 0])[0]) < 0.15


@pytest.mark.parametrize("ones", [0.02, 0.9])
@pytest.mark.parametrize("form", ["self-masking", "quantile"])
def test_ones_of_a_binary_column_miss_more_than_its_zeros(ones, form):
    X = (np.random.default_rng(0).random((20_000, 1)) < ones).astype(float)
    holes = mnar(X, 0.3, 0, form=form)
    assert_binomial(int(holes.sum()), 20_000, 0.3)
    assert holes[X == 1].mean() > holes[X == 0].mean() + 0.15


@pytest.mark.parametrize("form", ["self-masking", "quantile"])
def test_every_column_meets_the_rate_and_a_constant_one_too(form):
    X = correlated(5000, 4)
    X[:, 2] = 8.0
    X[::2, 1] = np.nan
    X[:, 3] = np.nan
    X[17, 3] = 1.0
    holes = mnar(X, 0.2, 0, form=form)
    for j in range(3):
        assert_binomial(int(holes[:, j].sum()), int((~np.isnan(X[:, j])).sum()), 0.2)
    assert not holes[np.arange(5000) != 17, 3].any()


def test_columns_in_other_units_miss_the_same_cells():
    X = correlated(300)
    np.testing.assert_array_equal(mnar(X, 0.3, 1), mnar(X * 1024, 0.3, 1))


def test_unknown_form_and_quantile_are_refused():
    with pytest.raises(ValueError, match="form must be one of 'self-masking', 'quantile', got 'logit'"):
        mnar(correlated(10), 0.3, 0, form="logit")
    with pytest.raises(ValueError, match="quantile must lie strictly between 0 and 1, got 1"):
        mnar(correlated(10), 0.3, 0, form="quantile", quantile=1)

"""Completely at random: nothing tells which cells go missing."""

from __future__ import annotations

import numpy as np
from missingness_cases import assert_binomial, correlated
from scipy.stats import ks_2samp

from megae.missingness import mcar


def test_hidden_and_kept_values_have_the_same_distribution():
    X = correlated(4000)
    holes = mcar(X, 0.3, 0)
    for j in range(X.shape[1]):
        for k in range(X.shape[1]):
            assert ks_2samp(X[holes[:, j], k], X[~holes[:, j], k]).pvalue > 1e-4


def test_holes_are_independent_of_each_other():
    holes = mcar(correlated(20_000, 4), 0.3, 0)
    correlation = np.corrcoef(holes.T) - np.eye(4)
    assert np.abs(correlation).max() < 5 / np.sqrt(20_000)
    per_row = np.bincount(holes.sum(axis=1), minlength=5)
    for k, ways in enumerate((1, 4, 6, 4, 1)):
        assert_binomial(int(per_row[k]), 20_000, ways * 0.3**k * 0.7 ** (4 - k))


def test_values_do_not_matter_at_all():
    X = correlated(100)
    np.testing.assert_array_equal(mcar(X, 0.4, 3), mcar(-(X**3) + 1, 0.4, 3))

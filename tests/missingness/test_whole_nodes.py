"""Whole rows: all or nothing, and by chance alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from missingness_cases import assert_binomial, correlated, counted
from scipy.stats import ks_2samp

from megae.missingness import whole_node


def test_a_row_loses_all_its_observed_cells_or_none():
    X = counted()
    observed = ~np.isnan(X)
    holes = whole_node(X, 0.4, 0)
    rows = holes.any(axis=1)
    assert 0 < rows.sum() < len(X)
    np.testing.assert_array_equal(holes[rows], observed[rows])
    assert not holes[~rows].any()


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.99])
def test_rows_are_binomial(rate):
    holes = whole_node(correlated(5000), rate, 0)
    assert_binomial(int(holes[:, 0].sum()), 5000, rate)


@given(rate=st.floats(0.01, 0.99), seed=st.integers(0, 2**40), n=st.integers(1, 400))
def test_rows_are_binomial_at_any_rate(rate, seed, n):
    assert_binomial(int(whole_node(np.zeros((n, 2)), rate, seed)[:, 0].sum()), n, rate)


def test_hidden_and_kept_rows_have_the_same_distribution():
    X = correlated(4000)
    rows = whole_node(X, 0.3, 0)[:, 0]
    for column in X.T:
        assert ks_2samp(column[rows], column[~rows]).pvalue > 1e-4

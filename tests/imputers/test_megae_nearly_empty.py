"""One graph with hardly a cell observed: who fills, around which means, and that it comes back from disk."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from imputer_cases import same_bits
from megae_cases import megae
from scipy.spatial import cKDTree

from megae import MEGAEImputer

N, D = 900, 6
RNG = np.random.default_rng(0)
PLACE = RNG.random((N, 2))
PAIRS = cKDTree(PLACE).query_pairs(0.06, output_type="ndarray")
A = sp.coo_array((np.ones(len(PAIRS)), PAIRS.T), shape=(N, N)).tocsr()
A = sp.csr_array(A + A.T)
TRUTH = 5 + np.sin(4 * PLACE @ RNG.standard_normal((2, D)) + np.arange(D)) + 0.3 * RNG.standard_normal((N, D))
HOLES = RNG.random((N, D)) < 0.95
X = np.where(HOLES, np.nan, TRUTH)


def rmse(filled: np.ndarray) -> float:
    return float(np.sqrt(np.mean((filled - TRUTH)[HOLES] ** 2)))


def quietly_fitted(X, **kw) -> MEGAEImputer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return megae(**kw).fit(X, graph=A)


@pytest.fixture(scope="module")
def fitted():
    return quietly_fitted(X)


def test_shrunken_propagation_fills_and_is_said(fitted):
    assert fitted.config_["nearly_empty"]
    assert fitted.diagnostics_["filled_by"] == "propagation"
    assert any("nearly empty" in note for note in fitted.diagnostics_["warnings"])
    mean = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
    assert rmse(fitted.transform(X)) < 0.93 * rmse(mean)


def test_what_is_propagated_is_not_blown_up(fitted):
    assert (fitted.network_.carried > 0.3).all()
    assert (fitted.network_.carried < 1.35).all()


def test_too_few_cells_to_hold_any_out_are_left_to_propagation():
    few = np.full_like(X, np.nan)
    at = np.flatnonzero(np.isfinite(X).any(axis=1))[:3]
    few[at] = TRUTH[at]
    fitted = quietly_fitted(few)
    assert fitted.diagnostics_["n_held_out"] == 0
    assert fitted.diagnostics_["filled_by"] == "propagation"
    mean = np.broadcast_to(np.nanmean(few, axis=0), few.shape)
    assert rmse(fitted.transform(few)) < 1.1 * rmse(mean)


def test_a_wide_category_does_not_empty_a_table():
    frame = pd.DataFrame(TRUTH[:, :4], columns=list("abcd"))
    levels = np.arange(N) % 200
    frame["level"] = pd.Categorical(np.where(RNG.random(N) < 0.95, None, levels), categories=range(200))
    assert not quietly_fitted(frame, max_steps=1).config_["nearly_empty"]


def test_held_out_cells_are_given_back_to_the_means(fitted):
    assert np.allclose(fitted.mean_, np.nanmean(X, axis=0))
    assert np.allclose(fitted.network_.head.mean.numpy(), fitted.mean_)
    apart = np.vstack([TRUTH[:1], np.full((2, D), np.nan)])
    filled = fitted.transform(apart, graph=sp.csr_array((3, 3)))
    assert np.allclose(filled[1:], fitted.mean_, rtol=1e-5)


def test_round_trip(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = MEGAEImputer.load(tmp_path / "model")
    assert same_bits(fitted.transform(X), loaded.transform(X))
    for a, b in zip(fitted.intervals(X, coverage=0.8), loaded.intervals(X, coverage=0.8), strict=True):
        assert same_bits(a, b)
    assert loaded.diagnostics_["filled_by"] == "propagation"


def test_resumed_fit_ends_in_the_same_bits(tmp_path):
    settings = {"max_steps": 40, "random_state": 3}
    whole = quietly_fitted(X, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        megae(**settings).fit(X, graph=A, checkpoint=tmp_path / "state")
        again = megae(**settings).fit(X, graph=A, checkpoint=tmp_path / "state", resume=True)
    assert same_bits(whole.transform(X), again.transform(X))


def test_binary_columns_stay_probabilities():
    truth = (np.median(TRUTH, axis=0) < TRUTH).astype(float)
    labels = np.where(HOLES, np.nan, truth)
    fitted = quietly_fitted(labels)
    filled = fitted.transform(labels)
    assert {c.kind for c in fitted.columns_} == {"binary"}
    assert ((filled[HOLES] > 0) & (filled[HOLES] < 1)).all()
    assert np.mean((filled - truth)[HOLES] ** 2) < 0.97 * np.mean((np.nanmean(labels, axis=0) - truth)[HOLES] ** 2)


def test_a_fuller_table_is_left_to_the_network():
    fuller = np.where(RNG.random((N, D)) < 0.5, np.nan, TRUTH)
    fitted = quietly_fitted(fuller)
    assert not fitted.config_["nearly_empty"]
    assert fitted.diagnostics_["filled_by"] == "network"
    assert fitted.network_.carried is None

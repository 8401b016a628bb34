"""Preparing features, against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from megae.downstream import prepare_features
from megae.downstream.features import PREPARATIONS, Preparation


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(30, 5)) * [1, 2, 3, 4, 50] + [0, 1, 2, 3, 100]


def test_centred_is_the_default_and_means_columns_centred_then_rows_of_length_one(x):
    centred = x - x.mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(prepare_features(x), expected, rtol=1e-12)
    np.testing.assert_array_equal(prepare_features(x), prepare_features(x, "centred"))


def test_centred_on_the_rows_of_a_reference(x):
    centred = x[10:] - x[:10].mean(axis=0)
    expected = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    np.testing.assert_allclose(prepare_features(x[10:], "centred", reference=x[:10]), expected, rtol=1e-12)


def test_row_normalised_divides_by_the_row_sum_where_nothing_is_negative():
    words = (np.random.default_rng(1).random((20, 50)) < 0.2).astype(np.float32)
    expected = words / words.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(prepare_features(words, "row-normalised"), expected, rtol=1e-6)


def test_row_normalised_never_blows_up_or_turns_a_row_around():
    rows = np.array([[1.0, -1.0], [-3.0, 1.0], [2.0, -2.0000001]])
    found = prepare_features(rows, "row-normalised")
    np.testing.assert_allclose(np.abs(found).sum(axis=1), 1.0)
    np.testing.assert_array_equal(np.sign(found), np.sign(rows))


def test_standardised_takes_mean_and_deviation_of_the_reference(x):
    expected = (x[10:] - x[:10].mean(axis=0)) / x[:10].std(axis=0)
    np.testing.assert_allclose(prepare_features(x[10:], "standardised", x[:10]), expected, rtol=1e-12)


def test_standardised_keeps_a_constant_column_finite():
    found = prepare_features(np.array([[3.3, 1.0], [3.3, 2.0]], dtype=np.float32), "standardised")
    np.testing.assert_allclose(found, [[0.0, -1.0], [0.0, 1.0]], atol=1e-6)


def test_as_is_changes_no_number_and_shares_no_memory(x):
    x[2, 3] = np.nan
    for given in (x, torch.from_numpy(x.copy())):
        found = prepare_features(given, "as-is", reference=np.ones((1, 5)))
        np.testing.assert_array_equal(np.asarray(found), x)
        found[:] = 0.0
        np.testing.assert_array_equal(np.asarray(given), x)


@pytest.mark.parametrize("how", PREPARATIONS)
def test_a_row_of_zeros_gives_numbers(how):
    found = prepare_features(np.array([[0.0, 0.0], [1.0, 3.0], [2.0, 1.0]]), how)
    assert np.isfinite(found).all()
    if how == "row-normalised":
        assert (found[0] == 0).all()


def test_rows_that_are_the_mean_up_to_rounding_become_zero_and_not_noise():
    rng = np.random.default_rng(2)
    mean = rng.random(40).astype(np.float32)
    rows = np.tile(mean, (50, 1))
    rows *= 1 + rng.choice([-1e-7, 0, 1e-7], size=rows.shape).astype(np.float32)
    rows = np.concatenate([rows, [mean + 1, mean - 1]]).astype(np.float32)
    found = prepare_features(rows)
    assert (found[:50] == 0).all()
    np.testing.assert_allclose(np.linalg.norm(found[50:], axis=1), 1.0, rtol=1e-5)


def test_small_departures_from_the_mean_survive_centring_and_not_row_normalising():
    rng = np.random.default_rng(3)
    mean, signal = 1 + rng.random(20), np.where(np.arange(60) % 2, 1e-3, -1e-3)
    rows = mean + signal[:, None] * rng.normal(size=20)
    apart = {}
    for how in ("centred", "row-normalised"):
        found = prepare_features(rows, how)
        apart[how] = np.linalg.norm(found[0] - found[1])
    assert apart["centred"] > 1.9
    assert apart["row-normalised"] < 1e-2


@pytest.mark.parametrize("how", PREPARATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_type_and_dtype_stay(how, dtype, x):
    array = prepare_features(x.astype(dtype), how)
    tensor = prepare_features(torch.from_numpy(x.astype(dtype)), how)
    assert array.dtype == dtype
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.from_numpy(array).dtype
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_whole_numbers_become_float32():
    assert prepare_features(np.array([[1, 2], [3, 4]])).dtype == np.float32
    assert prepare_features(torch.tensor([[1, 2], [3, 4]])).dtype == torch.float32


def test_the_input_is_left_alone(x):
    before = x.copy()
    for how in PREPARATIONS:
        prepare_features(x, how)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("how", PREPARATIONS)
def test_holes_stay_holes_and_count_nowhere(how, x):
    x[3, 1] = x[4, :] = np.nan
    found = prepare_features(x, how)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    mean, deviation = np.nanmean(x, axis=0), np.nanstd(x, axis=0)
    expected = {
        "centred": (x - mean)[3] / np.sqrt(np.nansum((x - mean)[3] ** 2)),
        "row-normalised": x[3] / np.nansum(np.abs(x[3])),
        "standardised": ((x - mean) / deviation)[3],
        "as-is": x[3],
    }[how]
    np.testing.assert_allclose(found[3], expected, rtol=1e-12)


def test_what_cannot_be_prepared_is_refused(x):
    with pytest.raises(ValueError, match="one of the ways centred, row-normalised"):
        prepare_features(x, "rows")
    with pytest.raises(ValueError, match=r"shape \(nodes, columns\)"):
        prepare_features(x[0])
    with pytest.raises(ValueError, match="x has 5 columns, but its reference has 4"):
        prepare_features(x, reference=x[:, :4])
    with pytest.raises(ValueError, match="row 2 in column 1 is infinite"):
        prepare_features(np.where(np.arange(150).reshape(30, 5) == 11, np.inf, x))
    with pytest.raises(ValueError, match="no rows"):
        Preparation.learn(x[:0])

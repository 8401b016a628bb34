"""What columns are taken for, and the way into numbers and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from megae.columns import Column, collapse, expand, infer_kinds, keep_in_range

NAN = np.nan


def kinds(values, requested="auto", categories=None, boolean=()):
    cells = np.asarray(values, dtype=float).reshape(-1, 1)
    return infer_kinds(cells, ["c"], categories or {}, boolean, requested)[0]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1, NAN, 1], "binary"),
        ([0, 0, NAN], "continuous"),
        ([1, 1], "continuous"),
        ([0, 1, 2], "continuous"),
        ([-1, 1], "continuous"),
        ([0.0, 0.5, 1.0], "continuous"),
        ([NAN, NAN], "continuous"),
        ([0] * 20_000 + [1], "binary"),
        ([0, 1] * 10_000 + [0.5], "continuous"),
    ],
)
def test_inference(values, kind):
    assert kinds(values).kind == kind


def test_bool_dtype_is_binary_and_category_dtype_categorical():
    assert kinds([1, 1], boolean=[0]).kind == "binary"
    column = kinds([0, 2, NAN], categories={0: ["a", "b", "c"]})
    assert (column.kind, column.start, column.stop, column.categories) == (
        "categorical",
        0,
        3,
        ("a", "b", "c"),
    )


def test_observed_range():
    column = kinds([3, NAN, -2])
    assert (column.low, column.high) == (-2.0, 3.0)
    assert np.isnan(kinds([NAN]).low)


def test_requested_kinds_by_name_or_by_position():
    assert kinds([0, 3], {"c": "count"}).kind == "count"
    assert kinds([0, 1], ["continuous"]).kind == "continuous"


@pytest.mark.parametrize(
    ("values", "requested", "message"),
    [
        ([0, 1], "count", "must be 'auto', a mapping or a list"),
        ([0, 1], {"d": "count"}, "'d', which is not a column"),
        ([0, 1], ["count", "count"], "2 entries for 1 columns"),
        ([0, 1], {"c": "ordinal"}, "'ordinal'; known kinds are continuous, binary, categorical, count"),
        ([0, 2], {"c": "binary"}, "other than 0 and 1"),
        ([-1, 2], {"c": "count"}, "negative"),
        ([0, 2], {"c": "categorical"}, "pandas dtype 'category'"),
    ],
)
def test_bad_requests_are_refused(values, requested, message):
    with pytest.raises(ValueError, match=message):
        kinds(values, requested)


def test_a_category_cannot_be_read_as_a_number():
    with pytest.raises(ValueError, match="or a number dtype"):
        kinds([0, 1], {"c": "continuous"}, categories={0: ["a", "b"]})


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_expand_then_collapse_is_the_identity_on_observed_cells(width, n, seed):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.random(n), rng.integers(0, width, n), rng.random(n)], axis=1)
    codes[rng.random(codes.shape) < 0.3] = NAN
    columns = infer_kinds(codes, list("abc"), {1: [str(k) for k in range(width)]}, (), "auto")
    encoded = expand(codes, columns)
    assert encoded.shape == (n, 2 + width)
    hot = encoded[:, 1 : 1 + width]
    assert (np.isnan(hot).all(axis=1) == np.isnan(codes[:, 1])).all()
    assert (np.nansum(hot, axis=1) == ~np.isnan(codes[:, 1])).all()
    back = collapse(np.nan_to_num(encoded), columns)
    seen = ~np.isnan(codes)
    np.testing.assert_array_equal(back[seen], codes[seen])


def test_collapse_takes_the_likeliest_category():
    columns = [Column("a", "categorical", 0, 3, categories=("x", "y", "z")), Column("b", "continuous", 3, 4)]
    np.testing.assert_array_equal(collapse(np.array([[0.2, 0.3, 0.25, 7.0]]), columns), [[1.0, 7.0]])


def test_keep_in_range():
    columns = [
        Column("p", "binary", 0, 1, 0.0, 1.0),
        Column("k", "count", 1, 2, 2.0, 5.0),
        Column("x", "continuous", 2, 3, -1.0, 1.0),
        Column("c", "categorical", 3, 5, 0.0, 1.0, ("a", "b")),
        Column("empty", "continuous", 5, 6),
    ]
    far = np.array([[-9.0] * 6, [9.0] * 6])
    np.testing.assert_array_equal(keep_in_range(far, columns, clip=False), [[0, 0, -9, 0, 0, -9], [1, 9, 9, 1, 1, 9]])
    np.testing.assert_array_equal(keep_in_range(far, columns, clip=True), [[0, 2, -1, 0, 0, -9], [1, 5, 1, 1, 1, 9]])


def test_a_column_survives_json():
    column = Column("c", "categorical", 2, 4, 0.0, 1.0, ("a", "b"))
    assert Column.from_dict(json.loads(json.dumps(column.to_dict()))) == column

"""Tables of every type, read into numbers and given back as what they were."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from megae.columns import LARGEST
from megae.tables import check_finite, is_frame, read_table

NAN = np.nan
X = np.array([[1.0, NAN], [-0.0, 3.0], [NAN, 5e-324]])


def filled(table, value=7.0):
    return table.restore(np.full(table.cells.shape, value))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays(dtype, order):
    array = np.array(X, dtype=dtype, order=order)
    before = array.copy()
    out = filled(read_table(array))
    assert out.dtype == dtype
    seen = ~np.isnan(array)
    assert out[seen].tobytes() == before[seen].tobytes()
    assert (out[~seen] == 7).all()
    assert not np.shares_memory(out, array)
    np.testing.assert_array_equal(array, before)


def test_nested_lists_and_object_arrays_become_floats():
    for table in ([[1, None], [2, 3]], np.array([[1, None], [2, 3]], dtype=object)):
        out = filled(read_table(table))
        assert out.dtype == np.float64
        np.testing.assert_array_equal(out, [[1, 7], [2, 3]])


def test_whole_numbers_have_no_holes_and_stay():
    out = filled(read_table(np.array([[2**62 + 1, 3]])))
    assert out.dtype == np.int64
    assert out[0, 0] == 2**62 + 1


def test_bool_arrays_are_marked():
    assert read_table(np.array([[True, False]])).boolean == [0, 1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_tensors(dtype):
    tensor = torch.from_numpy(X).to(dtype)
    out = filled(read_table(tensor))
    assert out.dtype == dtype
    assert out.isnan().sum() == 0
    assert out[~tensor.isnan()].equal(tensor[~tensor.isnan()])
    assert (out[tensor.isnan()] == 7).all()
    assert tensor.isnan().sum() == 2


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_sparse(form, kind):
    dense = np.array([[1.0, NAN, 0.0], [0.0, 3.0, NAN]])
    S = getattr(sp, f"{form}_{kind}")(dense)
    table = read_table(S)
    np.testing.assert_array_equal(table.cells, dense)
    out = filled(table)
    assert type(out) is type(S)
    np.testing.assert_array_equal(out.toarray(), [[1, 7, 0], [0, 3, 7]])
    np.testing.assert_array_equal(S.toarray(), dense)


def test_sparse_entries_given_twice_are_summed_and_a_hole_stays_one_hole():
    S = sp.coo_array(([1.0, 2.0, NAN, 4.0], ([0, 0, 1, 1], [0, 0, 1, 1])), shape=(2, 2))
    np.testing.assert_array_equal(filled(read_table(S)).toarray(), [[3, 0], [0, 7]])
    assert S.nnz == 4


def test_sparse_whole_numbers():
    out = filled(read_table(sp.csr_array(np.array([[1, 0], [0, 2]]))))
    np.testing.assert_array_equal(out.toarray(), [[1, 0], [0, 2]])


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series([1.5, NAN]), 7.4),
        (pd.Series([1.5, NAN], dtype="float32"), np.float32(7.4)),
        (pd.Series([1.5, None], dtype="Float64"), 7.4),
        (pd.Series([1.5, None], dtype="Float32"), np.float32(7.4)),
        (pd.Series([2**60 + 1, None], dtype="Int64"), 7),
        (pd.Series([1, None], dtype="Int8"), 7),
        (pd.Series([1, None], dtype="UInt8"), 7),
        (pd.Series([False, None], dtype="boolean"), True),
        (pd.Series([1.5, None], dtype="double[pyarrow]"), 7.4),
        (pd.Series([1, None], dtype="int64[pyarrow]"), 7),
        (pd.Series([False, None], dtype="bool[pyarrow]"), True),
        (pd.Series([1.5, None], dtype=object), 7.4),
        (pd.Series([1.5, NAN], dtype=pd.SparseDtype(float)), 7.4),
    ],
    ids=lambda v: str(v.dtype) if isinstance(v, pd.Series) else "",
)
def test_frame_dtypes(column, expected):
    frame = pd.DataFrame({"a": column, "b": [1.0, 2.0]})
    out = filled(read_table(frame), 7.4)
    assert out["a"].dtype == column.dtype
    assert out["a"].iloc[0] == column.iloc[0]
    assert out["a"].iloc[1] == expected
    assert frame["a"].isna().tolist() == [False, True]


def test_whole_numbers_are_rounded_into_the_range_of_their_dtype():
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="UInt8")})
    assert filled(read_table(frame), -3.0)["a"].iloc[1] == 0
    assert filled(read_table(frame), 300.0)["a"].iloc[1] == 255
    assert filled(read_table(frame), 2.6)["a"].iloc[1] == 3


def test_categories_keep_order_and_unused_ones():
    kind = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame({"a": pd.Series(["high", None, "low"], dtype=kind)})
    table = read_table(frame)
    np.testing.assert_array_equal(table.cells, [[2], [NAN], [0]])
    assert table.categories == {0: ["low", "mid", "high"]}
    out = filled(table, 1.0)
    assert out["a"].dtype == kind
    assert out["a"].tolist() == ["high", "mid", "low"]


def test_frames_keep_index_and_columns_whatever_they_are():
    columns = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)], names=["p", "q"])
    frame = pd.DataFrame(X, columns=columns, index=pd.Index([5, 5, 1], name="id"))
    out = filled(read_table(frame))
    pd.testing.assert_index_equal(out.index, frame.index)
    pd.testing.assert_index_equal(out.columns, frame.columns)
    np.testing.assert_array_equal(out.to_numpy(), np.where(np.isnan(X), 7, X))


def test_frame_without_holes_is_a_copy():
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", "y"])})
    out = filled(read_table(frame))
    pd.testing.assert_frame_equal(out, frame)
    out.loc[0, "a"] = 9
    assert frame.loc[0, "a"] == 1


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": ["7", None]}), r"column 'a' holds '7' \(row 0\) where a number belongs"),
        (pd.DataFrame({"a": [1, "x"]}, index=["r", "s"]), r"holds 'x' \(row 's'\)"),
        (pd.DataFrame({"a": [1j, 2]}), "dtype complex128, which cannot be filled"),
        (pd.DataFrame({"a": pd.to_timedelta([1, None])}), "drop it or turn it into numbers"),
        (pd.DataFrame({"a": pd.Categorical([None])}), "categorical without a category"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns named 'a'"),
    ],
)
def test_frames_that_cannot_be_filled_are_refused(frame, message):
    with pytest.raises(ValueError, match=message):
        read_table(frame)


def test_check_finite():
    with pytest.raises(ValueError, match="row 1, column 'b'"):
        check_finite(np.array([[1.0, 2.0], [3.0, -np.inf]]), ["a", "b"])
    for large in (1.7e308, -1e200, np.nextafter(LARGEST, np.inf)):
        with pytest.raises(ValueError, match=r"row 1, column 'b', too large to compute with.*1e\+150.*larger unit"):
            check_finite(np.array([[1.0, 2.0], [3.0, large]]), ["a", "b"])
    check_finite(np.array([[LARGEST, -LARGEST]]), ["a", "b"])
    with pytest.raises(ValueError, match="all holes"):
        check_finite(np.full((2, 2), NAN), ["a", "b"])
    check_finite(X, ["a", "b"])


def test_is_frame():
    assert is_frame(pd.DataFrame())
    assert not is_frame(pd.Series(dtype=float))
    assert not is_frame(np.ones((1, 1)))

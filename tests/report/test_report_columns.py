"""Columns of a table before and after, against pandas' own figures."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from megae.report.columns import read_columns


def frames() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    before = pd.DataFrame(
        {
            "x": [1.0, np.nan, 3.0, 8.0],
            "n": pd.array([1, None, 3, None], dtype="Int64"),
            "kind": pd.Categorical(["a", "b", None, "a"]),
            "flag": pd.array([True, None, False, True], dtype="boolean"),
        }
    )
    after = before.copy()
    after["x"] = after["x"].fillna(5.0)
    after["n"] = after["n"].fillna(2)
    after["kind"] = after["kind"].fillna("b")
    after["flag"] = after["flag"].fillna(True)
    return before, after, before.isna().to_numpy()


def test_columns_agree_with_pandas() -> None:
    before, after, holes = frames()
    x, n, kind, flag = read_columns(before, after, holes, None)
    assert [c.name for c in (x, n, kind, flag)] == ["x", "n", "kind", "flag"]
    assert x.mean_sd(x.observed) == pytest.approx((before["x"].mean(), before["x"].std(ddof=0)))
    assert x.mean_sd(x.filled) == (5.0, 0.0)
    assert n.mean_sd(n.observed) == (2.0, 1.0)
    assert n.filled.tolist() == [2.0, 2.0]
    assert n.n_holes == 2
    assert flag.numeric
    assert flag.filled.tolist() == [1.0]
    assert not kind.numeric
    assert kind.mean_sd(kind.observed) == (None, None)
    assert kind.levels() == [("a", 2 / 3, 0.0), ("b", 1 / 3, 1.0)]


def test_half_widths_are_means_over_holes() -> None:
    before, after, holes = frames()
    lower = np.zeros(holes.shape)
    upper = np.where(holes, np.arange(1.0, 5.0)[:, None], 100.0)
    x, n, kind, _ = read_columns(before, after, holes, (lower, upper))
    assert x.half_width == 1.0
    assert n.half_width == (2.0 + 4.0) / 4
    assert kind.half_width is None


def test_intervals_as_frames_are_matched_by_name() -> None:
    before, after, holes = frames()
    lower = pd.DataFrame({"n": [0.0] * 4, "kind": pd.Categorical(["a"] * 4), "x": pd.array([1.0, 2, 3, 4], "Float64")})
    upper = pd.DataFrame({"n": [8.0] * 4, "kind": pd.Categorical(["a"] * 4), "x": [2.0, 8.0, 3.0, 4.0]})
    x, n, kind, flag = read_columns(before, after, holes, (lower, upper))
    assert x.half_width == 3.0
    assert n.half_width == 4.0
    assert kind.half_width is None
    assert flag.half_width is None


def test_arrays_work_and_missing_cells_that_are_no_holes_count_nowhere() -> None:
    before = np.array([[1.0, np.nan], [np.nan, 4.0]])
    mask = np.array([[False, False], [True, False]])
    first, second = read_columns(before, np.array([[1.0, np.nan], [2.0, 4.0]]), mask, None)
    assert (first.name, second.name) == ("column 0", "column 1")
    assert second.observed.tolist() == [4.0]
    assert second.n_holes == 0


def test_open_holes_and_odd_shapes_are_refused() -> None:
    before, after, holes = frames()
    with pytest.raises(ValueError, match="'x' still has 1 holes"):
        read_columns(before, before, holes, None)
    with pytest.raises(ValueError, match="share one shape"):
        read_columns(before, after.iloc[:3], holes, None)
    with pytest.raises(ValueError, match="lower"):
        read_columns(before, after, holes, (np.zeros((4, 1)), np.zeros((4, 1))))

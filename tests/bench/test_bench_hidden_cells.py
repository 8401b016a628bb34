"""What is hidden, what a method then sees, and what an error counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from compare_cases import mixed, ring, wave

from megae.bench.hidden_cells import KEEP, Repeat, column_units, draw_repeat, hide, punch, truth_beside
from megae.missingness import MECHANISMS
from megae.tables import read_table


@pytest.mark.parametrize("mechanism", sorted(MECHANISMS))
def test_every_column_keeps_some_cells_and_only_observed_ones_go(mechanism):
    X = wave(40, 6, rate=0.5)
    X[2:, 4] = np.nan
    X[0, 4], X[1, 4] = 1.0, 2.0
    observed = ~np.isnan(X)
    for seed in range(20):
        hidden = hide(X, 0.5, mechanism, seed, ring(40))
        assert hidden.any()
        assert not (hidden & ~observed).any()
        kept = (observed & ~hidden).sum(axis=0)
        assert (kept >= np.minimum(KEEP, observed.sum(axis=0))).all()
        assert not hidden[:, 4].any()


def test_the_limit_is_what_keeps_them():
    X = wave(6, 30, rate=0.0)
    drawn = MECHANISMS["mcar"](X, 0.8, 3)
    assert ((~drawn).sum(axis=0) < KEEP).any()
    hidden = hide(X, 0.8, "mcar", 3)
    enough = (~drawn).sum(axis=0) >= KEEP
    np.testing.assert_array_equal(hidden[:, enough], drawn[:, enough])
    assert ((~hidden).sum(axis=0)[~enough] == KEEP).all()
    assert not (hidden & ~drawn).any()


def test_whole_nodes_stay_whole():
    X = wave(30, 5, rate=0.3)
    observed = ~np.isnan(X)
    for seed in range(20):
        hidden = hide(X, 0.85, "whole-node", seed)
        gone = hidden.any(axis=1)
        np.testing.assert_array_equal(hidden[gone], observed[gone])


def test_unknown_mechanism_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"'random' is not known; choose one of mcar, mar, mnar, whole-node"):
        hide(wave(), 0.1, "random", 0)


def test_a_share_out_of_reach_says_what_to_do():
    with pytest.raises(ValueError, match=r"mar cannot hide a share of 0.9 here: .*cannot be reached.*hide a smaller"):
        hide(wave(), 0.9, "mar", 0)


def test_punched_frame_keeps_what_is_visible_and_has_holes_elsewhere():
    frame = mixed()
    hidden = hide(frame, 0.3, "mcar", 0)
    shown = punch(frame, hidden)
    pd.testing.assert_index_equal(shown.index, frame.index)
    pd.testing.assert_index_equal(shown.columns, frame.columns)
    np.testing.assert_array_equal(shown.isna().to_numpy(), frame.isna().to_numpy() | hidden)
    before, after = read_table(frame).cells, read_table(shown).cells
    np.testing.assert_array_equal(after[~hidden], before[~hidden])
    names = ["float64", "Int64", "boolean", "category", "float64", "boolean", "Int64"]
    assert [str(t) for t in shown.dtypes] == names
    pd.testing.assert_frame_equal(frame, mixed())


def test_punched_table_bears_no_trace_of_hidden_values():
    frame = mixed()
    hidden = hide(frame, 0.3, "mcar", 0)
    other = frame.copy()
    for j, name in enumerate(frame.columns):
        values = frame[name].array.copy()
        known = np.flatnonzero(~frame[name].isna().to_numpy() & ~hidden[:, j])
        values[np.flatnonzero(hidden[:, j])] = values[known[0]]
        other[name] = values
    assert not other.equals(frame)
    pd.testing.assert_frame_equal(punch(frame, hidden), punch(other, hidden))
    X = wave()
    hidden = hide(X, 0.3, "mcar", 0)
    assert punch(X, hidden).tobytes() == punch(np.where(hidden, 1e9, X), hidden).tobytes()


UNDER_HOLES = {
    "a fraction among whole numbers": ([3, 1, 4, 1, 5, 9], 2.5),
    "a number too large for an integer": ([3, 1, 4, 1, 5, 9], 1e30),
    "a two among zeros and ones": ([0, 1, 1, 0, 1, 0], 2),
    "a number among booleans": ([True, False, True, True, False, True], 2),
    "a float that needs more bits": (np.float32([0.5, 1.5, 0.25, 1.25, 0.75, 2.5]), 0.1),
    "a text that comes first": (["m", "n", "m", "o", "n", "o"], "a"),
    "a category that comes first": (pd.Categorical(["m", "n", "m", "o", "n", "o"]), "a"),
    "a number among categories": (pd.Categorical([2, 10, 2, 3, 10, 3]), 1),
}
"""Column -> what one of its cells is in another table."""


@pytest.mark.parametrize(("values", "other"), UNDER_HOLES.values(), ids=UNDER_HOLES)
@pytest.mark.parametrize("nullable", [False, True])
def test_a_hidden_cell_of_another_kind_leaves_no_trace(values, other, nullable):
    def frame(cell: object) -> pd.DataFrame:
        column = pd.Series([cell if i == 2 else value for i, value in enumerate(values)])
        if isinstance(values, pd.Categorical) or isinstance(cell, str):
            column = column.astype("category")
        return pd.DataFrame({"c": column.convert_dtypes() if nullable else column, "x": np.arange(6.0) / 4})

    same, changed = frame(values[2]), frame(other)
    hidden = np.zeros((6, 2), dtype=bool)
    hidden[2, 0] = True
    assert not same.equals(changed)
    shown = punch(same, hidden)
    pd.testing.assert_frame_equal(shown, punch(changed, hidden), check_exact=True)
    assert shown["c"].isna().tolist() == [False, False, True, False, False, False]


def test_categories_keep_an_order_that_means_something():
    sizes = pd.CategoricalDtype(["small", "middle", "large", "huge"], ordered=True)
    frame = pd.DataFrame({"size": pd.Series(["large", "small", "huge", "middle", None], dtype=sizes)})
    shown = punch(frame, np.array([[False], [False], [True], [False], [False]]))
    assert shown["size"].cat.categories.tolist() == ["small", "middle", "large"]
    np.testing.assert_array_equal(read_table(shown).cells.ravel(), [2, 0, np.nan, 1, np.nan])


def test_truth_is_told_in_the_codes_of_what_is_shown():
    frame = pd.DataFrame({"c": pd.Categorical(["b", "a", "d", None, "c", "b"]), "x": np.arange(6)})
    hidden = np.zeros((6, 2), dtype=bool)
    hidden[[1, 4], 0] = hidden[5, 1] = hidden[5, 0] = True
    shown = punch(frame, hidden)
    truth = truth_beside(frame, shown)
    np.testing.assert_array_equal(truth[:, 0], [0, -1, 1, np.nan, -1, 0])
    np.testing.assert_array_equal(truth[:, 1], np.arange(6))
    kinds, units = np.array([True, False]), np.array([1.0, 4.0])
    for code in (0.0, 1.0):  # whatever is filled in, a category that is seen nowhere else is missed
        filled = np.where(hidden, [code, 5.0], truth)
        errors = Repeat(hidden, units, 0).errors(filled, truth, kinds)
        np.testing.assert_array_equal(errors, [1, 1, code, 0])
    X = np.arange(12.0).reshape(6, 2)
    np.testing.assert_array_equal(truth_beside(X, punch(X, hidden)), X)


def test_a_column_without_a_single_observed_cell_is_left_as_it_is():
    frame = pd.DataFrame({"c": pd.Series([None] * 4, dtype=pd.CategoricalDtype(["a", "b"])), "x": [1, 2, 3, 4]})
    hidden = np.array([[False, True], [False, False], [False, False], [False, False]])
    assert punch(frame, hidden)["c"].equals(frame["c"])


def test_what_a_mechanism_says_names_only_what_a_comparison_has():
    flat = pd.DataFrame({"x": np.ones(20), "y": np.ones(20)})
    with pytest.warns(UserWarning, match="mar: what drives the holes .* choose another mechanism$"):
        hide(flat, 0.2, "mar", 0)
    with pytest.raises(ValueError, match=r"hide a smaller share$"):
        hide(wave(), 0.9, "mar", 0)


def test_sparse_columns_can_be_hidden():
    frame = pd.DataFrame({"s": pd.arrays.SparseArray([0.0, 0.0, 1.0, 2.0]), "x": [1, 2, 3, 4]})
    hidden = np.array([[True, False], [False, True], [True, False], [False, False]])
    shown = punch(frame, hidden)
    np.testing.assert_array_equal(read_table(shown).cells, [[np.nan, 1], [0, np.nan], [np.nan, 3], [2, 4]])


def test_units_come_from_visible_cells():
    cells = np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 1.0], [np.nan, 5.0, 1.0], [2.0, np.nan, 2.0]])
    plain, last = np.array([False] * 3), np.array([False, False, True])
    np.testing.assert_array_equal(column_units(cells, plain, "range"), [2.0, np.nan, 2.0])
    np.testing.assert_array_equal(column_units(cells, last, "range"), [2.0, np.nan, 1.0])
    np.testing.assert_allclose(column_units(cells, plain, "std"), [np.std([1, 3, 2]), np.nan, np.std([0, 1, 1, 2])])
    gini = 1 - (0.25**2 + 0.5**2 + 0.25**2)
    np.testing.assert_allclose(column_units(cells, last, "std"), [np.std([1, 3, 2]), np.nan, np.sqrt(gini / 2)])
    with pytest.raises(ValueError, match="unit must be one of 'range', 'std', got 'iqr'"):
        column_units(cells, plain, "iqr")


@pytest.mark.parametrize("unit", ["range", "std"])
def test_two_categories_count_as_a_column_of_zeros_and_ones(unit):
    rng = np.random.default_rng(0)
    codes = (rng.random((50, 1)) < 0.3).astype(float)
    filled = 1.0 - codes
    hidden = rng.random((50, 1)) < 0.2
    visible = np.where(hidden, np.nan, codes)
    found = []
    for kind in (np.array([True]), np.array([False])):
        repeat = Repeat(hidden, column_units(visible, kind, unit), 0)
        found.append(np.abs(repeat.errors(filled, codes, kind)))
    np.testing.assert_allclose(*found)
    assert (found[0] > 0).all()


def test_errors_are_in_units_and_in_order_and_leave_columns_without_a_unit_out():
    X = np.array([[0.0, 7.0, 1.0], [10.0, 7.0, 2.0], [4.0, 7.0, 0.0], [5.0, 7.0, 2.0]])
    hidden = np.zeros((4, 3), dtype=bool)
    hidden[2, :], hidden[3, 2] = True, True
    kinds = np.array([False, False, True])
    repeat = Repeat(hidden, column_units(np.where(hidden, np.nan, X), kinds, "range"), 0)
    assert repeat.scored.sum() == 3
    filled = X + np.array([2.0, 100.0, 0.0])
    filled[2, 2] = 1.0
    np.testing.assert_allclose(repeat.errors(filled, X, kinds), [0.2, 1.0, 0.0])


def test_units_do_not_move_with_hidden_values():
    X = wave()
    first = draw_repeat(X, 0.2, "mcar", "range", (1, 2))
    second = draw_repeat(np.where(first.hidden, 1e12, X), 0.2, "mcar", "range", (1, 2))
    np.testing.assert_array_equal(first.hidden, second.hidden)
    assert first.units.tobytes() == second.units.tobytes()
    visible = np.where(first.hidden, np.nan, X)
    np.testing.assert_array_equal(first.units, np.nanmax(visible, axis=0) - np.nanmin(visible, axis=0))

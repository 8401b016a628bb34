from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from megae.columns import LARGEST
from megae.io.columns import classify, format_value, is_hole
from megae.io.document import RawColumn
from megae.io.errors import InputError


def where(row: int) -> str:
    return f"t.csv line {row + 2}"


def text(cells, named=None, name="c"):
    return classify(RawColumn(name, cells=list(cells)), where, named)


@pytest.mark.parametrize("token", ["", " ", "NA", "NaN", "nan", "null", "None", "N/A", "?", "#N/A", "<NA>", "-nan"])
def test_every_hole_token_is_a_hole(token):
    column = text(["1.5", token, "2"])
    assert column.kind == "float"
    assert column.series.isna().tolist() == [False, True, False]


def test_pandas_agrees_on_what_is_missing():
    from pandas._libs.parsers import STR_NA_VALUES

    assert all(is_hole(token) for token in STR_NA_VALUES)


@pytest.mark.parametrize(
    ("cells", "kind", "dtype"),
    [
        (["1", "", "+3"], "int", "Int64"),
        (["1", "2.0"], "float", "float64"),
        (["1e3", "2"], "float", "float64"),
        (["TRUE", "?", "FALSE"], "bool", "boolean"),
        (["a", "b", "3"], "kept", "object"),
        (["", "NA"], "float", "float64"),
        (["9223372036854775807", ""], "int", "Int64"),
        (["92233720368547758079", ""], "float", "float64"),
        (["1_000", "2_000"], "kept", "object"),
    ],
)
def test_kinds(cells, kind, dtype):
    column = text(cells)
    assert (column.kind, str(column.series.dtype)) == (kind, dtype)


def test_large_integers_keep_every_digit():
    assert text(["9007199254740993", ""]).series[0] == 9007199254740993


@given(st.lists(st.floats(-LARGEST, LARGEST), min_size=1))
def test_floats_are_read_exactly(values):
    column = text([f"{v!r}" for v in values] + [""])
    assert column.series.tolist()[:-1] == values


def test_text_among_numbers_is_refused_with_place_and_advice():
    with pytest.raises(InputError, match=r"t.csv line 3, column 'c': 'abc' is not a number.*--columns"):
        text(["1", "abc", "3"])
    with pytest.raises(InputError, match=r"1 more such"):
        text(["1", "abc", "3", "x"])


def test_naming_other_columns_keeps_it():
    column = text(["1", "abc", "3"], named=False)
    assert column.kind == "kept"
    assert column.series.tolist() == ["1", "abc", "3"]


def test_named_text_becomes_categories():
    column = text(["red", "", "blue"], named=True)
    assert column.kind == "category"
    assert column.series.cat.categories.tolist() == ["blue", "red"]
    assert column.series.isna().tolist() == [False, True, False]


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_infinite_is_refused(cell):
    with pytest.raises(InputError, match=r"line 3, column 'c'.*infinite"):
        text(["1", cell])


@pytest.mark.parametrize("cell", ["1e308", "-1.7e308", "1.0001e150", "9" * 200])
def test_what_cannot_be_squared_is_refused(cell):
    with pytest.raises(
        InputError, match=r"line 3, column 'c'.*too large to compute with.*1e\+150.*leave the cell empty"
    ):
        text(["1", cell])
    assert text(["1", cell], named=False).kind == "kept"
    assert text(["1", "1e150", "-1e150"]).kind == "float"


def test_decimal_commas_are_refused_not_taken_for_text():
    with pytest.raises(InputError, match="decimal comma"):
        text(["1,5", "2,25", ""])


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["31,479", "1,234", ""], "'31,479'"),
        (["1,234,567", "-2,000,000.50"], "'1,234,567'"),
        (["+12,000", "x", "NA", "7,001 "], "'\\+12,000'"),
    ],
)
def test_commas_between_thousands_are_not_taken_for_decimal_ones(cells, shown):
    with pytest.raises(InputError, match=f"{shown} has a comma that separates thousands; write numbers without it"):
        text(cells)


@pytest.mark.parametrize("cells", [["31,479", "2,5"], ["1234,500", "31,479"]])
def test_one_decimal_comma_is_enough_to_tell(cells):
    with pytest.raises(InputError, match=r"'(2,5|1234,500)' has a decimal comma; write numbers with a decimal point"):
        text(cells)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["TRUE", "FALSE"], ("FALSE", "TRUE")),
        (["true", "TRUE", "TRUE", ""], ("FALSE", "TRUE")),
        (["False", ""], ("False", "True")),
        (["false", "NA"], ("false", "true")),
    ],
)
def test_booleans_keep_their_spelling(cells, words):
    column = text(cells)
    assert (format_value(False, column), format_value(True, column)) == words


def test_typed_columns():
    def typed(series, named=None, **kw):
        return classify(RawColumn("c", series=series, **kw), where, named)

    assert typed(pd.Series([1.0, np.nan])).kind == "float"
    assert typed(pd.Series([1, None], dtype="Int64")).kind == "int"
    assert typed(pd.Series([2**64 - 1, None], dtype="UInt64")).kind == "float"
    assert typed(pd.Series([True, None], dtype="boolean")).kind == "bool"
    assert typed(pd.Series(["a", None], dtype=object)).kind == "kept"
    assert typed(pd.Series(["a", None], dtype=object), named=True).kind == "category"
    assert typed(pd.Series([1.0, np.nan]), named=False).kind == "kept"
    with pytest.raises(InputError, match="infinite"):
        typed(pd.Series([1.0, np.inf]))
    with pytest.raises(InputError, match="line 3, column 'c': 1e\\+308 is too large"):
        typed(pd.Series([1.0, 1e308]))
    with pytest.raises(InputError, match="timestamp values"):
        typed(pd.Series(["x"], dtype=object), named=True, fillable=False, note="timestamp")

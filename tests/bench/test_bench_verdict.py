"""What a comparison says: sentences that follow from the figures, and a table that lines up."""

from __future__ import annotations

import json

import numpy as np
import pytest

from megae.bench.ranking import Entry, Scored
from megae.bench.verdict import Comparison

SETTINGS = {
    "repeats": 3,
    "rate": 0.1,
    "mechanism": "mcar",
    "unit": "range",
    "time_budget": None,
    "device": None,
    "seed": 0,
    "n_resamples": 2000,
    "graph": "given",
    "methods": {},
}
HEAD = ["rank", "method", "score", "95", "%", "interval", "to", "the", "winner"]


def entry(method: str, rank: int | None, score: float, **more) -> Entry:
    away = score - 0.1
    known = {"rank": rank, "score": score, "low": score - 0.01, "high": score + 0.01, "rmse": score, "mae": score / 2}
    known |= {"difference": away, "difference_low": away - 0.02, "difference_high": away + 0.02, "best": 0.0}
    known |= {"tied": rank != 1 and abs(away) < 0.02, "by_column": np.array([score, np.nan])}
    return Entry(method, 1.25, **(known | more))


def comparison(*entries: Entry, **settings) -> Comparison:
    scored = Scored(np.arange(1234), np.zeros(1234, dtype=int), ["a", "b"], np.array([False, False]))
    return Comparison(list(entries), scored, SETTINGS | settings, 12_345, [])


def test_a_clear_winner_and_its_lead():
    result = comparison(entry("svd", 1, 0.1, best=0.994), entry("knn", 2, 0.2), entry("mean", 3, 0.3))
    assert result.verdict() == (
        "svd has the lowest error, 0.1000 (95 % interval 0.0900 to 0.1100), ahead of every other method; its lead over "
        "knn is 0.1000 (0.0800 to 0.1200). svd is first in 99 % of resamples."
    )


def test_methods_that_cannot_be_told_apart_are_named():
    result = comparison(
        entry("svd", 1, 0.1, best=0.5), entry("knn", 2, 0.105), entry("gain", 3, 0.11), entry("mean", 4, 0.3)
    )
    assert [e.method for e in result.tied] == ["knn", "gain"]
    assert "but knn and gain are not distinguishable from it. svd is first in 50 %" in result.verdict()
    assert "cannot be told" not in result.verdict()


@pytest.mark.parametrize("floor", ["mean", "zero", "median", "graph-mean"])
def test_a_trivial_method_that_cannot_be_told_from_the_winner_is_said_plainly(floor):
    result = comparison(entry("svd", 1, 0.1), entry(floor, 2, 0.101))
    said = f"{floor} cannot be told from the winner here: these cells do not show that the graph or a model helps"
    assert said in result.verdict()
    assert f"{floor} looks at one column alone" in comparison(entry(floor, 1, 0.1), entry("svd", 2, 0.2)).verdict()


def test_the_reference_is_judged_too():
    alike = comparison(entry("svd", 1, 0.1), entry("mean", None, 0.101, best=None))
    assert "mean cannot be told from the winner here" in alike.verdict()
    better = comparison(entry("svd", 1, 0.1), entry("mean", None, 0.05, best=None))
    assert "mean, which was not asked for, has a lower error still: prefer it." in better.verdict()
    worse = comparison(entry("svd", 1, 0.1), entry("mean", None, 0.3, best=None))
    assert worse.verdict() == "svd has the lowest error, 0.1000 (95 % interval 0.0900 to 0.1100)."


def test_the_table_lines_up_and_marks_what_it_must():
    failed = Entry("a-method-with-a-long-name", 3.0, error="ValueError: no")
    result = comparison(
        entry("svd", 1, 0.1), entry("knn", 2, 0.105), entry("zero", 3, 1.5), entry("mean", None, 0.2, best=None), failed
    )
    lines = result.lines()
    assert lines[0].split() == ["rank", "method", "RMSE", *HEAD[3:], "seconds"]
    assert lines[1].startswith("   1  svd ")
    assert lines[2].split()[-2:] == ["~", "1.2"]
    assert "~" not in lines[3]
    assert lines[4].split()[:2] == ["-", "mean"]
    assert lines[5] == "   -  a-method-with-a-long-name  failed: ValueError: no"
    assert lines[6].startswith("~ not distinguishable")
    assert lines[7].startswith("A method without a rank")
    figures = ("0.1000", "0.1050", "1.5000")
    assert len({line.index(figure) for line, figure in zip(lines[1:4], figures, strict=True)}) == 1
    assert len({len(line) for line in lines[:5]}) == 1
    assert str(result) == "\n".join([result.heading(), *lines, result.verdict()])


def test_heading_says_what_was_hidden_and_in_which_units():
    assert comparison(entry("svd", 1, 0.1)).heading() == (
        "error in each column's observed range, over 1,234 cells hidden on purpose (10 % of 12,345 observed cells, "
        "3 times, mcar)"
    )
    once = comparison(entry("svd", 1, 0.1, error_rate=0.2), repeats=1, unit="std")
    assert "in each column's standard deviation (categories as columns of 0 and 1)" in once.heading()
    assert "once" in once.heading()


def test_categories_get_columns_of_their_own():
    both = comparison(entry("svd", 1, 0.1, rmse=0.05, error_rate=0.25))
    assert both.lines()[0].split()[-3:] == ["RMSE", "wrong", "seconds"]
    assert both.lines()[1].split()[-4:] == ["0.0500", "25.0", "%", "1.2"]
    alone = comparison(entry("svd", 1, 0.5, rmse=None, mae=None, error_rate=0.25))
    assert alone.lines()[0].split() == [*HEAD, "wrong", "seconds"]


def test_columns_name_their_best_ranked_method():
    first = entry("svd", 1, 0.1, by_column=np.array([0.3, np.nan]))
    second = entry("knn", 2, 0.2, by_column=np.array([0.2, np.nan]))
    reference = entry("mean", None, 0.3, by_column=np.array([0.1, np.nan]), best=None)
    [column] = comparison(first, second, reference).columns()
    assert column["name"] == "a"
    assert column["winner"] == "knn"
    assert column["cells"] == 1234
    assert column["figures"] == {"svd": 0.3, "knn": 0.2, "mean": 0.1}


def test_plain_data_is_ready_for_json():
    result = comparison(entry("svd", 1, 0.1), Entry("gain", 1.0, error="ValueError: no"))
    data = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert data["winner"] == "svd"
    assert [m["status"] for m in data["methods"]] == ["winner", "failed"]
    assert data["cells"] == {"observed": 12_345, "hidden": 1234, "rows": 1234}

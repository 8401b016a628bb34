"""The page of ``megae compare``: its figures are the ones it was given, its chart is to scale."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_report_html import EVIL, Outline

from megae.io.errors import InputError
from megae.report.compare import GENERATOR, _log_ticks, interval_chart, write_compare_report
from megae.report.html import generator_of


def method(name: str, rank: int | None, score: float, status: str, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = dict(method=name, rank=rank, score=score, low=score * 0.9, high=score * 1.1, rmse=score)
    row |= dict(mae=score / 2, error_rate=None, difference=score - 0.1, difference_low=score - 0.11)
    row |= dict(difference_high=score - 0.09, tied=status == "tied", best=0.5, seconds=1.26, error=None)
    return row | dict(status=status, warnings=[]) | more


def result(**changes: Any) -> dict[str, Any]:
    columns = [
        dict(name=f"c{j}", measure="rmse", cells=10 + 30 * j, figures={"svd": 0.1, "knn": 0.105, "mean": 0.4}, winner=w)
        for j, w in enumerate(["svd", "knn", "svd"])
    ]
    made: dict[str, Any] = dict(
        nodes="data/nodes.csv",
        edges="data/edges.csv",
        rows=1200,
        winner="svd",
        tied=["knn"],
        verdict="svd has the lowest error " + EVIL,
        heading="",
        units="each column's observed range",
        kinds=["numbers"],
        methods=[
            method("svd", 1, 0.1, "winner", warnings=["mind " + EVIL]),
            method("knn", 2, 0.105, "tied"),
            method("zero", 3, 0.8, "behind"),
            method("mean", None, 0.4, "reference", best=None),
            dict(method="gain", rank=None, error="ValueError: " + EVIL, status="failed", seconds=2.0, warnings=[]),
        ],
        columns=columns,
        cells=dict(observed=9876, hidden=2468, rows=654),
        settings=dict(
            repeats=3, rate=0.1, mechanism="mnar", unit="range", time_budget=20.0, device="cpu", seed=11,
            n_resamples=2000, graph="given", methods={"svd": {"rank": 4}},
        ),
        notes=["only 9 rows " + EVIL],
    )  # fmt: skip
    return made | changes


def write(path: Path, **changes: Any) -> tuple[str, Outline]:
    write_compare_report(path, result(**changes), title="nodes.csv")
    text = path.read_text(encoding="utf-8")
    return text, Outline(text)


def test_page_shows_the_ranking_in_order(tmp_path: Path) -> None:
    text, outline = write(tmp_path / "r.html")
    assert generator_of(tmp_path / "r.html") == GENERATOR
    tiles = re.findall(r'class="value">([^<]+)</div>', text)
    assert tiles == ["svd", "0.1000", "0.25×", "1"]
    ranking = re.search(r"<tbody>(.*?)</tbody>", text, re.DOTALL)
    assert ranking is not None
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", ranking[1])
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    assert [c[0] for c in cells] == ["1", "2", "3", "–", "–"]
    assert [re.split("<", c[1])[0] for c in cells] == ["svd", "knn", "zero", "mean", "gain"]
    assert cells[1][2] == "0.1050<small>0.0945 to 0.1155</small>"
    assert cells[1][3] == "0.0050<small>−0.0050 to 0.0150</small>"
    assert "not distinguishable from the winner" in cells[1][1]
    assert "not distinguishable" not in cells[2][1]
    assert "failed: ValueError" in cells[4][1]
    assert rows[0] in text.split('<tr class="main">')[1]
    for fact in (
        "data/nodes.csv",
        "data/edges.csv",
        "9,876",
        "mnar",
        "20 s per training",
        "svd: rank=4",
        "torch ",
        "11",
    ):
        assert fact in text
    assert sum(tag == "svg" for tag, _ in outline.tags) == 1
    assert '<div class="scroll chart"><svg' in text  # wide enough to be read on a phone


def test_columns_and_who_wins_them(tmp_path: Path) -> None:
    text, _ = write(tmp_path / "r.html")
    wins = re.findall(r'<td class="text">(svd|knn)</td><td class="wide">.*?</td><td class="num">(\d)</td>', text)
    assert wins == [("svd", "2"), ("knn", "1")]
    assert "1 of 3 columns have fewer than 30 hidden cells" in text
    assert [name for name in re.findall(r'<td class="text">(c\d)</td>', text)] == ["c0", "c1", "c2"]


def test_a_warning_of_several_methods_stands_once(tmp_path: Path) -> None:
    methods = [
        method(name, k + 1, 0.1 + k, "behind", warnings=["empty 'note'"]) for k, name in enumerate(["svd", "knn"])
    ]
    text, _ = write(tmp_path / "r.html", methods=methods)
    assert text.count("empty &#x27;note&#x27;") == 1
    assert '<td class="text">svd, knn</td>' in text
    assert "wrong categories" not in text


def test_user_text_is_escaped(tmp_path: Path) -> None:
    columns = result()["columns"]
    columns[0]["name"] = EVIL
    _, outline = write(tmp_path / "r.html", nodes=EVIL, columns=columns)
    assert not any(tag == "script" for tag, _ in outline.tags)
    assert sum(EVIL in words for words in outline.words) >= 6


def test_categories_have_figures_of_their_own(tmp_path: Path) -> None:
    methods = [method("svd", 1, 0.1, "winner", rmse=0.05, error_rate=0.125)]
    columns = [dict(name="colour", measure="error_rate", cells=40, figures={"svd": 0.125}, winner="svd")]
    text, _ = write(tmp_path / "a.html", kinds=["numbers", "categories"], methods=methods, columns=columns, tied=[])
    for part in ("Score", "RMSE of numbers", "0.0500", "12.5 %", "12.5 % wrong"):
        assert part in text
    methods = [method("svd", 1, 0.1, "winner", rmse=None, mae=None, error_rate=0.01)]
    text, _ = write(tmp_path / "b.html", kinds=["categories"], methods=methods, columns=columns, tied=[])
    assert "RMSE of numbers" not in text
    assert ">MAE<" not in text


def test_without_notes_warnings_edges_or_mean(tmp_path: Path) -> None:
    quiet = [method("svd", 1, 0.1, "winner"), method("knn", 2, 0.2, "behind")]
    for column in (columns := result()["columns"]):
        column["figures"] = {"svd": 0.1, "knn": 0.2}
    settings = result()["settings"] | dict(graph="built by each method", time_budget=None, device=None, methods={})
    changes = dict(methods=quiet, columns=columns, notes=[], settings=settings, edges=None, tied=[])
    text, _ = write(tmp_path / "r.html", **changes)
    assert "What the methods warned of" not in text
    assert 'class="notice"' not in text
    assert "built by each method" in text
    assert re.findall(r'class="value">([^<]+)</div>', text)[2:] == ["–", "0"]


def marks(svg: str) -> tuple[np.ndarray, np.ndarray]:
    """Circles (n,) and the ends of the intervals (n, 2), along the axis."""
    circles = [float(v) for v in re.findall(r'class="mark"[^>]*cx="([\d.]+)"', svg)]
    ends = re.findall(r'class="line"[^>]*x1="([\d.]+)" x2="([\d.]+)"', svg)
    return np.array(circles), np.array(ends, dtype=float)


@pytest.mark.parametrize(("scores", "logarithmic"), [([0.1, 0.12, 0.3], False), ([0.01, 0.05, 3.0], True)])
def test_chart_is_to_scale(scores: list[float], logarithmic: bool) -> None:
    rows = [(f"m{i}", s * 0.9, s, s * 1.1, i == 0) for i, s in enumerate(scores)]
    svg = interval_chart(rows, alt="a < b", x_name="error")
    assert ("logarithmic" in svg) == logarithmic
    shape = np.log if logarithmic else np.asarray
    data = shape(np.array([[r[1], r[2], r[3]] for r in rows]))
    circles, ends = marks(svg)
    drawn = np.column_stack([ends[:, 0], circles, ends[:, 1]])
    slope, start = np.polyfit(data.ravel(), drawn.ravel(), 1)
    assert slope > 0
    np.testing.assert_allclose(drawn, start + slope * data, atol=0.2)
    ticks = re.findall(r'<text x="([\d.]+)" y="\d+" text-anchor="middle">([\d.]+)</text>', svg)
    assert len(ticks) >= 2
    for x, label in ticks:
        assert float(x) == pytest.approx(start + slope * float(shape(float(label))), abs=0.2)
    assert svg.count("stroke:var(--accent)") == 2
    assert "a &lt; b" in svg


def test_chart_stands_one_perfect_method_and_equal_ones() -> None:
    for rows in ([("m", 0.0, 0.0, 0.0, True)], [("m", 1.0, 1.0, 1.0, True)] * 2):
        svg = interval_chart(rows, alt="flat", x_name="error")
        assert "nan" not in svg
        assert len(marks(svg)[0]) == len(rows)


def test_log_ticks_are_round_and_inside() -> None:
    assert _log_ticks(0.03, 1.6) == [0.05, 0.1, 0.2, 0.5, 1.0]
    assert _log_ticks(1e-6, 10.0) == [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]


def test_many_columns_are_cut_and_an_existing_file_is_kept(tmp_path: Path) -> None:
    columns = [result()["columns"][0] | dict(name=f"c{j}") for j in range(450)]
    text, _ = write(tmp_path / "r.html", columns=columns)
    assert "first 200 of 450 columns" in text
    with pytest.raises(InputError, match="--force"):
        write(tmp_path / "r.html")

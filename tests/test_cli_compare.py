"""``megae compare``: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from megae.bench.compare import compare as library
from megae.cli import main
from megae.commands.compare import Mechanism, Unit
from megae.imputers import REGISTRY, MeanImputer
from megae.io import adjacency, edges_of, open_document, read_table

N = 80
FEW = ["--methods", "zero,mean,knn,feature-propagation"]
USUAL = ["nodes.csv", "--edges", "edges.csv", *FEW]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    t = 2 * np.pi * np.arange(N) / N
    frame = pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(N)],
            "x": np.sin(t) + 0.05 * rng.standard_normal(N),
            "y": pd.array(np.rint(100 * np.cos(t)).astype(int), dtype="Int64"),
            "colour": np.where(np.sin(t) > 0, "red", "blue"),
        }
    )
    frame.loc[::7, "x"] = np.nan
    frame.loc[3::9, "y"] = pd.NA
    frame.to_csv("nodes.csv", index=False)
    edges = pd.DataFrame({"source": [f"n{i}" for i in range(N)], "target": [f"n{(i + 1) % N}" for i in range(N)]})
    edges.to_csv("edges.csv", index=False)
    return tmp_path


def run(*args: str, code: int = 0) -> None:
    assert main(["compare", *args]) == code


def refused(folder: Path, capsys: pytest.CaptureFixture[str], args: list[str], *parts: str) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    run(*args, code=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1, captured.err
    assert captured.err.startswith("megae: error: ")
    for part in parts:
        assert part in captured.err
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_choices_are_those_of_the_library():
    from megae.bench.hidden_cells import UNITS
    from megae.missingness import MECHANISMS

    assert {m.value for m in Mechanism} == set(MECHANISMS)
    assert {u.value for u in Unit} == set(UNITS)


def test_it_prints_what_the_library_finds(folder, capsys):
    run(*USUAL, "--seed", "3")
    captured = capsys.readouterr()
    edges = edges_of(open_document(folder / "edges.csv"))
    table = read_table(folder / "nodes.csv", edges=edges)
    A, _ = adjacency(edges, table.ids, folder / "nodes.csv")
    result = library(table.frame(), A, FEW[1].split(","), random_state=3)
    lines = captured.out.splitlines()
    assert lines[0] == result.heading()
    assert lines[-1] == result.verdict()
    for line, wanted in zip(lines[1:-1], result.lines(), strict=True):
        assert line.split()[:-1] == wanted.split()[:-1], "all but the seconds"
    assert lines[2].split()[:2] == ["1", result.winner.method]
    progress = captured.err.splitlines()
    assert progress[0].startswith("megae: ")
    assert [line.split()[1] for line in progress[1:]] == FEW[1].split(",")
    assert sorted(os.listdir(folder)) == ["edges.csv", "nodes.csv"]


def test_options_change_what_is_hidden_and_counted(folder, capsys):
    found = {}
    for name, more in {
        "plain": [],
        "std": ["--unit", "std"],
        "mnar": ["--mechanism", "mnar"],
        "whole": ["--mechanism", "whole-node"],
        "rate": ["--rate", "0.3"],
        "repeats": ["--repeats", "6"],
        "seed": ["--seed", "1"],
    }.items():
        run(*USUAL, *more, "--json")
        found[name] = json.loads(capsys.readouterr().out)
    assert len({json.dumps(r["methods"][0]["score"]) for r in found.values()}) == len(found)
    assert found["rate"]["cells"]["hidden"] > 2 * found["plain"]["cells"]["hidden"]
    assert found["std"]["units"] == "each column's standard deviation"
    assert found["std"]["cells"] == found["plain"]["cells"]
    assert found["whole"]["settings"]["mechanism"] == "whole-node"


def test_json_is_all_of_stdout(folder, capsys):
    run(*USUAL, "--json", "--report", "r.html", "--out", "t.csv", "--then-impute", "f.csv")
    captured = capsys.readouterr()
    assert captured.err == ""
    result = json.loads(captured.out)
    assert result["command"] == "compare"
    assert result["winner"] == result["methods"][0]["method"]
    assert {m["method"] for m in result["methods"]} == set(FEW[1].split(","))
    assert result["graph"]["kept"] == N
    assert result["filled"] == 12 + 9
    assert result["written"] == {"then-impute": "f.csv", "out": "t.csv", "report": "r.html"}
    assert {c["name"] for c in result["columns"]} == {"x", "y"}


def test_ranking_is_written(folder, capsys):
    run(*USUAL, "--out", "t.csv", "--json")
    result = json.loads(capsys.readouterr().out)
    with open("t.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [r["method"] for r in rows] == [m["method"] for m in result["methods"]]
    assert [int(r["rank"]) for r in rows] == [1, 2, 3, 4]
    assert [float(r["score"]) for r in rows] == [m["score"] for m in result["methods"]]
    assert rows[0]["status"] == "winner"
    run(*USUAL, "--out", "t.parquet", "--quiet")
    table = pd.read_parquet("t.parquet")
    assert table["score"].tolist() == [m["score"] for m in result["methods"]]


@pytest.mark.parametrize("mechanism", ["mcar", "whole-node"])
def test_winner_fills_the_table_as_impute_does(folder, capsys, mechanism):
    run(*USUAL, "--mechanism", mechanism, "--then-impute", "f.csv")
    out = capsys.readouterr().out
    winner = out.splitlines()[2].split()[1]
    assert f"filled 21 holes of nodes.csv with {winner}" in out
    assert "wrote f.csv" in out
    assert main(["impute", "nodes.csv", "--edges", "edges.csv", "--method", winner, "--out", "g.csv", "--quiet"]) == 0
    assert (folder / "f.csv").read_bytes() == (folder / "g.csv").read_bytes()
    assert not pd.read_csv("f.csv").isna().any().any()


def test_no_holes_is_still_ranked_and_there_is_nothing_to_fill(folder, capsys):
    frame = pd.read_csv("nodes.csv").ffill().bfill()
    frame.to_csv("nodes.csv", index=False)
    run(*USUAL, "--then-impute", "f.csv")
    out = capsys.readouterr().out
    assert "1  " in out
    assert "nothing to fill: nodes.csv has no holes" in out
    assert (folder / "f.csv").read_bytes() == (folder / "nodes.csv").read_bytes()


def test_categories_take_part_when_named(folder, capsys):
    run(*USUAL, "--columns", "x,colour", "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["kinds"] == ["numbers", "categories"]
    assert {c["name"]: c["measure"] for c in result["columns"]} == {"x": "rmse", "colour": "error_rate"}
    assert 0 <= result["methods"][0]["error_rate"] <= 1


def test_without_edges_it_works(folder, capsys):
    run("nodes.csv", *FEW, "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["graph"] == {"built": "knn"}
    assert all(m["error"] is None for m in result["methods"])


def test_all_methods_by_default(folder, capsys, monkeypatch):
    few = {name: REGISTRY[name] for name in ("zero", "mean", "knn")}
    for module in ("megae.imputers", "megae.bench.compare"):
        monkeypatch.setattr(f"{module}.REGISTRY", few)
    run("nodes.csv", "--edges", "edges.csv", "--json")
    assert {m["method"] for m in json.loads(capsys.readouterr().out)["methods"]} == {"zero", "mean", "knn"}


def test_report_is_a_page(folder):
    run(*USUAL, "--report", "r.html", "--quiet")
    page = (folder / "r.html").read_text()
    assert "nodes.csv" in page
    assert "feature-propagation" in page


def test_quiet_prints_nothing(folder, capsys):
    run(*USUAL, "--quiet", "--out", "t.csv")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_columns_of_text_that_keep_their_holes_are_named(folder, capsys):
    frame = pd.read_csv("nodes.csv", dtype=str)
    frame.loc[[2, 5], "colour"] = None
    frame.to_csv("nodes.csv", index=False)
    run("nodes.csv", "--edges", "edges.csv", "--methods", "mean,knn", "--then-impute", "out.csv")
    assert "columns of text keep their holes: 'colour' (2); name them in --columns" in capsys.readouterr().err
    assert pd.read_csv("out.csv").isna().sum().tolist() == [0, 0, 0, 2]
    args = ["--columns", "x,colour", "--methods", "mean,knn", "--then-impute", "all.csv"]
    run("nodes.csv", "--edges", "edges.csv", *args)
    assert "keep their holes" not in capsys.readouterr().err
    assert pd.read_csv("all.csv")["colour"].notna().all()


def test_a_failing_method_is_listed_and_warned_about(folder, capsys, monkeypatch):
    class Broken(MeanImputer):
        def _fit(self, graphs, validation):
            raise RuntimeError("it fell over")

    monkeypatch.setitem(REGISTRY, "broken", Broken)
    run("nodes.csv", "--edges", "edges.csv", "--methods", "mean,broken", "--out", "t.csv")
    captured = capsys.readouterr()
    assert "-  broken  failed: RuntimeError: it fell over" in captured.out
    assert "megae: warning: broken failed: RuntimeError: it fell over" in captured.err
    assert pd.read_csv("t.csv")["error"].tolist()[1] == "RuntimeError: it fell over"


def test_a_winner_that_fails_on_the_whole_table_does_not_lose_the_ranking(folder, capsys, monkeypatch):
    class Weary(MeanImputer):
        calls = 0

        def _fit(self, graphs, validation):
            Weary.calls += 1
            if Weary.calls > 3:
                raise RuntimeError("enough")
            super()._fit(graphs, validation)

    monkeypatch.setitem(REGISTRY, "weary", Weary)
    args = ["nodes.csv", "--edges", "edges.csv", "--methods", "weary", "--out", "t.csv", "--then-impute", "f.csv"]
    run(*args, "--json", code=2)
    captured = capsys.readouterr()
    assert "weary failed on the whole table, nothing was filled: RuntimeError: enough" in captured.err
    result = json.loads(captured.out)
    assert result["winner"] == "weary"
    assert result["filled"] is None
    assert set(result["written"]) == {"out"}
    assert sorted(os.listdir(folder)) == ["edges.csv", "nodes.csv", "t.csv"]


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        (["nodes.csv", "--methods", "mean,featurepropagation"], ["--methods", "did you mean 'feature-propagation'?"]),
        (["nodes.csv", "--methods", ","], ["--methods names no method"]),
        ([*USUAL, "--out", "t.html"], ["--out t.html", ".csv, .tsv or .parquet"]),
        ([*USUAL, "--report", "r.pdf"], ["--report r.pdf", ".html"]),
        ([*USUAL, "--then-impute", "f.xlsx"], ["f.xlsx", ".csv"]),
        ([*USUAL, "--mechanism", "luck"], ["luck", "whole-node"]),
        ([*USUAL, "--rate", "1.5"], ["--rate", "0.9"]),
        ([*USUAL, "--out", "nodes.csv", "--force"], ["--out nodes.csv is one of the input files"]),
        ([*USUAL, "--then-impute", "edges.csv", "--force"], ["--then-impute edges.csv is one of the input files"]),
        ([*USUAL, "--out", "t.csv", "--then-impute", "t.csv"], ["both name t.csv"]),
        ([*USUAL, "--rate", "0.01"], ["139 observed cells", "at least 500"]),
        (["none.csv", *FEW], ["none.csv does not exist"]),
        ([*USUAL, "--time-budget", "0"], ["--time-budget 0", "seconds above 0", "leave it out"]),
        ([*USUAL, "--time-budget", "-3"], ["--time-budget -3", "seconds above 0"]),
        (["nodes.csv", *FEW, "--columns", "x", "--mechanism", "mar"], ["single column", "needs the edges", "--edges"]),
        ([*USUAL, "--mechanism", "mar", "--rate", "0.8"], ["mar cannot hide a share of 0.8", "hide a smaller share"]),
    ],
)
def test_bad_input_is_refused(folder, capsys, args, parts):
    refused(folder, capsys, args, *parts)


def test_a_value_that_cannot_be_squared_is_refused_with_its_place(folder, capsys):
    frame = pd.read_csv("nodes.csv", dtype=str)
    frame.loc[4, "x"] = "1e308"
    frame.to_csv("nodes.csv", index=False)
    wanted = ["nodes.csv line 6, column 'x': '1e308' is too large to compute with", "leave the cell empty"]
    refused(folder, capsys, ["nodes.csv", "--edges", "edges.csv", "--methods", "mean,svd"], *wanted)
    run(*USUAL, "--columns", "y", "--json")
    assert json.loads(capsys.readouterr().out)["winner"] != "mean"


def test_one_column_and_edges_can_go_missing_at_random(folder, capsys):
    edges = pd.read_csv("edges.csv")
    star = pd.DataFrame({"source": "n0", "target": [f"n{i}" for i in range(2, N, 3)]})
    pd.concat([edges, star]).to_csv("edges.csv", index=False)
    run(*USUAL, "--columns", "x", "--mechanism", "mar", "--json")
    assert json.loads(capsys.readouterr().out)["settings"]["mechanism"] == "mar"


@pytest.mark.parametrize("option", ["--out", "--report", "--then-impute"])
def test_existing_outputs_are_kept_unless_forced(folder, capsys, option):
    name = "r.html" if option == "--report" else "o.csv"
    (folder / name).write_text("precious")
    refused(folder, capsys, [*USUAL, option, name], option, "exists already", "--force")
    run(*USUAL, option, name, "--force", "--quiet")
    assert (folder / name).read_text() != "precious"


def test_input_may_be_filled_in_place_by_force(folder):
    run(*USUAL, "--then-impute", "nodes.csv", "--force", "--quiet")
    assert not pd.read_csv("nodes.csv").isna().any().any()

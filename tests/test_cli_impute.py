from __future__ import annotations

import html
import json
import os
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from megae import cli
from megae.cli import main
from megae.imputers import get_imputer

PROPAGATION = "feature-propagation"
ROOT = str(Path(cli.__file__).parents[1])
NODES = (
    "town,id,income,people,rural\r\n"
    '"Aa, north",n1,1.50,10,TRUE\r\n'
    "Bb,n2,,20,FALSE\r\n"
    ",n3,3.250,NA,\r\n"
    "Dd,n4,4e0,0012,TRUE\r\n"
    '"Ee ""x""",n5,?,5,FALSE\r\n'
)
EDGES = "source,target,weight\nn5,n1,2\nn1,n2,1\nn3,n2,0.5\nn3,n4,1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_bytes(NODES.encode())
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def run(*args: str, code: int = 0) -> None:
    assert main(["impute", *args]) == code


def test_only_holes_change_and_they_hold_what_the_library_gives(folder, capsys):
    run("nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "feature-propagation")
    frame = pd.DataFrame(
        {
            "income": [1.5, np.nan, 3.25, 4.0, np.nan],
            "people": pd.array([10, 20, None, 12, 5], dtype="Int64"),
            "rural": pd.array([True, False, None, True, False], dtype="boolean"),
        }
    )
    A = np.zeros((5, 5))
    for u, v, w in [(4, 0, 2), (0, 1, 1), (2, 1, 0.5), (2, 3, 1)]:
        A[u, v] = A[v, u] = w
    import scipy.sparse as sp

    full = get_imputer("feature-propagation").fit_transform(frame, graph=sp.csr_array(A))
    word = {True: "TRUE", False: "FALSE"}
    expected = (
        (
            "town,id,income,people,rural\r\n"
            '"Aa, north",n1,1.50,10,TRUE\r\n'
            f"Bb,n2,{full['income'][1]!r},20,FALSE\r\n"
            f",n3,3.250,{full['people'][2]},{word[bool(full['rural'][2])]}\r\n"
            "Dd,n4,4e0,0012,TRUE\r\n"
            f'"Ee ""x""",n5,{full["income"][4]!r},5,FALSE\r\n'
        )
        .replace("np.float64(", "")
        .replace(")", "")
    )
    assert (folder / "o.csv").read_bytes().decode() == expected
    out = capsys.readouterr().out
    assert "filled 4 holes of nodes.csv (5 rows, 4 edges) with feature-propagation" in out
    assert "; ids: column 'id'\n" in out
    assert "wrote o.csv" in out
    assert sorted(os.listdir(folder)) == ["edges.csv", "nodes.csv", "o.csv"]


def test_order_of_rows_does_not_matter(folder):
    lines = NODES.split("\r\n")
    (folder / "turned.csv").write_bytes("\r\n".join([lines[0], *reversed(lines[1:-1]), ""]).encode())
    for name in ("nodes", "turned"):
        run(f"{name}.csv", "--edges", "edges.csv", "--out", f"{name}-o.csv", "--method", "feature-propagation")
    first = pd.read_csv("nodes-o.csv").set_index("id").sort_index()
    second = pd.read_csv("turned-o.csv").set_index("id").sort_index()
    pd.testing.assert_frame_equal(first, second, rtol=1e-6)


def test_edges_matter(folder):
    (folder / "other.csv").write_text("source,target\nn2,n4\n")
    for name in ("edges", "other"):
        run("nodes.csv", "--edges", f"{name}.csv", "--out", f"{name}-o.csv", "--method", "feature-propagation")
    assert pd.read_csv("edges-o.csv")["income"][1] != pd.read_csv("other-o.csv")["income"][1]


def test_json_is_all_of_stdout_and_says_what_was_done(folder, capsys):
    (folder / "edges.csv").write_text(EDGES + "n1,n1,1\nn2,n1,1\nn9,n1,1\n")
    args = ["nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "mean", "--drop-unknown"]
    run(*args, "--flag-imputed", "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["filled"] == 4
    assert {c["name"]: c["filled"] for c in result["columns"]} == {"income": 2, "people": 1, "rural": 1}
    assert result["kept_columns"] == ["town", "id"]
    assert result["ids"] == "column 'id'"
    graph = result["graph"]
    assert (graph["kept"], graph["self_loops"], graph["duplicates"], graph["unknown_dropped"]) == (4, 1, 1, 1)
    said = f"--drop-unknown: 1 of {graph['listed']} edges left out, of nodes that nodes.csv does not have"
    assert said in result["warnings"]
    flags = pd.read_csv("o.csv")
    assert flags["income_imputed"].tolist() == [False, True, False, False, True]
    assert flags["people_imputed"].tolist() == [False, False, True, False, False]


def test_columns_choose_and_keep_the_rest(folder):
    (folder / "nodes.csv").write_text("id,x,y,colour\na,1,oops,red\nb,,2,\nc,3,4,red\n")
    run("nodes.csv", "--out", "o.csv", "--method", "mean", "--columns", "x,colour")
    assert (folder / "o.csv").read_text() == "id,x,y,colour\na,1,oops,red\nb,2,2,red\nc,3,4,red\n"


def test_report_is_written(folder):
    run("nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "mean", "--report", "r.html")
    page = (folder / "r.html").read_text()
    assert "nodes.csv" in page
    assert "<dt>Ids</dt><dd>column 'id'</dd>" in html.unescape(page)


def test_the_report_shows_what_is_warned_about_the_input(folder):
    (folder / "edges.csv").write_text(EDGES.replace("weight", "dist_km"))
    run("nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "mean", "--report", "r.html")
    page = html.unescape((folder / "r.html").read_text())
    assert "weights: column 'dist_km' (larger is closer)" in page
    assert "columns of text keep their holes: 'town' (1)" in page
    run("nodes.csv", "--out", "p.csv", "--method", "feature-propagation", "--report", "s.html")
    assert "no edges were given, so a graph of similar rows is built" in html.unescape((folder / "s.html").read_text())


def test_row_numbers_are_said_to_be_the_ids(folder, capsys):
    (folder / "nodes.csv").write_text("x,y\n1.5,2\n,3\n2.5,9\n")
    (folder / "edges.csv").write_text("s,t\n0,1\n1,2\n")
    run("nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "mean")
    assert "; ids: row numbers\n" in capsys.readouterr().out


def test_a_weight_by_another_name_is_said(folder, capsys):
    (folder / "edges.csv").write_text(EDGES.replace("weight", "dist_km"))
    run("nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "mean")
    assert "megae: warning: weights: column 'dist_km' (larger is closer)" in capsys.readouterr().err


def test_no_edges_given_is_said(folder, capsys):
    run("nodes.csv", "--out", "o.csv", "--method", "feature-propagation")
    assert "no edges were given" in capsys.readouterr().err


def test_quiet_prints_nothing(folder, capsys):
    args = ["nodes.csv", "--edges", "edges.csv", "--method", "mean", "--quiet"]
    run(*args, "--out", "o.csv", "--columns", "income,people,rural")
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_holes_of_text_columns_are_said_to_stay(folder, capsys):
    run("nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "mean")
    assert "columns of text keep their holes: 'town' (1); name them in --columns" in capsys.readouterr().err
    run("o.csv", "--edges", "edges.csv", "--out", "again.csv", "--method", "mean")
    captured = capsys.readouterr()
    assert "o.csv has no holes in columns of numbers" in captured.out
    assert "'town' (1)" in captured.err


@pytest.mark.parametrize("ending", ["parquet", "graphml"])
def test_holes_of_typed_text_columns_are_said_to_stay(folder, capsys, ending):
    source = folder / f"n.{ending}"
    if ending == "parquet":
        pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, None, 2.0], "town": ["u", None, "v"]}).to_parquet(source)
    else:
        graph = nx.Graph([("a", "b"), ("b", "c")])
        nx.set_node_attributes(graph, {"a": 1.0, "c": 2.0}, "x")
        nx.set_node_attributes(graph, {"a": "u", "c": "v"}, "town")
        nx.write_graphml(graph, source)
    run(str(source), "--out", f"o.{ending}", "--method", "mean")
    assert "columns of text keep their holes: 'town' (1); name them in --columns" in capsys.readouterr().err


def test_holes_of_dates_are_said_to_stay_without_bad_advice(folder, capsys):
    days = pd.to_datetime(["2020-01-01", None, "2020-03-01"])
    pd.DataFrame({"id": ["a", "b", "c"], "x": [1.0, None, 2.0], "day": days}).to_parquet("n.parquet")
    run("n.parquet", "--out", "o.parquet", "--method", "mean")
    err = capsys.readouterr().err
    assert "columns that hold neither numbers nor text keep their holes: 'day' (1); write them as" in err
    assert "--columns" not in err


@pytest.mark.parametrize(
    ("nodes", "edges"),
    [
        ("id,x\na,1.5\nb,\nc,2.5\n", "s,t\n"),
        ("id,x,y\na,1.5,\n", "s,t\n"),
        ("id,x\na,1.5\nb,\nc,2.5\n", "s,t\na,c\n"),
        ("id,x\na,1.5\nb,\nc,2.5\n", "s,t\na,b\nb,a\na,b\n"),
        ("id,x\na,1.5\nb,\nc,2.5\n", "s,t\nb,b\na,b\n"),
        ("id,x,y\na,1.5,2\nb,,\nc,2.5,3\n", "s,t\na,b\n"),
        ("id,x,k\na,5,\nb,5,\nc,,\n", "s,t\na,b\n"),
    ],
    ids=["no-edges", "single-node", "isolated", "duplicates", "self-loop", "empty-row", "empty-column"],
)
@pytest.mark.parametrize("method", ["mean", "feature-propagation", "graph-mean"])
def test_odd_graphs_are_filled(folder, nodes, edges, method):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    run("nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", method)
    filled = pd.read_csv("o.csv")
    assert not filled.isna().any().any()
    known = pd.read_csv("nodes.csv")
    assert (filled == known)[known.notna()].where(known.notna(), True).all().all()


def test_column_of_holes_is_warned_about(folder, capsys):
    (folder / "nodes.csv").write_text("id,x,k\na,1.5,\nb,2.5,\n")
    run("nodes.csv", "--edges", "edges.csv", "--drop-unknown", "--out", "o.csv", "--method", "mean")
    err = capsys.readouterr().err
    assert "warning" in err
    assert "'k'" in err


def test_no_holes_gives_the_same_bytes(folder, capsys):
    data = '\ufeffid;x\r\n"a";1,0\r\n'.replace("1,0", "1.0").encode() + b"\r\nb;2.50"
    (folder / "nodes.csv").write_bytes(data)
    run("nodes.csv", "--out", "o.csv", "--flag-imputed")
    assert (folder / "o.csv").read_bytes() == data
    assert "no holes" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["parquet", "graphml", "npz"])
def test_no_holes_gives_the_same_bytes_in_binary_formats(folder, ending):
    source = folder / f"n.{ending}"
    if ending == "parquet":
        pd.DataFrame({"id": ["a", "b"], "x": [1.0, 2.0]}).to_parquet(source)
    elif ending == "graphml":
        graph = nx.path_graph(2)
        nx.set_node_attributes(graph, 1.5, "x")
        nx.write_graphml(graph, source)
    else:
        np.savez(source, x=np.ones((2, 2)), edge_index=np.array([[0], [1]]))
    run(str(source), "--out", f"o.{ending}")
    assert (folder / f"o.{ending}").read_bytes() == source.read_bytes()


@pytest.mark.parametrize("source", ["csv", "tsv", "parquet", "graphml", "npz"])
@pytest.mark.parametrize("target", ["csv", "tsv", "parquet", "graphml", "npz"])
def test_every_format_in_and_out(folder, source, target):
    run("nodes.csv", "--edges", "edges.csv", "--out", "want.csv", "--method", "feature-propagation")
    want = pd.read_csv("want.csv").set_index("id")["income"]
    from megae.io import adjacency, edges_of, open_document, read_table, write_table

    edges = edges_of(open_document(folder / "edges.csv"))
    table = read_table(folder / "nodes.csv", edges=edges)
    A, _ = adjacency(edges, table.ids, folder / "nodes.csv")
    if source != "csv":
        _write_with_holes(folder / f"nodes.{source}", table, A, write_table)
    own = source in ("graphml", "npz")
    more = [] if own else ["--edges", "edges.csv"]
    run(f"nodes.{source}", *more, "--out", f"o.{target}", "--method", "feature-propagation")
    again = read_table(folder / f"o.{target}")
    assert again.ids == list(want.index)
    assert np.allclose(again.frame()["income"], want, rtol=1e-9)


def _write_with_holes(path, table, A, write_table):
    """The table in another format, holes left open."""
    if path.suffix == ".tsv":
        text = "\n".join("\t".join(str(c.series[i]) for c in table.columns) for i in range(len(table.ids)))
        path.write_text("\t".join(c.name for c in table.columns) + "\n" + text.replace("<NA>", "NA"))
    elif path.suffix == ".parquet":
        pd.DataFrame({c.name: c.series.array for c in table.columns}).to_parquet(path)
    elif path.suffix == ".npz":
        coo = A.tocoo()
        x = table.frame().astype("Float64").to_numpy(dtype=float, na_value=np.nan)
        names = list(table.frame().columns)
        np.savez(
            path,
            x=x,
            columns=np.array(names),
            ids=np.array(table.ids),
            edge_weight=coo.data,
            edge_index=np.stack([coo.row, coo.col]),
        )
    else:
        graph = nx.Graph()
        for i, key in enumerate(table.ids):
            values = {c.name: c.series[i] for c in table.fillable}
            graph.add_node(key, **{k: v.item() if hasattr(v, "item") else v for k, v in values.items() if pd.notna(v)})
        coo = A.tocoo()
        for u, v, w in zip(coo.row, coo.col, coo.data, strict=True):
            graph.add_edge(table.ids[u], table.ids[v], weight=float(w))
        nx.write_graphml(graph, path)


def test_force_replaces_even_the_input(folder):
    run("nodes.csv", "--edges", "edges.csv", "--out", "nodes.csv", "--method", "mean", "--force")
    assert b"?" not in (folder / "nodes.csv").read_bytes()


def test_module_in_its_own_process(folder):
    options = ["nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", PROPAGATION, "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "megae", "impute", *options],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["filled"] == 4
    assert (folder / "o.csv").exists()


def test_a_table_too_small_to_hold_anything_out_prints_no_error_and_has_its_report(folder, capsys):
    args = ("nodes.csv", "--edges", "edges.csv", "--max-steps", "2", "--report", "r.html")
    run(*args, "--out", "o.csv")
    shown = capsys.readouterr()
    assert "nan" not in shown.out.lower()
    assert "RMSE" not in shown.out
    assert "nothing is known about the error" in shown.err
    assert (folder / "r.html").is_file()
    run(*args, "--out", "o.csv", "--force", "--json")
    rmse = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["diagnostics"]["rmse"]
    assert rmse == {"megae": None, "mean": None, "propagation": None}


def test_intervals_of_too_small_a_table_are_refused_and_nothing_is_written(folder, capsys):
    run("nodes.csv", "--edges", "edges.csv", "--max-steps", "2", "--out", "o.csv", "--intervals", "i.csv", code=2)
    assert "leave --intervals out" in capsys.readouterr().err
    assert not (folder / "o.csv").exists()

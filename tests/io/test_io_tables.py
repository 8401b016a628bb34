from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from megae.io import adjacency, edges_of, open_document, read_table, write_table
from megae.io.errors import InputError

CSV = 'id,town,x,n,ok\na,"A, B",1.50,1,TRUE\nb,,,2,FALSE\nc,C,0.1,,\n'


@pytest.fixture
def table(tmp_path):
    (tmp_path / "n.csv").write_text(CSV)
    return read_table(tmp_path / "n.csv")


@pytest.fixture
def filled(table):
    frame = table.frame()
    frame["x"] = frame["x"].fillna(0.3)
    frame["n"] = frame["n"].fillna(5)
    frame["ok"] = frame["ok"].fillna(True)
    return frame


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".graphml", ".npz"])
def test_values_survive_every_format(tmp_path, table, filled, ending):
    out = tmp_path / f"o{ending}"
    A = adjacency(_edges(tmp_path), table.ids, out)[0]
    write_table(out, table, filled, graph=A)
    again = read_table(out)
    assert again.ids == ["a", "b", "c"]
    frame = again.frame()
    assert frame["x"].tolist() == [1.5, 0.3, 0.1]
    assert frame["n"].astype(float).tolist() == [1.0, 2.0, 5.0]
    assert frame["ok"].astype(float).tolist() == [1.0, 0.0, 1.0]
    if ending in (".graphml", ".npz"):
        assert np.array_equal(adjacency(again.document.edges, again.ids, out)[0].toarray(), A.toarray())
    if ending == ".npz":
        with np.load(out, allow_pickle=False) as archive:
            assert archive["column:town"].tolist() == ["A, B", "", "C"]
    elif ending == ".graphml":
        assert nx.read_graphml(out).nodes["a"]["town"] == "A, B"
    else:
        town = next(c for c in again.columns if c.name == "town").series
        assert [None if pd.isna(v) or not v else v for v in town] == ["A, B", None, "C"]


def _edges(tmp_path):
    (tmp_path / "e.csv").write_text("s,t,w\na,b,2\n")
    return edges_of(open_document(tmp_path / "e.csv"))


def test_csv_keeps_characters(tmp_path, table, filled):
    write_table(tmp_path / "o.csv", table, filled)
    expected = 'id,town,x,n,ok\na,"A, B",1.50,1,TRUE\nb,,0.3,2,FALSE\nc,C,0.1,5,TRUE\n'
    assert (tmp_path / "o.csv").read_text() == expected


def test_csv_to_tsv_keeps_characters(tmp_path, table, filled):
    write_table(tmp_path / "o.tsv", table, filled, flag=True)
    lines = (tmp_path / "o.tsv").read_text().splitlines()
    assert lines[0] == "id\ttown\tx\tn\tok\tx_imputed\tn_imputed\tok_imputed"
    assert lines[1] == "a\tA, B\t1.50\t1\tTRUE\tFalse\tFalse\tFalse"
    assert lines[2] == "b\t\t0.3\t2\tFALSE\tTrue\tFalse\tFalse"


def test_only_holes_are_taken_from_the_filled_frame(tmp_path, table, filled):
    filled.loc["a", "x"] = 99.0
    write_table(tmp_path / "o.csv", table, filled)
    assert "99" not in (tmp_path / "o.csv").read_text()


def test_graphml_to_csv_has_ids(tmp_path):
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: {"x": 1.0}, 1: {"x": 2.0}})
    nx.write_graphml(graph, tmp_path / "g.graphml")
    table = read_table(tmp_path / "g.graphml")
    write_table(tmp_path / "o.csv", table, table.frame().fillna(3.0))
    assert (tmp_path / "o.csv").read_text() == "id,x\n0,1.0\n1,2.0\n2,3.0\n"


@pytest.mark.parametrize(
    ("nodes", "edges", "source"),
    [
        ("id,x\na,1\nb,2\n", "s,t\na,b\n", "column 'id'"),
        ("x,Name\n1,a\n2,b\n", "s,t\na,b\n", "column 'Name'"),
        ("state,x\na,1\nb,2\n", "s,t\na,b\n", "column 'state'"),
        (",x\n7,1\n8,2\n", "s,t\n7,8\n", "column ''"),
        ("x,y\n5,1\n5,2\n", "s,t\n0,1\n", "row numbers"),
        ("name,x\nAl,1\nBo,2\n", "s,t\n0,1\n", "row numbers"),
        ("id,name,x\n1,a,5\n2,b,6\n", "s,t\na,b\n", "column 'name'"),
        ("id,x\n1,5\n2,6\n", "s,t\n0,1\n", "column 'id'"),
        ("fips,x\n1,5\n2,6\n3,7\n", "s,t\n1,2\n2,0\n", "column 'fips'"),
        ("x,y\n1.5,2\n2.5,3\n", "s,t\n", "row numbers"),
    ],
)
def test_which_column_holds_the_ids(tmp_path, nodes, edges, source):
    (tmp_path / "n.csv").write_text(nodes)
    (tmp_path / "e.csv").write_text(edges)
    table = read_table(tmp_path / "n.csv", edges=edges_of(open_document(tmp_path / "e.csv")))
    assert table.id_source == source
    assert table.id_column not in [c.name for c in table.fillable]


def test_row_number_can_be_asked_for(tmp_path):
    (tmp_path / "n.csv").write_text("id,x\n1,5\n2,6\n")
    assert read_table(tmp_path / "n.csv", id_column="#").ids == ["0", "1"]


def test_an_id_that_reads_as_missing_is_an_id(tmp_path):
    (tmp_path / "n.csv").write_text("id,x\nNA,1\nZA,\n")
    assert read_table(tmp_path / "n.csv").ids == ["NA", "ZA"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,x\na,1\na,2\n", {}, r"line 3: the id 'a' occurs twice.*line 2"),
        ("id,x\na,1\n,2\n", {}, r"line 3: the id is missing"),
        ("id,x\na,1\n", {"id_column": "key"}, r"no column 'key' .*--id.*id, x"),
        ("id,x\na,1\n", {"columns": ["z"]}, r"no column 'z' .*--columns"),
        ("id,x\na,1\n", {"columns": ["id"]}, r"never filled"),
        ("id,x,y\na,,NA\nb,?,\n", {}, r"all holes"),
        ("id,x\n", {}, r"no rows"),
        ("id,x\na,red\nb,blue\n", {}, r"no column of numbers"),
    ],
)
def test_bad_tables(tmp_path, text, options, message):
    (tmp_path / "n.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "n.csv", **options)


def test_flag_that_collides_is_refused(tmp_path):
    (tmp_path / "n.csv").write_text("id,x,x_imputed\na,1,0\nb,,1\n")
    with pytest.raises(InputError, match="already has a column 'x_imputed'"):
        read_table(tmp_path / "n.csv").check_flags()


def test_large_tables_read_and_write_fast(tmp_path):
    import time

    rng = np.random.default_rng(0)
    X = rng.normal(size=(25_000, 32)).round(6)
    frame = pd.DataFrame(X).mask(rng.random(X.shape) < 0.05)
    path = tmp_path / "big.csv"
    frame.to_csv(path, index_label="id")
    started = time.perf_counter()
    table = read_table(path)
    assert np.array_equal(table.frame().to_numpy(), frame.to_numpy(), equal_nan=True)
    write_table(tmp_path / "o.csv", table, table.frame().fillna(0.5))
    assert time.perf_counter() - started < 60

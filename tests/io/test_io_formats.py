"""Parquet, GraphML and .npz: what goes in comes out, holes filled, everything else as it was."""

from __future__ import annotations

import datetime
import decimal
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from megae.io import adjacency, open_document, read_table, write_table
from megae.io.errors import InputError

ONES = np.ones((2, 1))


def fill(table, value=0.25):
    """Every hole gets a value of its own kind."""
    frame = table.frame()
    for column in table.fillable:
        new = {"float": value, "int": 7, "bool": True, "category": frame[column.name].dtype}
        if column.kind == "category":
            frame[column.name] = frame[column.name].fillna(frame[column.name].cat.categories[0])
        else:
            frame[column.name] = frame[column.name].fillna(new[column.kind])
    return frame


def test_parquet_keeps_schema_metadata_and_other_columns(tmp_path):
    day = datetime.date(2020, 1, 2)
    arrays = {
        "id": pa.array(["a", "b", "c"]),
        "f32": pa.array([0.1, None, float("nan")], pa.float32()),
        "f64": pa.array([0.1, 0.2, None]),
        "i8": pa.array([1, None, 3], pa.int8()),
        "flag": pa.array([True, None, False]),
        "when": pa.array([day, None, day]),
        "word": pa.array(["x", None, "z"]).dictionary_encode(),
        "money": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("3.30")], pa.decimal128(6, 2)),
    }
    schema = pa.table(arrays).schema.with_metadata({b"made": b"by hand"})
    source = pa.table(arrays, schema=schema)
    pq.write_table(source, tmp_path / "n.parquet")
    table = read_table(tmp_path / "n.parquet")
    assert [c.name for c in table.fillable] == ["f32", "f64", "i8", "flag", "money"]
    assert table.id_column == "id"
    write_table(tmp_path / "o.parquet", table, fill(table))
    out = pq.read_table(tmp_path / "o.parquet")
    assert out.schema.equals(source.schema, check_metadata=True)
    for name in ("id", "when", "word"):
        assert out[name].to_pylist() == source[name].to_pylist()
    assert out["f32"].to_pylist() == [source["f32"][0].as_py(), 0.25, 0.25]
    assert out["f64"].to_pylist() == [0.1, 0.2, 0.25]
    assert out["i8"].to_pylist() == [1, 7, 3]
    assert out["flag"].to_pylist() == [True, True, False]
    assert out["money"].to_pylist()[1] == decimal.Decimal("0.25").quantize(decimal.Decimal("0.01"))


def test_parquet_with_a_pandas_index_as_ids(tmp_path):
    frame = pd.DataFrame({"x": [1.0, np.nan]}, index=["p", "q"])
    frame.to_parquet(tmp_path / "n.parquet")
    table = read_table(tmp_path / "n.parquet")
    assert table.ids == ["p", "q"]
    write_table(tmp_path / "o.parquet", table, fill(table), flag=True)
    expected = frame.fillna(0.25).assign(x_imputed=[False, True])
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "o.parquet"), expected)


def test_integers_stay_inside_their_type(tmp_path):
    pq.write_table(pa.table({"i": pa.array([1, None], pa.uint8())}), tmp_path / "n.parquet")
    table = read_table(tmp_path / "n.parquet")
    filled = table.frame()
    filled["i"] = pd.array([1, 999], dtype="Int64")
    write_table(tmp_path / "o.parquet", table, filled)
    assert pq.read_table(tmp_path / "o.parquet")["i"].to_pylist() == [1, 255]


def graph_file(tmp_path):
    graph = nx.Graph(title="roads")
    graph.add_node("a", size=1.5, count=3, ok=True, town="A & B")
    graph.add_node("b", count=4, town="<C>")
    graph.add_node("c", size=2.5, ok=False)
    graph.add_edge("a", "b", weight=2.0, kind="road")
    graph.add_edge("b", "c", weight=1.0)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    return graph, tmp_path / "g.graphml"


def test_graphml_agrees_with_networkx_and_keeps_everything(tmp_path):
    graph, path = graph_file(tmp_path)
    table = read_table(path)
    assert table.ids == ["a", "b", "c"]
    assert {c.name: c.kind for c in table.columns} == {
        "size": "float",
        "count": "int",
        "ok": "bool",
        "town": "kept",
    }
    A, _ = adjacency(table.document.edges, table.ids, path)
    assert np.array_equal(A.toarray(), nx.to_numpy_array(graph, nodelist="abc"))
    write_table(tmp_path / "o.graphml", table, fill(table), flag=True)
    out = nx.read_graphml(tmp_path / "o.graphml")
    assert dict(out.edges) == dict(nx.read_graphml(path).edges)
    assert out.graph["title"] == "roads"
    assert out.nodes["b"] == {
        **graph.nodes["b"],
        "size": 0.25,
        "ok": True,
        "size_imputed": True,
        "ok_imputed": True,
        "count_imputed": False,
    }
    assert "town" not in out.nodes["c"]
    assert out.nodes["c"]["count"] == 7


def test_graphml_default_is_no_hole_and_bad_values_are_named(tmp_path):
    head = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="k" for="node" attr.name="x" '
    nodes = '<graph><node id="a"/><node id="b"><data key="k">{}</data></node></graph></graphml>'
    path = tmp_path / "g.graphml"
    path.write_text(head + 'attr.type="double"><default>4.5</default></key>' + nodes.format("1"))
    assert read_table(path).frame()["x"].tolist() == [4.5, 1.0]
    path.write_text(head + 'attr.type="int"/>' + nodes.format("1.5"))
    with pytest.raises(InputError, match=r"node 'b', attribute 'x': '1.5' is not a value of type int"):
        read_table(path)
    path.write_text(head + 'attr.type="double"/>' + nodes.format("inf"))
    with pytest.raises(InputError, match=r"node 'b', column 'x': inf is infinite"):
        read_table(path)
    path.write_text("<graphml><graph>")
    with pytest.raises(InputError, match="well-formed"):
        read_table(path)
    path.write_text("<html/>")
    with pytest.raises(InputError, match="not GraphML"):
        read_table(path)


def test_graphml_negative_weight_and_duplicate_node(tmp_path):
    graph, path = graph_file(tmp_path)
    graph["a"]["b"]["weight"] = -1.0
    nx.write_graphml(graph, path)
    with pytest.raises(InputError, match=r"edge 1 \(a to b\): the edge weight -1 is negative"):
        read_table(path)
    text = path.read_text().replace("-1.0", "1.0").replace('<node id="c"', '<node id="a"')
    path.write_text(text)
    with pytest.raises(InputError, match="'a' occurs twice"):
        read_table(path)


def test_npz_keeps_other_arrays_and_dtype(tmp_path):
    x = np.array([[1.0, np.nan], [0.1, 2.0]], dtype=np.float32)
    arrays = {"x": x, "y": np.array([1, 0]), "edge_index": np.array([[0], [1]]), "file": np.array(["odd"])}
    with zipfile.ZipFile(tmp_path / "n.npz", "w") as archive:
        for key, value in arrays.items():
            with archive.open(f"{key}.npy", "w") as handle:
                np.lib.format.write_array(handle, value)
    table = read_table(tmp_path / "n.npz")
    assert [c.name for c in table.columns] == ["x0", "x1"]
    A, _ = adjacency(table.document.edges, table.ids, tmp_path / "n.npz")
    assert A.toarray().tolist() == [[0, 1], [1, 0]]
    write_table(tmp_path / "o.npz", table, fill(table), flag=True)
    with np.load(tmp_path / "o.npz", allow_pickle=False) as out:
        assert out["x"].dtype == np.float32
        assert out["x"].tolist() == [[1.0, 0.25], [x[1, 0], 2.0]]
        assert out["x_imputed"].tolist() == [[False, True], [False, False]]
        assert out["y"].tolist() == [1, 0]
        assert out["file"].tolist() == ["odd"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.array([object()], dtype=object)}, "plain arrays"),
        ({"x": np.zeros(3)}, "must be a matrix"),
        ({"x": np.zeros((2, 2)), "ids": np.array(["a"])}, r"'ids' has shape \(1,\)"),
        ({"x": np.zeros((2, 1)), "ids": np.array(["a", "a"])}, "'a' occurs twice"),
        ({"x": np.zeros((2, 2)), "columns": np.array(["a", "a"])}, "twice"),
        ({"x": np.zeros((2, 1)), "edge_index": np.zeros((2, 1))}, "whole numbers"),
        ({"x": ONES, "edge_index": np.zeros((2, 1), int), "edge_weight": -np.ones(1)}, "negative"),
        ({"z": np.zeros(3)}, "neither an array 'x'"),
    ],
)
def test_bad_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "n.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_table(tmp_path / "n.npz")


@pytest.mark.parametrize("name", ["n.npz", "n.parquet"])
def test_truncated_binary_file_is_refused(tmp_path, name):
    path = tmp_path / name
    if name.endswith("npz"):
        np.savez(path, x=np.zeros((50, 3)))
    else:
        pq.write_table(pa.table({"x": np.arange(50.0)}), path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match="not a readable"):
        open_document(path)

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from megae.io import adjacency, edges_of, open_document
from megae.io.errors import InputError


def edges(tmp_path, text: str, name: str = "edges.csv"):
    path = tmp_path / name
    path.write_text(text)
    return edges_of(open_document(path))


def matrix(tmp_path, text: str, ids: str = "abc", **kw):
    return adjacency(edges(tmp_path, text), list(ids), Path("nodes.csv"), **kw)


def test_agrees_with_networkx(tmp_path):
    rng = np.random.default_rng(0)
    graph = nx.gnm_random_graph(12, 30, seed=1)
    for u, v in graph.edges:
        graph[u][v]["weight"] = round(float(rng.random()) + 0.1, 3)
    lines = [f"n{v},n{u},{d['weight']}" for u, v, d in graph.edges(data=True)]
    rng.shuffle(lines)
    ids = [f"n{i}" for i in range(12)]
    A, counts = adjacency(edges(tmp_path, "a,b,w\n" + "\n".join(lines)), ids, Path("n"))
    assert np.array_equal(A.toarray(), nx.to_numpy_array(graph, nodelist=range(12)))
    assert (counts.kept, counts.weighted) == (30, True)


def test_duplicates_directions_loops_and_zeros(tmp_path):
    A, counts = matrix(tmp_path, "source,target,weight\na,b,1\nb,a,3\na,b,2\nc,c,5\nb,c,0\n")
    assert A.toarray().tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert (counts.duplicates, counts.self_loops, counts.zero_weight, counts.isolated_nodes) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        ("source,target\na,b\n", 1.0),
        ("x,y,z\na,b,2.5\n", 2.5),
        ("weight,from,to\n4,a,b\n", 4.0),
        ("label,Source,Target,Weight\nq,a,b,3\n", 3.0),
        ("u,v,kind,weight\na,b,road,7\n", 7.0),
        ("u,v,kind\na,b,road\n", 1.0),
        ("u,v,comment\na,b,\n", 1.0),
    ],
)
def test_where_endpoints_and_weights_are_found(tmp_path, text, weight):
    A, _ = matrix(tmp_path, text)
    assert A.toarray()[0, 1] == A.toarray()[1, 0] == weight
    assert A.nnz == 2


def test_text_third_column_is_reported(tmp_path):
    assert "not a weight" in edges(tmp_path, "u,v,kind\na,b,road\n").notes[0]


@pytest.mark.parametrize("name", ["dist_km", "z", "count"])
def test_a_weight_of_another_name_is_said(tmp_path, name):
    (note,) = edges(tmp_path, f"u,v,{name}\na,b,2\n").notes
    assert f"weights: column {name!r} (larger is closer)" in note


@pytest.mark.parametrize("name", ["weight", "Weight", "w", "similarity"])
def test_a_weight_of_such_a_name_needs_no_word(tmp_path, name):
    found = edges(tmp_path, f"u,v,{name}\na,b,2\n")
    assert found.weight.tolist() == [2.0]
    assert found.notes == []


@pytest.mark.parametrize(
    ("text", "weight"),
    [
        (",source,target\n0,a,b\n1,b,c\n", None),
        ("Unnamed: 0,source,target,w\n0,a,b,4\n1,b,c,5\n", [4.0, 5.0]),
        ("edge_id,source,target\n7,a,b\n8,b,c\n", None),
        ("source,year,target\na,1999,b\nb,2000,c\n", None),
        (",from,to,w\n1,a,b,4\n2,b,c,5\n", [4.0, 5.0]),
        (",person,friend\n0,a,b\n1,b,c\n", None),
        (",person,friend,w\n0,a,b,4\n1,b,c,5\n", [4.0, 5.0]),
    ],
)
@pytest.mark.parametrize("least", [0, 1 << 40], ids=["large", "small"])
def test_what_stands_before_the_endpoints_is_no_weight(tmp_path, monkeypatch, least, text, weight):
    from megae.io import large

    monkeypatch.setattr(large, "LARGE", least)
    found = edges(tmp_path, text)
    assert (list(found.source), list(found.target)) == (["a", "b"], ["b", "c"])
    assert (None if found.weight is None else found.weight.tolist()) == weight
    assert all(note.startswith("endpoints: ") for note in found.notes)


def test_endpoints_of_other_names_are_said(tmp_path):
    (note,) = edges(tmp_path, ",person,friend\n0,a,b\n").notes
    assert note.startswith("endpoints: columns 'person' and 'friend' of ")
    assert edges(tmp_path, "Source,TARGET\na,b\n").notes == []


def test_endpoints_of_other_names_are_said_where_a_node_is_unknown(tmp_path):
    with pytest.raises(InputError, match="endpoints are taken from columns 'edge_id' and 'from_node'"):
        matrix(tmp_path, "edge_id,from_node,to_node\n7,a,b\n")


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("high", "'high' is not a number; write a weight of 0 or more"),
        ('"0,5"', "'0,5' has a comma; write weights with a decimal point"),
        ('"1,000"', "'1,000' has a comma; write weights with a decimal point"),
        ("1e200", "'1e200' is too large to compute with: weights may reach 1e\\+150; divide all weights"),
        ("inf", "'inf' is infinite or too large for a number"),
    ],
)
@pytest.mark.parametrize("others", [1, 2])
@pytest.mark.parametrize("least", [0, 1 << 40], ids=["large", "small"])
def test_advice_on_a_bad_weight_is_advice_on_edges(tmp_path, monkeypatch, cell, message, others, least):
    from megae.io import large

    monkeypatch.setattr(large, "LARGE", least)
    text = "source,target,weight\na,b,1\n" + f"b,c,{cell}\n" * others
    with pytest.raises(InputError, match=f"line 3, column 'weight': the edge weight {message}") as caught:
        edges(tmp_path, text)
    assert "--columns" not in str(caught.value)
    assert "empty" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [("source,target\n", "holds no edges"), ("source,target,weight\na,b,0\nb,c,0.0\n", "all weights are 0")],
)
def test_edges_that_join_nothing_are_said(tmp_path, text, message):
    (note,) = edges(tmp_path, text).notes
    assert message in note


def test_a_table_of_nodes_is_no_list_of_edges(tmp_path):
    with pytest.raises(InputError, match=r"edges.csv looks like the table of nodes.*column 'x' holds .* such as '1.5'"):
        edges(tmp_path, "id,x,y\na,1.5,2\nb,,3\nc,2.5,3\n")
    with pytest.raises(InputError, match=r"the id is missing; .*if .*edges.csv is the table of nodes, pass it first"):
        edges(tmp_path, "id,x,y\na,1,2\nb,,3\n")
    assert len(edges(tmp_path, "a,b\n1.1,1.2\n1.2,1.3\n").source) == 2


def test_header_only_is_no_edges(tmp_path):
    A, counts = matrix(tmp_path, "source,target\n")
    assert A.nnz == 0
    assert counts.isolated_nodes == 3


def test_unknown_node_is_named_with_line_and_advice(tmp_path):
    text = "source,target\na,b\n\na,n93\n"
    path = tmp_path / "edges.csv"
    with pytest.raises(InputError) as caught:
        matrix(tmp_path, text)
    assert str(caught.value) == (f"{path} line 4: node 'n93' is not in nodes.csv; add it there or pass --drop-unknown")
    A, counts = matrix(tmp_path, text, drop_unknown=True)
    assert (A.nnz, counts.unknown_dropped) == (2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s,t,w\na,b,1\na,c,-2\n", r"line 3: the edge weight -2 is negative"),
        ("s,t,weight\na,b,\n", r"line 2: the edge weight is missing"),
        ("s,t,w\na,b,inf\n", r"line 2.*infinite"),
        ("s,t,w\na,b,1\nb,c,x\na,c,2\n", r"line 3, column 'w': the edge weight 'x' is not a number"),
        ("s,t,weight\na,b,heavy\n", r"line 2, column 'weight': the edge weight 'heavy' is not a number"),
        ("s,t\na,\n", r"line 2, column 't': the id is missing"),
        ("s\na\n", r"edges need two"),
        ("a,b\nb,c\n", r"line 1: 'a' and 'b' are nodes.*header"),
    ],
)
def test_bad_edges(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        matrix(tmp_path, text)


def test_edges_of_a_large_file_are_those_of_a_small_one(tmp_path, monkeypatch):
    from megae.io import large

    rng = np.random.default_rng(0)
    ends = [["n0", " n1", "\u2003n2 ", '"n, 3"', "é4", "n5"][i] for i in rng.integers(0, 6, 400)]
    text = "kind,source,target,weight\n" + "".join(
        f"road,{u},{v},{i % 7}\n" for i, (u, v) in enumerate(zip(ends[::2], ends[1::2], strict=True))
    )
    ids = ["é4", "n, 3", "n2", "n1", "n0", "n5"]
    seen = []
    for least in (0, 1 << 40):
        monkeypatch.setattr(large, "LARGE", least)
        found = edges(tmp_path, text)
        A, counts = adjacency(found, ids, Path("n"))
        seen.append((list(found.source), list(found.target), A.toarray().tolist(), counts.to_dict(), found.header))
    assert seen[0] == seen[1]
    assert "n2" in seen[0][0]


@pytest.mark.parametrize("text", ["s,t\na,b\na,\n", "s,t\na,b\nb,n93\n", "s,t\na, \u2003\n", "a,b\nb,c\n"])
def test_large_edge_files_are_refused_in_the_same_words(tmp_path, monkeypatch, text):
    from megae.io import large

    messages = []
    for least in (0, 1 << 40):
        monkeypatch.setattr(large, "LARGE", least)
        with pytest.raises(InputError) as caught:
            matrix(tmp_path, text)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]

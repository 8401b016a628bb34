from __future__ import annotations

import json

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from megae.cli import main
from megae.report.spectrum import plot_spectrum, spectral_energies


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    graph = nx.gnm_random_graph(20, 45, seed=2)
    frame = pd.DataFrame(rng.normal(size=(20, 2)).round(3) + 1.0, columns=["p", "q"])
    frame.index = pd.Index([f"n{i}" for i in range(20)], name="id")
    frame.iloc[3, 0] = frame.iloc[7, 1] = frame.iloc[8, 1] = np.nan
    frame.assign(word="w").to_csv("nodes.csv")
    pairs = [(f"n{u}", f"n{v}") for u, v in graph.edges]
    pd.DataFrame(pairs, columns=["s", "t"]).to_csv("edges.csv", index=False)
    return tmp_path


def dense_entropy(x: np.ndarray) -> float:
    """Definition 1 by hand: the eigenvalues of this graph are simple."""
    graph = nx.gnm_random_graph(20, 45, seed=2)
    L = nx.normalized_laplacian_matrix(graph, nodelist=range(20)).toarray()
    values, U = np.linalg.eigh(L)
    assert np.diff(values).min() > 1e-6
    p = (U.T @ x) ** 2
    p = p / p.sum()
    return float(-(p * np.log(p)).sum())


def spectrum(*args: str) -> int:
    return main(["spectrum", "nodes.csv", "--edges", "edges.csv", *args])


def test_entropies_agree_with_the_dense_definition(folder, capsys):
    assert spectrum("--method", "feature-propagation", "--out", "s.svg", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in result["columns"]] == ["p", "q"]
    assert [c["holes"] for c in result["columns"]] == [1, 2]
    usual = ["nodes.csv", "--edges", "edges.csv", "--method", "feature-propagation"]
    assert main(["impute", *usual, "--out", "f.csv", "-q"]) == 0
    nodes, filled = pd.read_csv("nodes.csv"), pd.read_csv("f.csv")
    for column in result["columns"]:
        name = column["name"]
        before = nodes[name].fillna(nodes[name].mean()).to_numpy()
        assert column["spectral_entropy_before"] == pytest.approx(dense_entropy(before), abs=1e-9)
        after = filled[name].to_numpy()
        assert column["spectral_entropy_after"] == pytest.approx(dense_entropy(after), abs=1e-9)
        for when in ("before", "after"):
            gap = abs(column[f"spectral_entropy_{when}"] - column[f"wavelet_entropy_{when}"])
            assert gap <= result["bound"] + 0.05
    assert "<svg" in (folder / "s.svg").read_text()


def test_after_table_is_matched_by_id(folder, capsys):
    nodes = pd.read_csv("nodes.csv")
    filled = nodes.fillna({"p": 5.0, "q": -1.0})
    filled.iloc[::-1].to_csv("after.csv", index=False)
    assert spectrum("--after", "after.csv", "--json", "--center") == 0
    result = json.loads(capsys.readouterr().out)
    expected = filled["p"].to_numpy() - nodes["p"].mean()
    assert result["columns"][0]["spectral_entropy_after"] == pytest.approx(dense_entropy(expected), abs=1e-9)
    assert (folder / "spectrum.png").read_bytes()[:4] == b"\x89PNG"


def test_table_is_printed_and_html_stands(folder, capsys):
    assert spectrum("--method", "mean", "--out", "s.html") == 0
    out = capsys.readouterr().out
    assert "at most" in out
    assert "wrote s.html" in out
    page = (folder / "s.html").read_text()
    assert "data:image/svg+xml" in page
    for fact in ("nodes.csv", "edges.csv", "<dd>mean</dd>", "differs from the spectral one by at most"):
        assert fact in page


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["nodes.csv", "--method", "mean"], "pass --edges"),
        (["nodes.csv", "--edges", "edges.csv", "--out", "s.txt"], "a plot ends in"),
        (["nodes.csv", "--edges", "edges.csv", "--method", "magic"], "'magic'"),
        (["nodes.csv", "--edges", "edges.csv", "--after", "nodes.csv"], "still has holes: 1 in column 'p'"),
        (["nodes.csv", "--edges", "edges.csv", "--after", "open.csv"], "still has holes: 2 in column 'q'"),
        (["nodes.csv", "--edges", "edges.csv", "--after", "part.csv"], "has no row 'n1'"),
        (["nodes.csv", "--edges", "edges.csv", "--out", "here.png"], "exists already"),
    ],
)
def test_bad_input(folder, capsys, args, part):
    (folder / "part.csv").write_text("id,p,q\nn0,1,2\n")
    pd.read_csv("nodes.csv").fillna({"p": 0.0}).to_csv("open.csv", index=False)
    (folder / "here.png").write_text("precious")
    assert main(["spectrum", *args]) == 2
    assert part in capsys.readouterr().err
    assert (folder / "here.png").read_text() == "precious"
    assert not (folder / "spectrum.png").exists()


def test_large_graphs_have_no_exact_entropy_but_an_estimated_bound(folder, capsys, monkeypatch):
    assert spectrum("--method", "mean", "--out", "a.png", "--json") == 0
    exact = json.loads(capsys.readouterr().out)
    monkeypatch.setattr("megae.report.spectrum.EXACT_LIMIT", 10)
    assert spectrum("--method", "mean", "--out", "b.png", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bound_estimated"]
    assert result["columns"][0]["spectral_entropy_before"] is None
    assert result["columns"][0]["wavelet_entropy_after"] == exact["columns"][0]["wavelet_entropy_after"]
    assert result["bound"] == pytest.approx(exact["bound"], abs=0.5)


def test_energies_put_eigenvectors_in_their_place():
    graph = nx.path_graph(30)
    A = nx.to_scipy_sparse_array(graph)
    L = nx.normalized_laplacian_matrix(graph).toarray()
    values, U = np.linalg.eigh(L)
    chosen = [0, 11, 29]
    for exact in (True, False):
        found = spectral_energies(U[:, chosen], A, exact=exact)
        assert np.allclose(found.shares.sum(axis=0), 1.0)
        centre = (found.edges[:-1] + found.edges[1:]) / 2 @ found.shares
        assert np.allclose(centre, values[chosen], atol=0.12)


def test_plot_takes_many_columns(tmp_path):
    A = nx.to_scipy_sparse_array(nx.cycle_graph(8))
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(8, 15)), columns=[f"c{j}" for j in range(15)])
    path = plot_spectrum(frame, frame, A, list(frame.columns), tmp_path / "s.svg")
    assert path.stat().st_size > 1000

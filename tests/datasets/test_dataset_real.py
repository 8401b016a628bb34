"""The real files, against counts published with them and against a reading of the raw text."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from megae.datasets import CATALOGUE, check, load
from megae.datasets.amazon import read_npz_graph
from megae.datasets.planetoid import read_planetoid

TABLE = {
    "ENZYMES": (600, 19_580, 37_282, 18, 6, -213, 761.7),
    "PROTEINS_full": (1113, 43_471, 81_044, 29, 2, -538, 7878),
    "QM9": (1290, 23_259, 24_018, 16, None, -8.589, 9),
    "Synthie": (400, 38_000, 69_171, 15, 4, -23.46, 25.92),
    "FIRSTMM_DB": (41, 56_468, 126_024, 1, 11, -1, 1),
    "Cora": (1, 2485, 5069, 1433, 7, 0, 1),
    "Citeseer": (1, 2120, 3679, 3703, 6, 0, 1),
    "Pubmed": (1, 19_717, 44_324, 500, 3, 0, 1.2633),
    "AmaPhoto": (1, 7487, 119_043, 745, 8, 0, 1),
}
SETS = [pytest.param(name, marks=pytest.mark.data(name)) for name in TABLE]


@pytest.mark.parametrize("name", SETS)
def test_counts(data_root: Path, name: str) -> None:
    graphs = load(name, data_root)
    number, nodes, edges, features, classes, low, high = TABLE[name]
    x = torch.cat([g.x for g in graphs])
    assert x.isfinite().all()
    assert x.dtype == torch.float32
    assert (len(graphs), *x.shape) == (number, nodes, features)
    assert float(x.min()) == pytest.approx(low, rel=1e-3)
    assert float(x.max()) == pytest.approx(high, rel=1e-3)
    pairs = sum(len({tuple(sorted(e)) for e in g.edge_index.T.tolist()}) for g in graphs)
    assert pairs == edges
    assert sum(g.edge_index.shape[1] for g in graphs) == 2 * edges
    assert not any(g.has_self_loops() for g in graphs)
    y = torch.cat([g.y for g in graphs])
    if classes is None:
        assert y.shape == (number, 15)
    else:
        assert y[y >= 0].unique().tolist() == list(range(classes))
        assert int((y < 0).sum()) == (10 if name == "Citeseer" else 0)


@pytest.mark.parametrize("name", SETS)
def test_check_passes_and_the_paper_agrees(data_root: Path, name: str) -> None:
    finding = check(CATALOGUE[name], data_root)
    assert (finding.status, finding.problems, finding.agrees) == ("ok", [], True)
    assert not any("no known copy" in copy for copy in finding.files.values())


def member(root: Path, name: str, part: str) -> np.ndarray:
    with zipfile.ZipFile(root / name / f"{name}.zip") as archive:
        text = archive.read(f"{name}/{name}_{part}.txt").decode()
    return np.loadtxt(io.StringIO(text), delimiter=",", ndmin=2)


@pytest.mark.data("ENZYMES")
def test_enzymes_are_the_lines_of_the_text(data_root: Path) -> None:
    graphs = load("ENZYMES", data_root)
    x = member(data_root, "ENZYMES", "node_attributes").astype(np.float32)
    np.testing.assert_array_equal(torch.cat([g.x for g in graphs]).numpy(), x)
    np.testing.assert_array_equal(x[:, 8], x[:, 17])
    owner = member(data_root, "ENZYMES", "graph_indicator")[:, 0].astype(int) - 1
    first = np.searchsorted(owner, np.arange(600))
    edges = member(data_root, "ENZYMES", "A").astype(int) - 1
    ours = {(int(a + first[k]), int(b + first[k])) for k, g in enumerate(graphs) for a, b in g.edge_index.T.tolist()}
    assert ours == {(a, b) for a, b in edges.tolist()}
    labels = member(data_root, "ENZYMES", "graph_labels")[:, 0].astype(int)
    assert [int(g.y) for g in graphs] == (labels - 1).tolist()


@pytest.mark.data("Synthie")
def test_synthie_repeats_lines_that_count_once(data_root: Path) -> None:
    lines = member(data_root, "Synthie", "A").astype(int)
    assert len(lines) == 161_744
    assert len(np.unique(lines, axis=0)) == 138_342 == sum(g.edge_index.shape[1] for g in load("Synthie", data_root))


@pytest.mark.data("FIRSTMM_DB")
def test_firstmm_has_self_loops_that_are_dropped(data_root: Path) -> None:
    lines = member(data_root, "FIRSTMM_DB", "A").astype(int)
    assert (lines[:, 0] == lines[:, 1]).sum() == 14
    assert len(np.unique(lines, axis=0)) - 14 == 2 * TABLE["FIRSTMM_DB"][2]


@pytest.mark.data("PROTEINS_full")
def test_proteins_columns_are_redundant_as_noted(data_root: Path) -> None:
    graphs = load("PROTEINS_full", data_root)
    assert all(bool((g.x[:, 21:] == g.x[:1, 21:]).all()) for g in graphs)
    x = torch.cat([g.x for g in graphs])
    assert torch.equal(x[:, 2], x[:, 1] - x[:, 0] + 1)
    assert torch.equal(x[:, 11], x[:, 20])


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "unlabelled"),
    [
        pytest.param("Cora", 2708, 5278, 0, marks=pytest.mark.data("Cora")),
        pytest.param("Citeseer", 3327, 4552, 15, marks=pytest.mark.data("Citeseer")),
        pytest.param("Pubmed", 19_717, 44_324, 0, marks=pytest.mark.data("Pubmed")),
    ],
)
def test_whole_citation_networks(data_root: Path, name: str, nodes: int, edges: int, unlabelled: int) -> None:
    data = read_planetoid(data_root / name, name.lower(), largest_component=False)
    assert (len(data.x), data.edge_index.shape[1] // 2) == (nodes, edges)
    lost = data.y == -1
    assert int(lost.sum()) == unlabelled
    assert not data.x[lost].any()


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.data(n)) for n in ("Cora", "Citeseer", "Pubmed")])
def test_citation_networks_are_those_of_pyg(data_root: Path, name: str) -> None:
    from torch_geometric.io import read_planetoid_data
    from torch_geometric.utils import coalesce

    theirs = read_planetoid_data(str(data_root / name), name.lower())
    ours = read_planetoid(data_root / name, name.lower(), largest_component=False)
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(coalesce(ours.edge_index), coalesce(theirs.edge_index))
    labelled = ours.y >= 0
    assert torch.equal(ours.y[labelled], theirs.y[labelled])


@pytest.mark.data("AmaPhoto")
def test_amaphoto_is_stored_directed(data_root: Path) -> None:
    path = data_root / "AmaPhoto" / "amazon_electronics_photo.npz"
    with np.load(path, allow_pickle=False) as archive:
        assert len(archive["adj_indices"]) == 143_663
    data = read_npz_graph(path)
    assert data.is_undirected()
    assert (len(data.x), data.edge_index.shape[1] // 2) == (7650, 119_081)

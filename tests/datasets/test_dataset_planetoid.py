"""The Planetoid layout, and pickles that would run code."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from dataset_cases import write_planetoid

from megae.datasets.planetoid import read_planetoid


def test_whole_graph_is_that_of_the_files(tmp_path: Path) -> None:
    write_planetoid(tmp_path)
    data = read_planetoid(tmp_path, "cora", largest_component=False)
    x = np.eye(8, 4, dtype=np.float32)
    x[6], x[7], x[5], x[4] = [1, 1, 0, 0], [0, 1, 1, 0], 0, 0
    np.testing.assert_array_equal(data.x.numpy(), x)
    assert data.y.tolist() == [0, 1, 2, 0, 1, -1, 2, 0], "node 5 is in no feature file: no features, label -1"
    edges = {tuple(sorted(edge)) for edge in data.edge_index.T.tolist()}
    assert edges == {(0, 1), (1, 2), (2, 4), (4, 6), (3, 7)}, "no self-loop; 4-6 is stored in one direction only"
    assert data.edge_index.shape == (2, 10)
    assert data.is_undirected()


def test_largest_component_alone(tmp_path: Path) -> None:
    write_planetoid(tmp_path)
    data = read_planetoid(tmp_path, "cora")
    assert data.y.tolist() == [0, 1, 2, 1, 2]
    assert data.edge_index.shape == (2, 8)
    assert data.x[4].tolist() == [1, 1, 0, 0]


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (f"open({str(self.path)!r}, 'w').close()",)


@pytest.mark.parametrize("part", ["allx", "ally", "graph"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, part: str, protocol: int) -> None:
    write_planetoid(tmp_path)
    trace = tmp_path / "it-ran"
    payload = pickle.dumps(Evil(trace), protocol=protocol)
    (tmp_path / f"ind.cora.{part}").write_bytes(payload)
    with pytest.raises(ValueError, match=rf"ind\.cora\.{part} cannot be read: it asks for .*exec"):
        read_planetoid(tmp_path, "cora")
    assert not trace.exists()
    pickle.loads(payload)
    assert trace.exists(), "the payload does run where it is not refused"


@pytest.mark.parametrize("value", [OrderedDict(), np.float64, np.random.default_rng(0), Path("x")])
def test_types_without_use_are_refused(tmp_path: Path, value: object) -> None:
    write_planetoid(tmp_path)
    (tmp_path / "ind.cora.graph").write_bytes(pickle.dumps(value, protocol=3))
    with pytest.raises(ValueError, match="has no use for; refused"):
        read_planetoid(tmp_path, "cora")


def broken_matrix() -> sp.csr_matrix:
    matrix = sp.csr_matrix(np.eye(4, dtype=np.float32))
    matrix.indices[2] = 1_000_000
    return matrix


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("allx", broken_matrix(), "does not hold a sparse matrix"),
        ("allx", [1, 2], "does not hold a sparse matrix"),
        ("allx", sp.csr_matrix(np.eye(4, 9)), "do not belong together"),
        ("ally", [[1, 0, 0]], "does not hold a table of labels"),
        ("ally", np.eye(3)[:2], "do not belong together"),
        ("graph", [1, 2], "does not hold lists of neighbours"),
        ("graph", {0: [99]}, "names node 99, but there are 8"),
        ("graph", {0: ["a"]}, "does not hold lists of neighbours"),
    ],
)
def test_damage_is_named(tmp_path: Path, part: str, value: object, message: str) -> None:
    write_planetoid(tmp_path)
    (tmp_path / f"ind.cora.{part}").write_bytes(pickle.dumps(value, protocol=3))
    with pytest.raises(ValueError, match=message):
        read_planetoid(tmp_path, "cora")


@pytest.mark.parametrize("text", ["", "a\n", "-1\n4\n7\n", "99999999999\n"])
def test_a_damaged_test_index_is_named(tmp_path: Path, text: str) -> None:
    write_planetoid(tmp_path)
    (tmp_path / "ind.cora.test.index").write_text(text)
    with pytest.raises(ValueError, match=r"ind\.cora\.test\.index does not hold"):
        read_planetoid(tmp_path, "cora")


def test_a_cut_pickle_is_named(tmp_path: Path) -> None:
    write_planetoid(tmp_path)
    path = tmp_path / "ind.cora.tx"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"ind\.cora\.tx cannot be read"):
        read_planetoid(tmp_path, "cora")

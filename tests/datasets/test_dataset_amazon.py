"""The npz layout: directed edges become undirected, pickled arrays are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dataset_cases import npz_arrays

from megae.datasets.amazon import read_npz_graph


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_graph_is_that_of_the_arrays(tmp_path: Path, save) -> None:
    save(tmp_path / "g.npz", **npz_arrays(), class_names=np.array(["a", "b"]))
    data = read_npz_graph(tmp_path / "g.npz")
    assert data.x.tolist() == [[1, 0], [0, 1], [1, 1], [0, 0], [0, 1]]
    assert sorted(data.edge_index.T.tolist()) == [[0, 1], [1, 0], [1, 2], [2, 1], [3, 4], [4, 3]]
    assert data.y.tolist() == [0, 1, 1, 0, 2]


def test_pickled_arrays_are_refused_and_others_not_read(tmp_path: Path) -> None:
    arrays = npz_arrays()
    np.savez(tmp_path / "g.npz", **arrays, names=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert len(read_npz_graph(tmp_path / "g.npz").y) == 5
    arrays["labels"] = np.array([0, 1, "x", None, 2], dtype=object)
    np.savez(tmp_path / "g.npz", **arrays, allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_npz_graph(tmp_path / "g.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adj_indices": np.array([1, 0, 2, 2, 400_000])}, "adj is not a sparse matrix"),
        ({"adj_indptr": np.array([0, 1, 9, 4, 5, 5])}, "adj is not a sparse matrix"),
        ({"attr_shape": np.array([5])}, "attr is not a sparse matrix"),
        ({"labels": np.arange(3)}, "does not fit 3 labels"),
        ({"attr_data": None}, "not the npz of gnn-benchmark"),
    ],
)
def test_damage_is_named(tmp_path: Path, change: dict[str, np.ndarray | None], message: str) -> None:
    arrays = {k: v for k, v in (npz_arrays() | change).items() if v is not None}
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        read_npz_graph(tmp_path / "g.npz")


def test_what_is_no_npz_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "g.npz").write_bytes(b"\x80\x04N.")
    with pytest.raises(ValueError, match=r"g\.npz"):
        read_npz_graph(tmp_path / "g.npz")

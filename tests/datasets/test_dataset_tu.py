"""The TUDataset layout, on a zip of three graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dataset_cases import tu_texts, write_zip

from megae.datasets.tu import read_tu_zip


@pytest.mark.parametrize("folder", ["TOY/", "TOY//", ""])
def test_graphs_are_those_of_the_text(tmp_path: Path, folder: str) -> None:
    graphs = read_tu_zip(write_zip(tmp_path / "toy.zip", tu_texts(), folder), "TOY")
    assert [len(g.x) for g in graphs] == [3, 2, 1]
    assert graphs[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graphs[1].edge_index.tolist() == [[0, 1], [1, 0]], "a repeated edge and a self-loop count for nothing"
    assert graphs[2].edge_index.shape == (2, 0), "the last graph has no edge and is still there"
    np.testing.assert_array_equal(np.concatenate([g.x.numpy() for g in graphs]), np.arange(12).reshape(6, 2) / 4)
    assert [int(g.y) for g in graphs] == [1, 0, 1], "classes count from 0 in the order of their numbers"


def test_node_labels_do_not_become_attributes(tmp_path: Path) -> None:
    with_labels = read_tu_zip(write_zip(tmp_path / "a.zip", tu_texts()), "TOY")
    texts = {k: v for k, v in tu_texts().items() if "node_labels" not in k}
    assert with_labels[0].x.shape == read_tu_zip(write_zip(tmp_path / "b.zip", texts), "TOY")[0].x.shape == (3, 2)


def test_one_column_and_a_last_line_without_end(tmp_path: Path) -> None:
    texts = {name: text.rstrip("\n") for name, text in tu_texts(columns=1).items()}
    graphs = read_tu_zip(write_zip(tmp_path / "toy.zip", texts), "TOY")
    assert [tuple(g.x.shape) for g in graphs] == [(3, 1), (2, 1), (1, 1)]
    assert graphs[2].x.item() == 1.25


def test_edges_stored_in_one_direction_hold_in_both(tmp_path: Path) -> None:
    texts = tu_texts() | {"TOY_A.txt": "1, 2\n3, 2\n4, 5\n"}
    graphs = read_tu_zip(write_zip(tmp_path / "toy.zip", texts), "TOY")
    assert graphs[0].edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]


def test_regression_targets_stand_for_classes(tmp_path: Path) -> None:
    texts = {k: v for k, v in tu_texts().items() if "graph_labels" not in k}
    texts["TOY_graph_attributes.txt"] = "1.5, 2\n-3, 4\n5, 6\n"
    graphs = read_tu_zip(write_zip(tmp_path / "toy.zip", texts), "TOY")
    assert [g.y.tolist() for g in graphs] == [[[1.5, 2.0]], [[-3.0, 4.0]], [[5.0, 6.0]]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"TOY_A.txt": None}, r"lacks TOY_A\.txt"),
        ({"TOY_A.txt": "1, 4\n4, 1\n"}, "joins two graphs"),
        ({"TOY_A.txt": "1, 99\n"}, "cannot be read as TOY|joins two graphs"),
        ({"TOY_graph_indicator.txt": "1\n2\n1\n2\n2\n3\n"}, "joins two graphs|order"),
        ({"TOY_node_attributes.txt": "1, 2\n3, 4\n"}, "2 rows of attributes for 6 nodes|cannot be read"),
        ({"TOY_node_attributes.txt": "1, 2\n3\n5, 6\n7, 8\n9, 0\n1, 1\n"}, "cannot be read as TOY"),
        ({"TOY_node_attributes.txt": "spam, 2\n"}, "cannot be read as TOY"),
        ({"TOY_graph_labels.txt": "1\n2\n"}, "2 labels for 3 graphs"),
    ],
)
def test_damage_is_named(tmp_path: Path, change: dict[str, str | None], message: str) -> None:
    texts = {k: v for k, v in (tu_texts() | change).items() if v is not None}
    with pytest.raises(ValueError, match=message):
        read_tu_zip(write_zip(tmp_path / "toy.zip", texts), "TOY")


def test_the_zip_of_another_set_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "toy.zip", tu_texts())
    with pytest.raises(ValueError, match="not the zip of ENZYMES"):
        read_tu_zip(path, "ENZYMES")

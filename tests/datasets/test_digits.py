"""The embedded digits against scikit-learn's own arrays."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from megae.datasets import load, load_digits_graphs, names, split_indices
from megae.datasets.digits import grid_edges


def test_graphs_hold_the_images_of_scikit_learn() -> None:
    images = load_digits()
    graphs = load_digits_graphs()
    assert len(graphs) == 1797
    x = torch.stack([graph.x for graph in graphs])
    assert x.dtype == torch.float32
    assert x.shape == (1797, 64, 3)
    np.testing.assert_array_equal(x[:, :, 0].numpy() * 16, images.data)
    assert x.min() == 0
    assert x.max() == 1
    assert [int(graph.y) for graph in graphs] == images.target.tolist()
    i, j = 5, 2
    node = graphs[7].x[i * 8 + j]
    assert node[0] == images.images[7, i, j] / 16
    torch.testing.assert_close(node[1:], torch.tensor([i / 7, j / 7]))


def test_edges_are_the_grid_of_networkx() -> None:
    edges = grid_edges(8)
    lattice = nx.grid_2d_graph(8, 8)
    expected = {(8 * a + b, 8 * c + d) for (a, b), (c, d) in lattice.edges}
    expected |= {(b, a) for a, b in expected}
    assert {tuple(edge) for edge in edges.T.tolist()} == expected
    assert edges.shape == (2, len(expected))


def test_graphs_do_not_share_attributes() -> None:
    graphs = load_digits_graphs()
    before = graphs[1].x.clone()
    graphs[0].x.fill_(9.0)
    assert torch.equal(graphs[1].x, before)
    assert load_digits_graphs()[0].x.max() <= 1


def test_load_knows_its_names(tmp_path: Path) -> None:
    assert "digits" in names()
    assert len(load("digits", root=tmp_path)) == 1797
    with pytest.raises(ValueError, match=r"'nope'; known: .*digits"):
        load("nope")
    with pytest.raises(FileNotFoundError, match="not a folder"):
        load("digits", root=tmp_path / "missing")


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1797])
def test_split_covers_everything_once(n: int) -> None:
    parts = split_indices(n, random_state=3)
    assert len(parts) == 3
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    for part, share in zip(parts, (0.7, 0.1, 0.2), strict=True):
        assert abs(len(part) - share * n) <= 1


def test_split_follows_its_seed_and_leaves_the_global_one() -> None:
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first = split_indices(100, random_state=0)
    assert all(np.array_equal(a, b) for a, b in zip(first, split_indices(100, random_state=0), strict=True))
    assert not np.array_equal(first[0], split_indices(100, random_state=1)[0])
    split_indices(100)
    assert np.array_equal(state, np.random.get_state()[1])  # noqa: NPY002
    rng = np.random.default_rng(0)
    assert np.array_equal(split_indices(100, random_state=rng)[0], first[0])


@pytest.mark.parametrize("fractions", [(0.5, 0.6), (1.2, -0.2), (), (0.3,)])
def test_split_refuses_shares_that_do_not_add_up(fractions: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        split_indices(10, fractions)
    with pytest.raises(ValueError, match="at least 1"):
        split_indices(0)

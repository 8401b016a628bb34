"""Splits of nodes: counts, classes, and nodes without label."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from megae.downstream import NODE_PROTOCOLS, node_split


@pytest.fixture
def y() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.choice([-1, 0, 1, 2], size=2000, p=[0.05, 0.5, 0.3, 0.15])


def test_counts_of_every_part_and_class(y):
    train, validation, test = node_split(y, per_class=20, validation=500, test=1000, random_state=0)
    assert [int((y[train] == c).sum()) for c in range(3)] == [20, 20, 20]
    assert (len(train), len(validation), len(test)) == (60, 500, 1000)


def test_parts_are_sorted_disjoint_and_without_unlabelled_nodes(y):
    found = node_split(y, per_class=20, validation=500, test=1000, random_state=1)
    together = np.concatenate(found)
    assert len(np.unique(together)) == len(together)
    assert (y == -1).any()
    assert (y[together] >= 0).all()
    assert all((np.diff(part) > 0).all() for part in found)


def test_test_none_takes_every_labelled_node_left(y):
    found = node_split(y, per_class=40, validation=500, test=None, random_state=0)
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.flatnonzero(y >= 0))


def test_same_seed_same_nodes_and_another_seed_others(y):
    one, again, other = (node_split(y, 20, 500, 1000, random_state=s) for s in (3, 3, 4))
    for a, b in zip(one, again, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_no_global_random_state_moves(y):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    node_split(y, 20, 500, 1000, random_state=3)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_validation_is_drawn_evenly_from_the_rest():
    y = np.zeros(100, dtype=int)
    times = np.zeros(100)
    for seed in range(400):
        times[node_split(y, 10, 30, 20, random_state=seed)[1]] += 1
    assert abs(times.mean() - 120) < 1e-9
    assert times.min() > 80
    assert times.max() < 160


def test_tensors_are_taken(y):
    for a, b in zip(node_split(torch.from_numpy(y), 5, 5, 5, 0), node_split(y, 5, 5, 5, 0), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_cannot_be_drawn_is_refused(y):
    with pytest.raises(ValueError, match=r"class 1 has 2 nodes, fewer than per_class=3"):
        node_split([0, 0, 0, 1, 1], 3, 0)
    with pytest.raises(ValueError, match="need 9 nodes, but 3 labelled ones are left"):
        node_split([0, 0, 0, 1, 1, -1, -1, -1], 1, 4, 5)
    with pytest.raises(ValueError, match="no node has a label"):
        node_split([-1, -1], 1, 0)
    with pytest.raises(ValueError, match="per_class must be at least 1"):
        node_split(y, 0, 500)
    with pytest.raises(ValueError, match="one integer class per node"):
        node_split(y.astype(float), 20, 500)


def test_the_protocols_are_those_of_the_paper():
    for name in ("Cora", "Citeseer", "Pubmed"):
        assert NODE_PROTOCOLS[name] == {"per_class": 20, "validation": 500, "test": 1000}
    assert NODE_PROTOCOLS["AmaPhoto"] == {"per_class": 40, "validation": 500, "test": None}


@pytest.mark.data("Citeseer")
def test_citeseers_nodes_without_label_are_in_no_part(data_root):
    from megae.datasets import load

    y = load("Citeseer", data_root)[0].y.numpy()
    assert (y < 0).sum() == 10
    for seed in range(5):
        found = node_split(y, **NODE_PROTOCOLS["Citeseer"], random_state=seed)
        assert [len(part) for part in found] == [120, 500, 1000]
        assert (y[np.concatenate(found)] >= 0).all()

"""Graphs cut into patches, laid out densely and put together again."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from megae.graphs import to_data
from megae.training.patches import PatchBatch, PatchPool, cut

CPU = torch.device("cpu")


def path(n: int) -> sp.csr_array:
    return sp.csr_array(sp.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))


def grid(side: int) -> sp.csr_array:
    one, line = sp.eye_array(side), path(side)
    return sp.csr_array(sp.kron(one, line) + sp.kron(line, one))


@pytest.mark.parametrize(
    "A", [path(50), grid(9), sp.csr_array((17, 17)), sp.csr_array(sp.block_diag([grid(4), path(9)]))]
)
@pytest.mark.parametrize("k", [1, 4, 16])
def test_every_node_is_in_one_patch_and_patches_are_as_few_as_can_be(A, k):
    patches = cut(A, k)
    assert sorted(np.concatenate(patches).tolist()) == list(range(A.shape[0]))
    assert len(patches) == -(-A.shape[0] // k)
    assert max(map(len, patches)) <= k


def test_patches_of_a_path_are_stretches_of_it():
    for patch in cut(path(50), 16):
        assert connected_components(path(50)[patch][:, patch])[0] == 1
        assert np.ptp(patch) == len(patch) - 1


def test_patches_of_a_grid_keep_more_edges_than_chance():
    A = grid(12)
    kept = sum(A[p][:, p].nnz for p in cut(A, 24)) / A.nnz
    shuffled = np.random.default_rng(0).permutation(144)
    chance = sum(A[p][:, p].nnz for p in np.split(shuffled, 6)) / A.nnz
    assert kept > 0.6 > 3 * chance


def test_patches_of_a_random_geometric_graph_keep_most_neighbours():
    place = np.random.default_rng(0).random((300, 2))
    A = sp.csr_array((np.linalg.norm(place[:, None] - place[None], axis=2) < 0.12).astype(float) - np.eye(300))
    patches = cut(A, 64)
    inside = np.zeros(300)
    for p in patches:
        inside[p] = A[p][:, p].sum(axis=1)
    degree = A.sum(axis=1)
    assert inside.sum() > 0.75 * degree.sum()
    assert (inside[degree > 0] == 0).mean() < 0.02


def test_nodes_in_other_places_keep_their_edges_and_values():
    rng = np.random.default_rng(0)
    pool = PatchPool([to_data(rng.random((n, 2)), path(n)) for n in (5, 3)], 5, CPU)
    rows, order = torch.arange(16.0).view(8, 2) + 1, torch.tensor([3, 0, 4, 1, 2])
    plain = PatchBatch.of(pool, np.arange(2), rows, rows > 4)
    moved = plain.reordered(order)
    for i, was in enumerate(order.tolist()):
        assert torch.equal(moved.x[:, i], plain.x[:, was])
        assert torch.equal(moved.seen[:, i], plain.seen[:, was])
        assert torch.equal(moved.filled[:, i], plain.filled[:, was])
        for j, other in enumerate(order.tolist()):
            assert torch.equal(moved.A[:, i, j], plain.A[:, was, other])


def test_a_small_graph_is_one_patch_in_its_own_order():
    assert np.array_equal(cut(grid(3), 9)[0], np.arange(9))


def test_laid_out_and_collected_again():
    rng = np.random.default_rng(0)
    graphs = [to_data(rng.random((n, 3)), path(n)) for n in (5, 13, 1)]
    rows = torch.cat([g.x for g in graphs])
    pool = PatchPool(graphs, 6, CPU)
    blocks = pool.lay(rows)
    assert pool.sizes.tolist() == [5, 5, 5, 3, 1]
    assert torch.equal(pool.collect(blocks), rows)
    assert blocks[~pool.filled].eq(0).all()
    assert torch.equal(pool.lay(rows, torch.tensor([3, 0])), blocks[[3, 0]])
    for p in range(len(pool)):
        inside = pool.node[p][pool.filled[p]].numpy()
        whole = sp.block_diag([path(n) for n in (5, 13, 1)]).tocsr()[inside][:, inside].toarray()
        m = len(inside)
        np.testing.assert_array_equal(pool.adjacency[p, :m, :m].numpy(), whole)
        assert pool.adjacency[p, m:].eq(0).all()


def test_batches_hold_every_patch_once():
    pool = PatchPool([to_data(np.zeros((n, 1)), path(n)) for n in (2, 3, 9, 4, 5, 3)], 9, CPU)
    for generator in (None, np.random.default_rng(0)):
        batches = pool.batches(4, generator)
        assert sorted(np.concatenate(batches).tolist()) == list(range(6))
        assert max(map(len, batches)) == 4

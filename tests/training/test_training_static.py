"""Batches of one shape against ``GraphPool.take``: the same loss, entropy and gradients."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from training_cases import CPU, graphs, trainer

from megae.graphs import to_data
from megae.training.features import masked_inputs, plain_inputs, propagated_inputs, row_inputs
from megae.training.pool import GraphPool
from megae.training.static import StaticBatches

MEAN, SCALE = np.array([0.5, -1.0, 2.0]), np.array([2.0, 0.5, 3.0])
CHOICES = [[3, 4, 7], [8, 1, 4], [0, 1, 2], [4, 4, 4], [5, 6, 5]]


def pool_of(use_graph: bool = True) -> GraphPool:
    members = graphs(9, n=6)
    members[4] = to_data(np.ones((1, 3)), sp.csr_array((1, 1)))
    return GraphPool(members, MEAN, SCALE, CPU, use_graph)


def dense(operator) -> np.ndarray:
    parts = operator.values.numpy(), operator.indices.numpy(), operator.indptr.numpy()
    return sp.csr_array(parts, shape=(operator.n, operator.n)).toarray()


@pytest.mark.parametrize("chosen", CHOICES, ids=str)
@pytest.mark.parametrize("use_graph", [True, False])
@pytest.mark.parametrize("spare", [0, 5])
def test_the_graphs_stand_first_and_the_rest_is_isolated(chosen, use_graph, spare):
    pool = pool_of(use_graph)
    batches = StaticBatches(pool, pool.whole.observed, 3, 27 + spare, (52 + spare) * use_graph)
    assert all(batches.fits(np.array(c)) for c in CHOICES)
    want, got = pool.take(np.array(chosen)), batches.take(torch.tensor(chosen))
    n = want.values.shape[0]
    assert n < batches.nodes
    assert torch.equal(got.values[:n], want.values)
    assert torch.equal(got.observed[:n], want.observed)
    assert torch.equal(got.graph[:n], want.graph)
    assert torch.equal(got.operator.indptr[: n + 1], want.operator.indptr)
    S = dense(got.operator)
    assert np.array_equal(S[:n, :n], dense(want.operator))
    assert not S[n:].any()
    assert not S[:, n:].any()
    assert not got.values[n:].any()
    assert not got.observed[n:].any()
    assert (got.graph[n:] == 3).all()
    assert got.n_graphs == 4
    assert int(got.operator.indptr[-1]) == got.operator.indices.numel() == batches.entries
    lengths = got.operator.indptr.diff()[n:]
    assert int(lengths.max()) - int(lengths.min()) <= 1, "the padding is not dealt out evenly"
    assert (got.operator.values.numel() > 0) == use_graph


@pytest.mark.parametrize(
    "inputs", [plain_inputs, partial(propagated_inputs, iterations=4), masked_inputs, row_inputs], ids=str
)
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_loss_entropy_and_gradients_are_those_of_the_batch_without_padding(inputs, gamma):
    t, _ = trainer(k=9, n=6)
    network, pool = t.network, t.pool
    columns = inputs(pool.whole, pool.whole.observed).shape[1]
    generator = torch.Generator().manual_seed(0)
    network._inputs = inputs
    network.body.embed = torch.nn.Linear(columns, network.body.embed.out_features)
    for w in network.parameters():
        w.data.copy_(0.4 * torch.randn(w.shape, generator=generator))
    batches = StaticBatches(pool, t.trainable, 3, 60, 150)
    for chosen in ([2, 5, 7], [8, 0, 1]):
        want, got = pool.take(np.array(chosen)), batches.take(torch.tensor(chosen))
        allowed = t.trainable[torch.from_numpy(want.nodes)]
        hidden = allowed & (torch.rand(allowed.shape, generator=generator) < 0.3)
        padded = torch.zeros_like(got.observed)
        padded[: len(hidden)] = hidden
        found = []
        for batch, seen, asked in ((want, allowed, hidden), (got, got.observed, padded)):
            network.zero_grad()
            loss, entropy = network.objective(batch, seen, asked, gamma)
            loss.backward()
            found.append(
                [loss.detach(), entropy, *(w.grad.clone() for w in network.parameters() if w.grad is not None)]
            )
        assert len(found[0]) == len(found[1]) > 10
        for a, b in zip(*found, strict=True):
            torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-6)


def test_what_fits():
    pool = pool_of()
    batches = StaticBatches(pool, pool.whole.observed, 2, 18, 34)
    assert batches.fits(np.array([2, 3]))  # rings of 8 and 9 nodes
    assert not batches.with_room(17, 34).fits(np.array([2, 3])), "one node must be left"
    assert not batches.with_room(18, 33).fits(np.array([2, 3]))
    assert not batches.fits(np.array([2]))


def test_room_is_what_the_schedule_needs_and_little_more():
    pool = pool_of()
    schedule = [np.array(c) for c in ([0, 1], [0, 5], [0, 8], [3, 7])]
    half, whole = StaticBatches.for_schedule(pool, pool.whole.observed, schedule, (0.5, 1.0))
    assert (half.nodes, half.entries, whole.nodes, whole.entries) == (64, 64, 64, 64)
    many = [np.arange(9)] * 3 + [np.full(9, 4)] * 3
    half, whole = StaticBatches.for_schedule(pool, pool.whole.observed, many, (0.5, 1.0))
    assert (half.nodes, half.entries) == (64, 0)
    assert (whole.nodes, whole.entries) == (64, 128)
    assert [half.fits(many[0]), half.fits(many[5]), whole.fits(many[0])] == [False, True, True]
    empty = half.take(torch.from_numpy(many[5])).operator
    assert not empty.has_edges
    assert not empty.indptr.any()
    assert empty.indices.numel() == 0
    with pytest.raises(ValueError, match="equally many graphs"):
        StaticBatches.for_schedule(pool, pool.whole.observed, [np.array([0]), np.array([1, 2])])

"""Cutting graphs out of a pool, and predicting a few at a time."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from training_cases import CPU, graphs, trainer

from megae.graphs import to_data
from megae.training.features import masked_inputs, plain_inputs, propagate, propagated_inputs, row_inputs
from megae.training.pool import GraphPool

MEAN, SCALE = np.array([0.5, -1.0, 2.0]), np.array([2.0, 0.5, 3.0])


def members(k: int = 9):
    out = graphs(k, n=6)
    out[4] = to_data(np.ones((1, 3)), sp.csr_array((1, 1)))
    return out


@pytest.mark.parametrize("chosen", [[0], [3, 4, 7], [8, 1, 4, 0], list(range(9)), [4], [5, 5]])
@pytest.mark.parametrize("use_graph", [True, False])
def test_take_is_collating_the_chosen_from_scratch(chosen, use_graph):
    pool = GraphPool(members(), MEAN, SCALE, CPU, use_graph)
    got = pool.take(np.array(chosen))
    want = GraphPool([members()[i] for i in chosen], MEAN, SCALE, CPU, use_graph).whole
    for name in ("values", "observed", "graph"):
        assert torch.equal(getattr(got, name), getattr(want, name)), name
    for name in ("indptr", "indices", "values"):
        assert torch.equal(getattr(got.operator, name), getattr(want.operator, name)), name
    assert got.n_graphs == len(chosen)
    assert (got.operator.values.numel() > 0) == (use_graph and chosen != [4])
    if got.nodes is not None:
        assert torch.equal(pool.whole.values[torch.from_numpy(got.nodes)], got.values)


def test_values_are_standardised_and_zero_in_holes():
    x = torch.cat([g.x for g in members()])
    whole = GraphPool(members(), MEAN, SCALE, CPU).whole
    z = (x - torch.from_numpy(MEAN)) / torch.from_numpy(SCALE)
    assert torch.equal(whole.observed, torch.isfinite(x))
    assert torch.allclose(whole.values, torch.where(torch.isfinite(z), z, 0.0).float())


@pytest.mark.parametrize("limit", [1, 7, 15, 1000])
def test_chunks_cover_all_graphs_in_order_within_the_limit(limit):
    pool = GraphPool(members(), MEAN, SCALE, CPU)
    chunks = pool.chunks(limit)
    assert np.concatenate(chunks).tolist() == list(range(9))
    for chunk in chunks:
        assert len(chunk) == 1 or pool.ptr[chunk[-1] + 1] - pool.ptr[chunk[0]] <= limit


def test_prediction_does_not_depend_on_the_chunks():
    t, _ = trainer(k=5, n=8)
    generator = torch.Generator().manual_seed(0)
    for w in t.network.parameters():
        w.data.copy_(0.3 * torch.randn(w.shape, generator=generator))
    whole = t.network.predict(t.pool, t.trainable)
    pieces = t.network.predict(t.pool, t.trainable, max_nodes=10)
    assert float(whole.abs().max()) > 0.01
    assert torch.allclose(whole, pieces, atol=1e-5)


@pytest.mark.parametrize("inputs", [plain_inputs, partial(propagated_inputs, iterations=9), masked_inputs, row_inputs])
def test_inputs_do_not_depend_on_cells_that_are_not_visible(inputs):
    pool = GraphPool(graphs(3), MEAN, SCALE, CPU)
    batch = pool.whole
    visible = batch.observed & (torch.rand(batch.observed.shape, generator=torch.Generator().manual_seed(0)) < 0.6)
    before = inputs(batch, visible)
    batch.values.copy_(torch.where(visible, batch.values, batch.values + 17.0))
    assert torch.equal(inputs(batch, visible), before)
    batch.values.copy_(torch.where(visible, batch.values + 1.0, batch.values))
    assert not torch.equal(inputs(batch, visible), before)


def test_plain_inputs_against_numpy():
    batch = GraphPool(graphs(4), MEAN, SCALE, CPU).whole
    visible = batch.observed.clone()
    visible[batch.graph == 2, 1] = False
    got = plain_inputs(batch, visible).numpy()
    values, mask, graph = batch.values.numpy(), visible.numpy(), batch.graph.numpy()
    assert np.array_equal(got[:, :3], np.where(mask, values, 0))
    assert np.array_equal(got[:, 3:6], mask)
    for i in range(len(values)):
        for j in range(3):
            seen = values[(graph == graph[i]) & mask[:, j], j]
            assert got[i, 6 + j] == pytest.approx(seen.mean() if seen.size else 0.0, abs=1e-5)


def test_propagation_holds_visible_cells_and_averages_the_rest():
    batch = GraphPool(graphs(2, n=8), MEAN, SCALE, CPU).whole
    S = np.zeros((batch.operator.n,) * 2)
    for i in range(batch.operator.n):
        for p in range(int(batch.operator.indptr[i]), int(batch.operator.indptr[i + 1])):
            S[i, int(batch.operator.indices[p])] = float(batch.operator.values[p])
    z = torch.where(batch.observed, batch.values, 0.0)
    expected, mask = z.double().numpy(), batch.observed.numpy()
    for _ in range(7):
        expected = np.where(mask, z.numpy(), -S @ expected)
    assert np.allclose(propagate(batch.operator, z, batch.observed, 7).numpy(), expected, atol=1e-5)

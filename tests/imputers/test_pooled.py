"""What the peers over graphs share: which graphs a step sees, what it asks for, and how they use the graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geometric_cases import error_against_mean, geometric
from imputer_cases import graphs, ring, same_bits, table

from megae.imputers import REGISTRY, GCMCImputer, GDNImputer, SRMGCNNImputer
from megae.imputers.pooled import PooledNetwork, fill, some_graphs
from megae.training.pool import GraphPool

LEARNT = {
    "gdn": GDNImputer(max_steps=200, hidden=32, random_state=0),
    "gc-mc": GCMCImputer(max_steps=200, hidden=32, code=16, side_hidden=32, random_state=0),
    "srmgcnn": SRMGCNNImputer(max_steps=200, learning_rate=1e-2, random_state=0),
}
SMALL = {
    "gdn": {"max_steps": 3, "hidden": 8},
    "gc-mc": {"max_steps": 3, "hidden": 8, "code": 4},
    "srmgcnn": {"max_steps": 3, "features": 4, "diffusion_steps": 2},
}


@pytest.fixture(params=sorted(LEARNT))
def peer(request):
    return request.param


def test_beats_the_mean_where_nodes_miss_every_attribute(peer):
    X, A, nodes = geometric(seed=1)
    shown = np.where(nodes[:, None], np.nan, X)
    filled = LEARNT[peer].fit_transform(shown, graph=A)
    assert error_against_mean(filled, X, nodes) < 0.6


def test_some_graphs_are_drawn_by_seed_and_step():
    a = some_graphs(60, 1 / 6, 0, 3)
    assert len(a) == 10
    assert (np.diff(a) > 0).all()
    assert np.array_equal(a, some_graphs(60, 1 / 6, 0, 3))
    assert not np.array_equal(a, some_graphs(60, 1 / 6, 0, 4))
    assert np.array_equal(some_graphs(3, 1.0, 0, 0), [0, 1, 2])
    assert len(some_graphs(3, 0.01, 0, 0)) == 1


def test_the_usual_loss_is_the_mean_square_on_asked_cells():
    class Double(PooledNetwork):
        def forward(self, values, visible, operator):
            return 2.0 * values * visible

    generator = torch.Generator().manual_seed(0)
    values, drawn = torch.randn((9, 4), generator=generator), torch.rand((9, 4), generator=generator)
    visible, asked = drawn < 0.6, drawn > 0.4
    expected = (2.0 * values * visible - values)[asked].square().mean()
    torch.testing.assert_close(Double().loss(values, visible, asked, None), expected)
    assert Double().loss(values, visible, asked & False, None) == 0


def test_held_out_and_hidden_cells_never_reach_a_step(peer, monkeypatch):
    """Values that are neither visible nor asked for may be anything."""
    imputer = REGISTRY[peer](random_state=0, **SMALL[peer])
    seen = []
    build = type(imputer)._build

    def spoiled(self, ground, pool):
        network = build(self, ground, pool)
        loss = network.loss

        def watched(values, visible, asked, operator):
            assert not (visible & asked).any()
            plain = loss(values, visible, asked, operator)
            odd = torch.where(visible | asked, values, 1e3)
            seen.append((plain.item(), loss(odd, visible, asked, operator).item()))
            return plain

        monkeypatch.setattr(network, "loss", watched, raising=False)
        return network

    monkeypatch.setattr(type(imputer), "_build", spoiled)
    imputer.fit(table(), graph=ring())
    assert len(seen) == 3
    assert all(a == b for a, b in seen)


def test_chunks_of_graphs_are_filled_as_the_whole(peer, monkeypatch):
    items = graphs(5)
    imputer = REGISTRY[peer](random_state=0, **SMALL[peer]).fit(items)
    whole = imputer.transform(items)
    monkeypatch.setattr("megae.imputers.pooled.CHUNK_NODES", 9)
    for a, b in zip(whole, imputer.transform(items), strict=True):
        torch.testing.assert_close(a.x, b.x, rtol=1e-5, atol=1e-6)


def test_fill_runs_through_a_pool_in_order():
    pool = GraphPool([g for g in _encoded(4)], np.zeros(3), np.ones(3), torch.device("cpu"))

    def network(values, visible, operator):
        return values + operator.n

    assert torch.equal(fill(network, pool, pool.whole.observed), pool.whole.values + pool.whole.operator.n)


def _encoded(k: int):
    from megae.graphs import to_data

    return [to_data(g.x.double().numpy(), ring(8)) for g in graphs(k)]


def test_many_graphs_step_by_some_of_them(peer, monkeypatch):
    sizes = []
    take = GraphPool.take

    def watched(self, chosen):
        sizes.append(len(chosen))
        return take(self, chosen)

    monkeypatch.setattr(GraphPool, "take", watched)
    imputer = REGISTRY[peer](random_state=0, batch_fraction=0.25, validation_fraction=0.0, **SMALL[peer])
    imputer.fit(graphs(24))
    assert sizes[:3] == [6, 6, 6]


def test_time_budget_ends_training(peer, ticking):
    settings = {**SMALL[peer], "max_steps": 200}
    imputer = REGISTRY[peer](random_state=0, time_budget=600.0, **settings).fit(table(), graph=ring())
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 10


def test_same_seed_same_bits(peer):
    X, A = table(), ring()
    a, b, c = (REGISTRY[peer](random_state=s, **SMALL[peer]).fit_transform(X, graph=A) for s in (0, 0, 1))
    assert same_bits(a, b)
    assert not same_bits(a, c)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"batch_fraction": 0.0}, "batch_fraction must lie in"),
        ({"loss_on": "all"}, "loss_on must be one of hidden, observed"),
        ({"max_steps": 0}, "max_steps must be"),
    ],
)
def test_bad_settings_are_refused(peer, setting, message):
    with pytest.raises(ValueError, match=message):
        REGISTRY[peer](**setting).fit(table(), graph=ring())

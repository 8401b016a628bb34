"""Threads that share the graphs of a step, against one that takes them all."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import nn
from training_cases import trainer, weights

from benchmarks import training
from megae.kernels import use_backend
from megae.kernels.choice import backend_for
from megae.models.pieces import WHOLE
from megae.training import crew
from megae.training.crew import Hand, Meeting, may_share, sharing_pays
from megae.training.loop import Trainer

OPTIONS = {"k": 9, "n": 8, "max_steps": 12, "gamma": 0.1, "decay": 0.7}


@pytest.fixture(autouse=True)
def as_many_threads_after() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def shared(size: int = 2, **options) -> Trainer:
    torch.set_num_threads(size)
    t, _ = trainer(**{**OPTIONS, **options})
    assert t.shares_graphs(t._chosen(0))
    return t


def alone(**options) -> Trainer:
    t, _ = trainer(**{**OPTIONS, **options})
    t.threads_may_share = False
    return t


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("fraction", [1.0, 0.7])
def test_steps_end_in_the_weights_of_one_thread(size, fraction):
    own, other = alone(batch_fraction=fraction), shared(size, batch_fraction=fraction)
    start = weights(own)
    for i in range(12):
        for want, got in zip(own._step(i, i / 12), other._step(i, i / 12), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    assert max(float((a - b).abs().max()) for a, b in zip(start, weights(own), strict=True)) > 0.005
    for a, b in zip([*own.weights, *own.average], [*other.weights, *other.average], strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    assert torch.get_num_threads() == size


def test_a_whole_run_is_the_same_bits_again_and_near_the_run_of_one_thread():
    first, second, own = shared(), shared(), alone()
    want = own.run()
    for t in (first, second):
        got = t.run()
        assert got.best_rmse == pytest.approx(want.best_rmse, rel=1e-4)
        assert [h["loss"] for h in got.history] == pytest.approx([h["loss"] for h in want.history], rel=1e-4)
    for a, b in zip(first.weights, second.weights, strict=True):
        assert torch.equal(a, b)


def test_every_thread_has_graphs_of_its_own(monkeypatch):
    t, seen = shared(3), {}
    part = t.pool.part

    def watched(chosen, hand):
        batch = part(chosen, hand)
        seen[hand.rank] = threading.get_ident(), batch.nodes
        return batch

    monkeypatch.setattr(t.pool, "part", watched)
    t._step(0, 0.5)
    assert len({thread for thread, _ in seen.values()}) == 3
    nodes = np.sort(np.concatenate([nodes for _, nodes in seen.values()]))
    assert np.array_equal(nodes, np.arange(t.pool.ptr[-1]))


def test_no_thread_is_taken_by_operations_while_graphs_are_shared(monkeypatch):
    t, seen = shared(), []
    objective = t._objective.forward
    monkeypatch.setattr(t._objective, "forward", lambda *a: seen.append(torch.get_num_threads()) or objective(*a))
    t._step(0, 0.5)
    assert seen == [1, 1]


def test_the_chosen_filter_reaches_every_thread(monkeypatch):
    t, seen = shared(), []
    objective = t._objective.forward

    def watched(batch, *rest):
        seen.append(backend_for(batch.operator).__name__)
        return objective(batch, *rest)

    monkeypatch.setattr(t._objective, "forward", watched)
    with use_backend("torch"):
        t._step(0, 0.5)
    assert seen == ["megae.kernels.sparse"] * 2


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("error", [ZeroDivisionError("why"), KeyboardInterrupt()])
def test_what_stops_one_thread_stops_all_and_is_told(monkeypatch, rank, error):
    t = shared(3)
    objective = t._objective.forward

    def failing(batch, *rest):
        if batch.processes.rank == rank:
            raise error
        return objective(batch, *rest)

    monkeypatch.setattr(t._objective, "forward", failing)
    with pytest.raises(type(error)):
        t._step(0, 0.5)
    assert torch.get_num_threads() == 3
    monkeypatch.setattr(t._objective, "forward", objective)
    own = alone()
    torch.testing.assert_close(t._step(0, 0.5)[0], own._step(0, 0.5)[0], rtol=1e-5, atol=1e-6)


def test_draws_inside_the_network_are_left_to_one_thread():
    t, _ = trainer(**OPTIONS, config={"dropout": 0.2})
    assert not t.threads_may_share
    assert not may_share(nn.Dropout(0.1), t.pool)
    assert may_share(nn.Dropout(0.0), t.pool)


def test_when_sharing_does_not_pay(monkeypatch):
    t = shared()
    everything = np.arange(t.pool.n_graphs)
    assert sharing_pays(t.pool, everything, 2)
    assert not sharing_pays(t.pool, everything, 1)
    assert not sharing_pays(t.pool, everything, 5), "fewer than two graphs each"
    with torch.autocast("cpu"):
        assert not sharing_pays(t.pool, everything, 2), "other threads would not know"
    monkeypatch.setattr(crew, "WHOLE", 20)
    assert not sharing_pays(t.pool, everything, 2), f"more than {WHOLE} nodes run in pieces"
    monkeypatch.undo()
    t.pool.ptr = np.array([0, 90, 92, 94, 96])
    assert not sharing_pays(t.pool, np.arange(4), 2), "one graph is nearly all"


def test_sums_of_a_meeting_are_those_of_all_threads_and_pass_their_gradient_on():
    meeting, found = Meeting(2), {}

    def run(rank: int) -> None:
        x = torch.tensor([1.0 + rank, 10.0], requires_grad=True)
        hand = Hand(rank, 2, meeting=meeting)
        totals = [hand.total(x * k) for k in (1, 2, 3)]
        (gradient,) = torch.autograd.grad(torch.stack(totals).square().sum(), x)
        found[rank] = [t.tolist() for t in totals], gradient.tolist()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    totals = [[3.0, 20.0], [6.0, 40.0], [9.0, 60.0]]
    slope = [sum(2 * t[i] * k for k, t in zip((1, 2, 3), totals, strict=True)) for i in (0, 1)]
    assert found == {0: (totals, slope), 1: (totals, slope)}


@pytest.mark.slow
@pytest.mark.data("ENZYMES")
def test_the_default_model_on_enzymes():
    graphs = training.enzymes()
    own, other = training.trainer_of(graphs, "cpu"), training.trainer_of(graphs, "cpu")
    own.threads_may_share = False
    assert other.shares_graphs(other._chosen(0))
    for i in range(2):
        for want, got in zip(own._step(i, 0.3), other._step(i, 0.3), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    for a, b in zip([*own.weights, *own.average], [*other.weights, *other.average], strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)

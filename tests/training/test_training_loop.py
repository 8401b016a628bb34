"""The trainer: what it averages, keeps, stops at, and takes up again."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
import torch
from training_cases import CPU, graphs, trainer, weights

from megae.training import loop
from megae.training.hiding import seeded_draws
from megae.training.pool import GraphPool
from megae.training.schedule import average_decay, one_cycle
from megae.training.task import exam_errors, exam_rmse, rms


def same(a, b) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_same_seed_same_bits_other_seed_other_bits():
    runs = []
    for seed in (0, 0, 1):
        t, _ = trainer(seed=seed)
        t.run()
        runs.append(weights(t))
    assert same(runs[0], runs[1])
    assert not same(runs[0], runs[2])


def test_average_against_a_slow_twin():
    t, _ = trainer(max_steps=15, decay=0.8)
    twin = [w.clone() for w in weights(t)]
    for step in range(15):
        t._step(step, step / 15)
        d = min(0.8, (step + 1) / (step + 10))
        assert d == average_decay(step, 0.8)
        twin = [d * a + (1 - d) * w for a, w in zip(twin, weights(t), strict=True)]
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(t.average, twin, strict=True))
    assert not same(t.average, weights(t))


def test_learning_rate_follows_the_cycle():
    t, _ = trainer()
    for progress in (0.0, 0.3, 0.9):
        t._step(0, progress)
        assert t.optimizer.param_groups[0]["lr"] == pytest.approx(one_cycle(progress, 3e-3))


def test_best_step_is_kept_not_the_last(monkeypatch):
    t, _ = trainer(max_steps=20, eval_every=5)
    kept = {}
    evaluate = t._evaluate
    scores = iter([9.0, 5.0, 3.0, 4.0, 6.0])

    def scripted(step, *rest):
        kept[step] = [a.clone() for a in t.average]
        return evaluate(step, *rest)

    monkeypatch.setattr(t, "_evaluate", scripted)
    monkeypatch.setattr("megae.training.loop.exam_scores", lambda *_: np.array([next(scores)]))
    outcome = t.run()
    assert (outcome.best_step, outcome.best_rmse, outcome.steps, outcome.stopped) == (10, 3.0, 20, "steps")
    assert same(weights(t), kept[10])
    assert not same(weights(t), kept[20])
    assert not t.network.training


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        ([3.6, 3.5, 2.6, 2.9], 20),  # worse by less than one standard error of the mean difference
        ([3.5, 3.4, 3.4, 3.5], 10),  # worse, and surely so
    ],
)
def test_the_end_of_a_run_is_preferred_where_the_best_step_may_be_luck(monkeypatch, last, kept):
    t, _ = trainer(k=4, max_steps=20, eval_every=5)
    scores = iter([[9.0] * 4, [5.0] * 4, [3.0, 3.0, 3.1, 2.9], [4.0] * 4, last])
    monkeypatch.setattr("megae.training.loop.exam_scores", lambda *_: np.array(next(scores)))
    outcome = t.run()
    assert outcome.best_step == kept
    assert outcome.best_rmse == pytest.approx(np.mean(last) if kept == 20 else 3.0)
    assert same(weights(t), t.average) == (kept == 20)


def test_reported_best_is_the_rmse_of_the_weights_left_in_the_network():
    t, _ = trainer(k=1, max_steps=40)
    outcome = t.run()
    assert exam_rmse(t.network, t.exam, t.weight) == pytest.approx(outcome.best_rmse, rel=1e-6)
    assert outcome.best_rmse == min(h["val_rmse"] for h in outcome.history if h["step"] >= 1)
    assert {"step", "loss", "val_rmse", "entropy", "seconds"} == set(outcome.history[-1])


def test_training_lowers_the_held_out_error():
    t, _ = trainer(k=2, n=60, max_steps=150, config={"hidden": 24})
    start = exam_rmse(t.network, t.exam, t.weight)
    assert t.run().best_rmse < 0.8 * start


def test_patience_stops(monkeypatch):
    t, _ = trainer(max_steps=100, eval_every=2, patience=3)
    scores = iter([5.0, 4.0, 3.0] + [7.0] * 50)
    monkeypatch.setattr("megae.training.loop.exam_scores", lambda *_: np.array([next(scores)]))
    outcome = t.run()
    assert (outcome.stopped, outcome.best_step, outcome.steps) == ("patience", 4, 10)


def test_without_an_exam_the_last_average_is_kept():
    t, _ = trainer(max_steps=12)
    t.exam = None
    outcome = t.run()
    assert outcome.best_step == 12
    assert same(weights(t), t.average)


def test_a_run_that_diverges_keeps_the_best_state_before():
    t, _ = trainer(max_steps=20)
    step = t._step

    def diverging(number, progress):
        if number == 10:
            with torch.no_grad():
                t.weights[0].fill_(float("nan"))
        return step(number, progress)

    t._step = diverging  # type: ignore[method-assign]
    outcome = t.run()
    assert outcome.best_step == 10
    assert np.isfinite(outcome.best_rmse)
    assert all(torch.isfinite(w).all() for w in weights(t))


def test_interrupt_keeps_the_best_state_and_warns(monkeypatch):
    t, _ = trainer(max_steps=40, eval_every=5)
    objective, calls = t.network.objective, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == 18:
            raise KeyboardInterrupt
        return objective(*args)

    monkeypatch.setattr(t.network, "objective", interrupted)
    with pytest.warns(UserWarning, match="interrupted at step 17; keeping the best state so far, of step"):
        outcome = t.run()
    assert (outcome.stopped, outcome.steps) == ("interrupted", 17)
    assert same(weights(t), t.best)
    assert exam_rmse(t.network, t.exam, t.weight) == pytest.approx(outcome.best_rmse, rel=1e-6)
    assert not t.network.training


def test_time_budget_ends_the_run_and_still_judges_the_last_step(ticking):
    t, _ = trainer(max_steps=200, eval_every=150, time_budget=600.0)
    outcome = t.run()
    assert outcome.stopped == "time"
    assert outcome.seconds >= 600
    assert 0 < outcome.steps < 15
    assert [h["step"] for h in outcome.history] == [outcome.steps]


def test_the_shortest_budget_is_worth_one_step_and_compiling_is_not_charged(monkeypatch):
    began = []
    monkeypatch.setattr(loop, "warm_up", lambda kind: began.append((kind, time.monotonic())))
    clock = loop.Clock
    monkeypatch.setattr(loop, "Clock", lambda *args: began.append(clock(*args)) or began[-1])
    t, _ = trainer(max_steps=10, eval_every=5, time_budget=1e-9)
    outcome = t.run()
    assert (outcome.stopped, outcome.steps) == ("time", 1)
    assert outcome.history[-1]["step"] == 1
    assert began[0][0] == "cpu"
    assert began[0][1] <= began[1]._start


def test_every_graph_is_dealt_out_once_per_pass():
    t, _ = trainer(k=12, n=6, batch_fraction=0.25)
    for epoch in range(3):
        dealt = [t._chosen(4 * epoch + s) for s in range(4)]
        assert all(len(d) == 3 for d in dealt)
        assert sorted(np.concatenate(dealt).tolist()) == list(range(12))
    assert not np.array_equal(t._chosen(0), t._chosen(4))


def test_only_trainable_cells_reach_the_objective(monkeypatch):
    t, division = trainer(k=6, n=8, batch_fraction=0.5, max_steps=8)
    objective, seen = t.network.objective, []

    def watched(batch, allowed, hidden, gamma):
        rows = torch.from_numpy(batch.nodes)
        assert torch.equal(allowed, division.trainable[rows])
        assert not (hidden & ~allowed).any()
        seen.append(int(hidden.sum()))
        return objective(batch, allowed, hidden, gamma)

    monkeypatch.setattr(t.network, "objective", watched)
    t.run()
    assert len(seen) == 8
    assert sum(seen) > 0


def test_objective_is_loss_minus_gamma_entropy():
    t, _ = trainer()
    hidden = t.trainable & (torch.rand(t.trainable.shape, generator=torch.Generator().manual_seed(0)) < 0.3)
    plain, entropy = t.network.objective(t.pool.whole, t.trainable, hidden, 0.0)
    regular, _ = t.network.objective(t.pool.whole, t.trainable, hidden, 0.7)
    assert float(entropy) > 0.1
    assert float((regular - plain).detach()) == pytest.approx(-0.7 * float(entropy), rel=1e-4)


def test_exam_errors_against_a_loop():
    t, _ = trainer()
    values = torch.randn(t.exam.hidden.shape, generator=torch.Generator().manual_seed(0))
    truth, weight = t.exam.pool.whole.values, np.array([1.0, 10.0, 100.0])
    expected = [
        float(values[i, j].double() - truth[i, j].double()) * weight[j]
        for i in range(len(values))
        for j in range(3)
        if t.exam.hidden[i, j]
    ]
    assert np.allclose(exam_errors(values, t.exam, weight), expected, rtol=1e-5)
    assert rms(np.array([3.0, 4.0])) == pytest.approx(np.sqrt(12.5))
    assert np.isnan(rms(np.array([])))


def test_exam_rmse_is_the_mean_over_graphs():
    t, _ = trainer(k=4, n=12)
    generator = torch.Generator().manual_seed(0)
    for w in t.network.parameters():
        w.data.copy_(0.2 * torch.randn(w.shape, generator=generator))
    weight = np.array([1.0, 10.0, 100.0])
    hidden = t.exam.hidden.clone()
    hidden[t.exam.pool.whole.graph == 2] = False
    exam = dataclasses.replace(t.exam, hidden=hidden)
    errors = (t.network.predict(exam.pool, exam.visible) - exam.pool.whole.values).double().numpy() * weight
    graph = exam.pool.whole.graph.numpy()
    each = [np.sqrt(np.mean(errors[graph == g][hidden.numpy()[graph == g]] ** 2)) for g in (0, 1, 3)]
    assert exam_rmse(t.network, exam, weight) == pytest.approx(np.mean(each), rel=1e-5)
    nothing = dataclasses.replace(t.exam, hidden=torch.zeros_like(hidden))
    assert np.isnan(exam_rmse(t.network, nothing, weight))


@pytest.mark.parametrize("stop", [5, 15])
def test_a_resumed_run_ends_in_the_same_bits(tmp_path, monkeypatch, stop):
    config = {"dropout": 0.3}
    whole, _ = trainer(max_steps=20, config=config)
    expected = whole.run()
    path = tmp_path / "state"
    first, _ = trainer(max_steps=20, config=config, checkpoint=path, fingerprint="f")
    step = first._step

    def killed(at, progress):
        if at == stop + 2:
            raise RuntimeError("killed")
        return step(at, progress)

    monkeypatch.setattr(first, "_step", killed)
    with pytest.raises(RuntimeError, match="killed"):
        first.run()
    again, _ = trainer(max_steps=20, config=config, checkpoint=path, fingerprint="f", resume=True)
    done = []
    step_again = again._step
    monkeypatch.setattr(again, "_step", lambda at, progress: done.append(at) or step_again(at, progress))
    outcome = again.run()
    assert done == list(range(stop, 20))
    assert same(weights(again), weights(whole))
    assert outcome.best_step == expected.best_step
    assert [h["val_rmse"] for h in outcome.history] == [h["val_rmse"] for h in expected.history]


def test_a_best_step_before_the_kill_is_remembered(tmp_path, monkeypatch):
    scores = iter([9.0, 5.0, 3.0, 4.0, 6.0])
    monkeypatch.setattr("megae.training.loop.exam_scores", lambda *_: np.array([next(scores)]))
    path = tmp_path / "state"
    first, _ = trainer(k=1, max_steps=20, checkpoint=path)
    step, kept = first._step, []

    def killed(at, progress):
        if at == 10:
            kept.extend(a.clone() for a in first.average)
        if at == 12:
            raise RuntimeError("killed")
        return step(at, progress)

    monkeypatch.setattr(first, "_step", killed)
    with pytest.raises(RuntimeError, match="killed"):
        first.run()
    again, _ = trainer(k=1, max_steps=20, checkpoint=path, resume=True)
    outcome = again.run()
    assert (outcome.best_step, outcome.best_rmse, outcome.steps) == (10, 3.0, 20)
    assert same(weights(again), kept)


def test_resume_refuses_a_checkpoint_of_another_run(tmp_path):
    path = tmp_path / "state"
    first, _ = trainer(max_steps=5, checkpoint=path, fingerprint="one")
    first.run()
    other, _ = trainer(max_steps=5, checkpoint=path, fingerprint="two", resume=True)
    with pytest.raises(ValueError, match="other data or settings; pass another checkpoint path, or resume=False"):
        other.run()
    before = path.read_bytes()
    afresh, _ = trainer(max_steps=5, checkpoint=path, fingerprint="two", resume=False)
    assert afresh.run().steps == 5
    assert path.read_bytes() != before


def test_dropout_draws_do_not_touch_the_global_generators(monkeypatch):
    seeded = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    torch.manual_seed(3)
    seeded.clear()
    before = torch.get_rng_state()
    with seeded_draws(0, 1, CPU):
        a = torch.rand(4)
    assert torch.equal(torch.get_rng_state(), before)
    assert seeded == []
    with seeded_draws(0, 1, CPU):
        assert torch.equal(torch.rand(4), a)
    with seeded_draws(0, 2, CPU):
        assert not torch.equal(torch.rand(4), a)


def test_settings_cannot_change_under_way():
    t, _ = trainer()
    with pytest.raises(dataclasses.FrozenInstanceError):
        t.settings.max_steps = 3


def test_graph_free_pool_has_no_edges():
    pool = GraphPool(graphs(2), np.zeros(3), np.ones(3), CPU, use_graph=False)
    assert pool.whole.operator.values.numel() == 0

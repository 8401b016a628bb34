"""The step for CUDA graphs, run as it stands on the CPU, against the trainer's own."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from training_cases import trainer, weights

from benchmarks import training
from megae.training import captured, static
from megae.training.captured import CapturedStep
from megae.training.distributed import Processes


@pytest.mark.parametrize("fraction", [1.0, 0.34])
def test_steps_end_in_the_weights_of_the_trainer(monkeypatch, fraction):
    monkeypatch.setattr(captured, "AHEAD", 5)
    monkeypatch.setattr(static, "_up", lambda count: count)
    options = {"k": 9, "n": 8, "max_steps": 12, "batch_fraction": fraction, "gamma": 0.1, "decay": 0.7}
    own, _ = trainer(**options)
    other, _ = trainer(**options)
    start = weights(own)
    step = CapturedStep(other)
    rooms = {step._choose(i) for i in range(12)} if fraction < 1 else {0}
    assert rooms == ({0, 1, 2} if fraction < 1 else {0})
    for i in range(12):
        want, got = own._step(i, i / 12), step(i, i / 12)
        torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(got[1], want[1], rtol=1e-4, atol=1e-6)
    moved = max(float((a - b).abs().max()) for a, b in zip(start, weights(own), strict=True))
    assert moved > 0.005
    for a, b in zip([*own.weights, *own.average], [*other.weights, *other.average], strict=True):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-5)


def test_it_stands_in_for_the_step_of_a_whole_run():
    own, _ = trainer(k=6, max_steps=20, batch_fraction=0.5)
    other, _ = trainer(k=6, max_steps=20, batch_fraction=0.5)
    other._step = CapturedStep(other)
    want, got = own.run(), other.run()
    assert (got.steps, got.best_step) == (want.steps, want.best_step)
    assert got.best_rmse == pytest.approx(want.best_rmse, rel=1e-3)
    assert [h["loss"] for h in got.history] == pytest.approx([h["loss"] for h in want.history], rel=1e-3)


class NoReading(TorchDispatchMode):
    """Notes operations that a GPU would have to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name().removeprefix("aten::").split(".")[0]
        by_mask = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if by_mask or name in ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh"):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


def test_the_watch_sees_what_must_not_be_done():
    with NoReading() as watch:
        x = torch.arange(3.0)
        assert watch.seen == []
        bool(x.any())
        x[x > 0]
        x.new_tensor(3.0)
        torch.nonzero(x)
    assert watch.seen == ["_local_scalar_dense", "index", "lift_fresh", "nonzero"]


@pytest.mark.parametrize("fraction", [1.0, 0.34])
def test_nothing_is_read_back_or_sent_within_a_step(fraction):
    t, _ = trainer(k=9, n=8, batch_fraction=fraction, gamma=0.1)
    step = CapturedStep(t)
    step(0, 0.0)
    with NoReading() as watch:
        step._compute(0)
    assert watch.seen == []


def test_several_processes_are_refused():
    t, _ = trainer(k=3)
    t.processes = dataclasses.replace(Processes(), size=2)
    with pytest.raises(ValueError, match="for one process"):
        CapturedStep(t)


@pytest.mark.slow
@pytest.mark.data("ENZYMES")
def test_the_default_model_on_enzymes() -> None:
    graphs = training.enzymes()
    own, other = training.trainer_of(graphs, "cpu"), training.trainer_of(graphs, "cpu")
    step = CapturedStep(other)
    for i in range(2):
        for want, got in zip(own._step(i, 0.3), step(i, 0.3), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    for a, b in zip([*own.weights, *own.average], [*other.weights, *other.average], strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)

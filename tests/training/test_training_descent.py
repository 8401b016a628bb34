"""Descent over any step: the best weights come back, time and patience end it, interrupts keep what was learnt."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn

from megae.training.descent import descend


class Counter(nn.Module):
    """Counts the steps taken in a buffer, so that weights can be told apart."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))


def counting(pause: float = 0.0):
    module = Counter()

    def step(k: int, progress: float) -> float:
        assert module.training
        module.steps += 1
        time.sleep(pause)
        return 1.0 / (k + 1)

    return module, step


def test_the_best_weights_come_back():
    module, step = counting()
    outcome = descend(step, [module], max_steps=10, eval_every=1, validate=lambda: abs(float(module.steps) - 4))
    assert float(module.steps) == 4
    assert (outcome.best_step, outcome.steps, outcome.stopped) == (4, 10, "steps")
    assert [h["val_rmse"] for h in outcome.history][:4] == [3, 2, 1, 0]
    assert not module.training


def test_without_validation_the_last_weights_stay():
    module, step = counting()
    outcome = descend(step, [module], max_steps=7, eval_every=3)
    assert float(module.steps) == 7
    assert (outcome.best_step, len(outcome.history)) == (7, 3)


def test_patience_ends_it():
    module, step = counting()
    outcome = descend(
        step, [module], max_steps=100, eval_every=2, patience=3, validate=lambda: abs(float(module.steps) - 4)
    )
    assert (outcome.steps, outcome.stopped, outcome.best_step) == (10, "patience", 4)


def test_the_time_budget_ends_it_and_the_last_steps_are_judged():
    module, step = counting(pause=0.02)
    outcome = descend(step, [module], max_steps=200, eval_every=150, time_budget=0.1, validate=lambda: 1.0)
    assert outcome.stopped == "time"
    assert outcome.seconds >= 0.1
    assert 0 < outcome.steps <= 6
    assert [h["step"] for h in outcome.history] == [outcome.steps]


def test_progress_follows_steps_or_time_whichever_is_further():
    seen = []
    descend(lambda k, progress: seen.append(progress) or 0.0, [], max_steps=4)
    assert seen == [0.0, 0.25, 0.5, 0.75]


def test_validation_runs_at_rest_and_training_goes_on():
    module, step = counting()

    def validate() -> float:
        assert not module.training
        assert not torch.is_grad_enabled()
        return 0.0

    descend(step, [module], max_steps=4, eval_every=1, validate=validate)


def test_a_loss_that_is_not_finite_is_an_error_that_says_what_to_do():
    with pytest.raises(FloatingPointError, match="made diverged at step 3; lower the learning rate"):
        descend(lambda k, p: float("nan") if k == 2 else 1.0, [], max_steps=5, eval_every=1, what="made")


def test_an_interrupt_keeps_the_best_so_far():
    module, count = counting()

    def step(k: int, progress: float) -> float:
        if k == 5:
            raise KeyboardInterrupt
        return count(k, progress)

    with pytest.warns(UserWarning, match="interrupted at step 5"):
        outcome = descend(step, [module], max_steps=10, eval_every=1, validate=lambda: abs(float(module.steps) - 2))
    assert (outcome.stopped, float(module.steps)) == ("interrupted", 2)

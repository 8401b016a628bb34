"""Early stopping, on losses made up beforehand."""

from __future__ import annotations

import logging

import pytest
import torch

from megae.downstream.early import seeded, train_until


def run(losses, accuracies=None, **settings):
    """Train a network of one number, which counts epochs, and judge it by the lists."""
    network = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(network.weight)
    modes = []

    def epoch():
        modes.append(network.training)
        with torch.no_grad():
            network.weight += 1
        return torch.zeros(())

    def judge():
        modes.append(network.training)
        assert not torch.is_grad_enabled()
        k = int(network.weight) - 1
        return losses[k], 0.5 if accuracies is None else accuracies[k]

    outcome = train_until(network, epoch, judge, **{"max_epochs": len(losses), "patience": None, **settings})
    assert modes == [True, False] * outcome.epochs
    assert not network.training
    return outcome, int(network.weight)


def test_the_weights_of_the_lowest_loss_come_back():
    outcome, weight = run([3.0, 1.0, 2.0, 1.0, 5.0])
    assert (outcome.best_epoch, outcome.loss, outcome.epochs, outcome.stopped) == (2, 1.0, 5, "epochs")
    assert weight == 2


def test_by_accuracy_ties_go_to_the_lower_loss():
    outcome, weight = run([1.0, 3.0, 2.0, 0.5], [0.5, 0.9, 0.9, 0.8], by="accuracy")
    assert (outcome.best_epoch, outcome.accuracy, weight) == (3, 0.9, 3)


def test_patience_counts_epochs_since_the_best():
    outcome, weight = run([3.0, 1.0, 2.0, 2.0, 0.5], patience=2)
    assert (outcome.epochs, outcome.stopped, weight) == (4, "patience", 2)
    assert run([3.0, 1.0, 2.0, 2.0, 0.5], patience=3)[1] == 5


def test_a_time_budget_lets_one_epoch_through():
    outcome, weight = run([3.0, 1.0], time_budget=1e-9)
    assert (outcome.epochs, outcome.stopped, weight) == (1, "time", 1)


@pytest.mark.parametrize("by", ["loss", "accuracy"])
def test_a_loss_that_is_no_number_is_never_the_best(by):
    assert run([2.0, float("nan"), 3.0], [0.1, 0.9, 0.05], by=by)[1] == 1
    with pytest.raises(FloatingPointError, match="never a finite number"):
        run([float("nan"), float("inf")], by=by)


def test_verbose_logs(caplog):
    with caplog.at_level(logging.INFO, logger="megae"):
        run([3.0, 1.0], verbose=2, what="thing")
    assert [r.getMessage() for r in caplog.records][1].startswith("thing epoch 2/2 loss 0.0000 validation loss 1.0000")


@pytest.mark.parametrize("wrong", [{"max_epochs": 0}, {"patience": 0}, {"time_budget": 0}, {"by": "luck"}])
def test_settings_no_training_can_have(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        run([1.0], **wrong)


def test_seeded_draws_repeat_and_leave_the_global_generator_alone():
    before = torch.get_rng_state()
    drawn = []
    for seed in (1, 1, 2):
        with seeded(seed, torch.device("cpu")):
            drawn.append(torch.rand(3))
    torch.testing.assert_close(torch.get_rng_state(), before)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])

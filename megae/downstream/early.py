"""Training that stops where validation stops improving, and keeps the weights it had there."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from megae.training.progress import _make_audible

logger = logging.getLogger("megae")


@dataclass(frozen=True)
class Outcome:
    """How a training ended; epochs count from 1.

    Parameters
    ----------
    best_epoch : the one whose weights were kept
    loss, accuracy : on validation, at that epoch
    epochs : how many were run
    stopped : "epochs", "patience" or "time"
    """

    best_epoch: int
    loss: float
    accuracy: float
    epochs: int
    stopped: str
    seconds: float


def train_until(
    network: torch.nn.Module,
    epoch: Callable[[], Tensor],
    judge: Callable[[], tuple[float, float]],
    *,
    by: str = "loss",
    max_epochs: int,
    patience: int | None,
    time_budget: float | None = None,
    verbose: int = 0,
    what: str = "classifier",
) -> Outcome:
    """Run epochs while validation improves; the network ends in evaluation mode with the best weights.

    Parameters
    ----------
    network : Module
    epoch : callable
        One pass of training; returns its loss. The network is in training mode.
    judge : callable
        Returns loss and accuracy on validation. The network is in evaluation mode, gradients are off.
    by : "loss" or "accuracy"
        What is best on validation: the lowest loss, or the highest accuracy and, where equal, the lowest loss.
    max_epochs : int
    patience : int or None
        Epochs without a new best before stopping; None never stops early.
    time_budget : float, optional
        Seconds; at least one epoch is run.
    verbose : int
        0 is silent, 1 logs ten times, 2 logs each epoch.
    what : str
        Name in the log.
    """
    check_training(max_epochs, patience, time_budget)
    if by not in ("loss", "accuracy"):
        raise ValueError(f"by must be 'loss' or 'accuracy', got {by!r}")
    if verbose:
        _make_audible()
    start = time.perf_counter()
    best_epoch, best_loss, best_accuracy, stopped = 0, math.inf, -1.0, "epochs"
    best = {name: value.detach().clone() for name, value in network.state_dict().items()}
    every = 1 if verbose > 1 else max(1, max_epochs // 10)
    for k in range(1, max_epochs + 1):
        network.train()
        loss = epoch()
        network.eval()
        with torch.no_grad():
            judged, accuracy = judge()
        better = judged < best_loss
        if by == "accuracy":
            better = accuracy > best_accuracy or (accuracy == best_accuracy and better)
        if better and math.isfinite(judged):
            best_epoch, best_loss, best_accuracy = k, judged, accuracy
            for name, value in network.state_dict().items():
                best[name].copy_(value)
        if verbose and (k % every == 0 or k == max_epochs):
            shown = (what, k, max_epochs, float(loss), judged, accuracy)
            logger.info("%s epoch %d/%d loss %.4f validation loss %.4f accuracy %.4f", *shown)
        if patience is not None and k - best_epoch >= patience:
            stopped = "patience"
            break
        if time_budget is not None and time.perf_counter() - start >= time_budget:
            stopped = "time"
            break
    if best_epoch == 0:
        raise FloatingPointError(
            f"{what}: the validation loss was never a finite number; check the features for extreme values or lower "
            "the learning rate"
        )
    network.load_state_dict(best)
    network.eval()
    return Outcome(best_epoch, best_loss, best_accuracy, k, stopped, time.perf_counter() - start)


def check_training(max_epochs: int, patience: int | None, time_budget: float | None) -> None:
    """Refuse settings no training can have."""
    if max_epochs < 1:
        raise ValueError(f"max_epochs must be at least 1, got {max_epochs}")
    if patience is not None and patience < 1:
        raise ValueError(f"patience must be at least 1, or None never to stop early, got {patience}")
    if time_budget is not None and time_budget <= 0:
        raise ValueError(f"time_budget must be a positive number of seconds, or None, got {time_budget}")


@contextlib.contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw initial weights and dropout from ``seed``; torch's global generators are put back afterwards."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield

"""What a training run is told, and what it came to."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """How to train.

    Parameters
    ----------
    batch_fraction : share of the graphs in one step
    jitter : hiding rates are multiplied by a factor drawn from [1 - jitter, 1 + jitter] in each step
    patience : evaluations without improvement before stopping, or None
    """

    max_steps: int
    learning_rate: float
    weight_decay: float
    gamma: float
    batch_fraction: float
    decay: float
    jitter: float
    gradient_clip: float
    eval_every: int
    patience: int | None
    time_budget: float | None
    seed: int
    verbose: int
    what: str = "megae"
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False
    fingerprint: str = ""


@dataclass
class Outcome:
    """What a run came to.

    Parameters
    ----------
    history : list of {"step", "loss", "val_rmse", "entropy", "seconds"}
    stopped : "steps", "time", "patience" or "interrupted"
    carried : whether propagated values fill the holes after all, see :mod:`megae.training.carrying`
    """

    best_step: int = 0
    best_rmse: float = float("inf")
    steps: int = 0
    stopped: str = "steps"
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    carried: bool = False

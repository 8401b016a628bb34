"""Fits with a checkpoint; run as a script, it waits half way to be killed: ``python resumable.py CHECKPOINT``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from imputer_cases import ring
from megae_cases import holes, megae, punched, waves

from megae.training.loop import Trainer

X = punched(waves(), holes((40, 4)))


def fit(checkpoint: str | None, resume: bool = False, **kw):
    settings = {"max_steps": 300, "patience": 1000, "diagnose": True, **kw}
    return megae(**settings).fit(X, graph=ring(40), checkpoint=checkpoint, resume=resume)


def fit_and_wait(checkpoint: str) -> None:
    """Say so and wait at the third step after the first checkpoint, until killed or until nobody listens any more."""
    step, beyond = Trainer._step, []

    def waiting(self: Trainer, at: int, progress: float) -> Any:
        if Path(checkpoint).exists():
            beyond.append(at)
        if len(beyond) == 3:
            print("waiting", flush=True)
            sys.stdin.read()
            raise SystemExit("was not killed")
        return step(self, at, progress)

    Trainer._step = waiting  # type: ignore[method-assign]
    fit(checkpoint)


if __name__ == "__main__":
    fit_and_wait(sys.argv[1])

"""The trainer that ``fit`` would run, taken out before it trains: for benchmarks and tests of single steps."""

from __future__ import annotations

from typing import Any

from megae import MEGAEImputer
from megae.datasets import load, split_indices
from megae.training import loop


class _Caught(Exception):
    """Carries the trainer out of ``fit`` before it trains."""


def trainer_of(graphs: list[Any], device: str, **settings: Any) -> loop.Trainer:
    """The trainer that ``fit`` would run, as ``fit`` builds it."""
    run = loop.Trainer.run

    def catch(trainer: loop.Trainer) -> loop.Outcome:
        raise _Caught(trainer)

    loop.Trainer.run = catch  # type: ignore[method-assign]
    try:
        MEGAEImputer(random_state=0, device=device, hole_rate=0.1, diagnose=False, **settings).fit(graphs)
    except _Caught as caught:
        return caught.args[0]
    finally:
        loop.Trainer.run = run  # type: ignore[method-assign]
    raise RuntimeError("fit built no trainer")


def enzymes() -> list[Any]:
    """The training graphs of the first split."""
    everything = load("ENZYMES")
    return [everything[int(i)] for i in split_indices(len(everything), random_state=0)[0]]

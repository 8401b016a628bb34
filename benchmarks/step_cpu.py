"""One training step of the default model on CPU against the same model on torch's own sparse and dense products.

ENZYMES, the sixth of the training graphs that a step takes, another one in each turn as in training, widths of the
preset. Ours or torch's way are the filter, the linear maps, and the threads: ours share the graphs of a step
(``megae.training.crew``) and leave the update of the weights to one of them, torch's share every operation. The share
of the filter is what its forward and backward calls take of the threads' time in a step. Beside them: the same step
with products of float32 matrices rounded to bfloat16 (``torch.set_float32_matmul_precision("medium")``), and how long
the products alone would take at the rate this machine reaches on one of them.

    python -m benchmarks.step_cpu
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.record import RESULTS, bar, write_record
from benchmarks.timing import take_turns
from benchmarks.training import enzymes, trainer_of
from megae.kernels import choice, use_backend
from megae.models import linear
from megae.training.loop import Trainer

VARIANTS = {
    "megae": ("numba", True, True),
    "torch": ("torch", False, False),
    "torch's sparse product, all else ours": ("torch", True, True),
    "torch's linear maps, all else ours": ("numba", False, True),
    "threads inside operations, all else ours": ("numba", True, False),
    "our filter, all else torch's": ("numba", False, False),
}
"""Name -> whose filter, whether linear maps go by ``megae.models.linear``, and whether threads share the graphs."""


class Stopwatch:
    """Seconds spent in the functions of a backend, by all threads together."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.laps: list[float] = []

    @property
    def seconds(self) -> float:
        return sum(self.laps)

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self.backend, name)

        def timed(*args: Any) -> Any:
            began = time.perf_counter()
            try:
                return inner(*args)
            finally:
                self.laps.append(time.perf_counter() - began)

        return timed


@contextmanager
def watched(name: str) -> Iterator[Stopwatch]:
    """The backend of this name with a stopwatch around it."""
    watch = Stopwatch(choice.backend_by_name(name))
    before = choice.backend_by_name
    choice.backend_by_name = lambda _: watch  # type: ignore[assignment,return-value]
    try:
        with use_backend(name):
            yield watch
    finally:
        choice.backend_by_name = before


@contextmanager
def linear_maps(ours: bool) -> Iterator[None]:
    """Linear maps by ``megae.models.linear``, or by torch."""
    before = linear._by_onednn
    if not ours:
        linear._by_onednn = lambda n, weight: False  # type: ignore[assignment]
    try:
        yield
    finally:
        linear._by_onednn = before


@contextmanager
def threads_share_graphs(trainer: Trainer, ours: bool) -> Iterator[None]:
    """Threads as ``fit`` uses them, or inside every operation and nowhere else."""
    before = trainer.threads_may_share, trainer.few_weights
    if not ours:
        trainer.threads_may_share = trainer.few_weights = False
    try:
        yield
    finally:
        trainer.threads_may_share, trainer.few_weights = before


@contextmanager
def variant(name: str, trainer: Trainer) -> Iterator[None]:
    """Steps of ``trainer`` as ``VARIANTS`` says."""
    filter_by, our_maps, our_threads = VARIANTS[name]
    with use_backend(filter_by), linear_maps(our_maps), threads_share_graphs(trainer, our_threads):
        yield


def measure(rounds: int = 30, graphs: int | None = None, **settings: Any) -> dict[str, Any]:
    """Seconds of a step in each variant, the filter's share of some, and the ratio that is asked for."""
    trainer = trainer_of(enzymes()[:graphs], "cpu", **settings)

    def stepper(name: str) -> Any:
        steps = itertools.count()

        def step() -> None:
            with variant(name, trainer):
                trainer._step(next(steps), 0.5)

        return step

    rounded = stepper("megae")

    def rounded_step() -> None:
        torch.set_float32_matmul_precision("medium")
        try:
            rounded()
        finally:
            torch.set_float32_matmul_precision("highest")

    batch = trainer.pool.take(trainer._chosen(0))
    x, weight = torch.randn(linear.even_rows(batch.operator.n, torch.empty(512, 256)), 256), torch.randn(512, 256)
    seconds = take_turns(
        {name: stepper(name) for name in VARIANTS}
        | {"megae, bfloat16 products": rounded_step, "one product": lambda: linear.linear(x, weight)},
        rounds,
        budget=150,
    )
    rate = 2 * x.shape[0] * weight.numel() / seconds.pop("one product")
    with FlopCounterMode(display=False) as counter:
        stepper("our filter, all else torch's")()
    shares = {}
    for name in ("megae", "torch"):
        with variant(name, trainer), watched(VARIANTS[name][0]) as watch:
            sharing = torch.get_num_threads() if trainer.shares_graphs(trainer._chosen(0)) else 1
            began = time.perf_counter()
            for step in range(max(2, rounds // 4)):
                trainer._step(step, 0.5)
            shares[name] = watch.seconds / (time.perf_counter() - began) / sharing
    what = "training step on CPU, times faster than on torch's sparse and dense products"
    return {
        "nodes": batch.operator.n,
        "graphs": batch.n_graphs,
        "non_zeros": batch.operator.values.numel(),
        "weights": sum(w.numel() for w in trainer.weights),
        "seconds": seconds,
        "threads_share_graphs": trainer.shares_graphs(trainer._chosen(0)),
        "share_of_filter": shares,
        "product_gflop": counter.get_total_flops() / 1e9,
        "product_gflop_per_second": rate / 1e9,
        "seconds_of_products_at_that_rate": counter.get_total_flops() / rate,
        "bars": [bar(what, seconds["torch"] / seconds["megae"], at_least=2)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "step_cpu.json")
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    figures = measure(args.rounds)
    write_record(args.out, figures)
    print({k: figures[k] for k in ("seconds", "share_of_filter")})
    for line in figures["bars"]:
        print(f"{line['what']}: {line['measured']:.2f}")


if __name__ == "__main__":
    main()

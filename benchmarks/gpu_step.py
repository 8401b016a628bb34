"""One training step on a GPU at ENZYMES size: captured as a CUDA graph, against eager PyTorch on the same card.

Eager is ``Trainer._step`` as it stands: batches cut on the host, cuSPARSE through torch. The other steps are
``megae.training.captured``, captured or not, with either filter. Variants take turns of several steps each.

    MEGAE_DATA=... python -m benchmarks.gpu_step
    python -m benchmarks.gpu_step --small    # the script itself, anywhere
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from benchmarks.record import RESULTS, bar, write_record
from benchmarks.timing import take_turns
from benchmarks.training import enzymes, trainer_of
from megae.graphs import to_data
from megae.kernels import use_backend
from megae.training import loop
from megae.training.captured import CapturedStep

Step = Callable[[int, float], tuple[Tensor, Tensor]]
SMALL = {"hidden": 16, "band_width": 4, "max_steps": 60}


def few_graphs() -> list[Any]:
    """Two dozen small rings."""
    rng = np.random.default_rng(0)
    sizes = [5 + i % 5 for i in range(24)]
    rings = [sp.csr_array(np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)) for n in sizes]
    return [to_data(rng.standard_normal((n, 3)), ring) for n, ring in zip(sizes, rings, strict=True)]


class Turns:
    """Some steps of one variant, going on where the last turn ended."""

    def __init__(self, step: Step, backend: str, last: int, each: int) -> None:
        self.step, self.backend, self.last, self.each, self.at = step, backend, last, each, 0

    def __call__(self) -> None:
        with use_backend(self.backend):
            for _ in range(self.each):
                self.step(self.at % self.last, self.at % self.last / self.last)
                self.at += 1


def measure(graphs: list[Any], device: str, rounds: int, each: int, **settings: Any) -> dict[str, Any]:
    """Seconds of a step of every variant, and how far capturing moves the weights from the same steps uncaptured."""
    cuda = device == "cuda"

    def make(capture: bool | None) -> tuple[loop.Trainer, Step]:
        trainer = trainer_of(graphs, device, **settings)
        return trainer, trainer._step if capture is None else CapturedStep(trainer, capture)

    plan = {"eager": (None, "torch"), "one shape, torch": (False, "torch")}
    if cuda:
        plan |= {"captured, torch": (True, "torch")}
        if importlib.util.find_spec("triton"):
            plan |= {"one shape, triton": (False, "triton"), "captured, triton": (True, "triton")}
    made = {name: make(capture) for name, (capture, _) in plan.items()}
    last = made["eager"][0].settings.max_steps
    turns = {name: Turns(made[name][1], backend, last, each) for name, (_, backend) in plan.items()}
    seconds = {name: s / each for name, s in take_turns(turns, rounds, synchronize=cuda).items()}
    weights = {name: torch.cat([w.detach().flatten() for w in trainer.weights]) for name, (trainer, _) in made.items()}
    reference = weights["one shape, torch"]
    apart = {name: float((w - reference).norm() / reference.norm()) for name, w in weights.items()}
    trainer = made["eager"][0]
    batch = trainer.pool.take(trainer._chosen(0))
    return {
        "nodes": batch.operator.n,
        "entries": batch.operator.values.numel(),
        "weights": reference.numel(),
        "steps_each": turns["eager"].at,
        "seconds": seconds,
        "weights_apart_from_one_shape_torch": apart,
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_step.json")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--each", type=int, default=20, help="steps in a turn")
    parser.add_argument("--small", action="store_true", help="tiny sizes, on any device: tries the script")
    args = parser.parse_args(argv)
    if not args.small and not torch.cuda.is_available():
        print("gpu_step needs a CUDA device, and torch sees none; --small tries the script without.", file=sys.stderr)
        raise SystemExit(2)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.small:
        figures = measure(few_graphs(), device, 2, 2, **SMALL)
    else:
        figures = measure(enzymes(), device, args.rounds, args.each)
    seconds = figures["seconds"]
    for name, s in seconds.items():
        print(f"{name:20} {1e3 * s:8.3f} ms a step")
    best = min((name for name in seconds if name != "eager"), key=seconds.__getitem__)
    ratio = seconds["eager"] / seconds[best]
    line = bar(f"training step at ENZYMES size on GPU, times faster than eager ({best})", ratio, at_least=3.0)
    write_record(args.out, {**figures, "small": args.small, "best": best, "bars": [line]})


if __name__ == "__main__":
    main()

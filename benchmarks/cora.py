"""Cora (largest component, 2,485 nodes, 1,433 words) at 50 % MCAR: RMSE over the holes, time and peak memory.

Beside MEGAE: the column mean, feature propagation, and the best blend mean + a (propagation - mean) with ``a`` chosen
on the test holes themselves, which no honest method could do: an upper bound on blending.

    MEGAE_DATA=... python -m benchmarks.cora
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.record import RESULTS, write_record
from megae import MEGAEImputer
from megae.datasets import load
from megae.imputers import get_imputer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS / "cora.json")
    args = parser.parse_args()
    graph = load("Cora")[0]
    holes = torch.from_numpy(np.random.default_rng(args.seed).random(graph.x.shape) < args.rate)
    seen = graph.clone()
    seen.x = graph.x.masked_fill(holes, torch.nan)

    def rmse(filled: torch.Tensor) -> float:
        return float((filled - graph.x)[holes].double().square().mean().sqrt())

    start = time.perf_counter()
    imputer = MEGAEImputer(random_state=args.seed, device=args.device, verbose=1)
    filled = imputer.fit_transform(seen).x
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    mean = get_imputer("mean").fit_transform(seen).x
    spread = get_imputer("feature-propagation").fit_transform(seen).x
    blends = {round(a, 2): rmse(mean + a * (spread - mean)) for a in np.arange(0, 1.01, 0.05)}
    best = min(blends, key=blends.__getitem__)
    figures = {
        "dataset": "Cora",
        "rate": args.rate,
        "seed": args.seed,
        "threads": torch.get_num_threads(),
        "rmse": {
            "megae": rmse(filled),
            "mean": rmse(mean),
            "propagation": rmse(spread),
            f"best blend (a={best})": blends[best],
        },
        "seconds": seconds,
        "peak_gib": peak,
        "diagnostics": {k: v for k, v in imputer.diagnostics_.items() if k != "history"},
    }
    write_record(args.out, figures)
    for name, value in figures["rmse"].items():  # type: ignore[attr-defined]
        print(f"{name:24} {value:.4f}")
    print(f"fit and transform took {seconds:.0f} s and {peak:.2f} GiB at the most")


if __name__ == "__main__":
    main()

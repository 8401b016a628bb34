"""ENZYMES at 10 % MCAR: per-graph RMSE of MEGAE's presets and of the graph-free twin.

Split 70-10-20; training graphs complete, holes in validation and test graphs; a new split and mask for each seed. The
imputer sees raw attributes with NaN; the scorer alone divides errors by the column's range over the training graphs.

    MEGAE_DATA=... python -m benchmarks.enzymes --seeds 0 1 2 3 4 --jobs 15
    MEGAE_DATA=... python -m benchmarks.enzymes --methods zero mean graph-mean knn feature-propagation \\
        --out benchmarks/results/enzymes-peers.json
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from benchmarks.record import RESULTS, write_record
from megae import MEGAEImputer
from megae.datasets import load, split_indices
from megae.imputers import get_imputer

RATE = 0.1
PEERS: dict[str, dict[str, Any]] = {
    "zero": {},
    "mean": {},
    "graph-mean": {},
    "knn": {"standardize": True},
    "feature-propagation": {},
}
"""Always run beside, untuned, by the same interface; KNN compares standardised rows, with training rows as donors."""

METHODS: dict[str, dict[str, Any]] = {
    "default": {},
    "graph-free twin": {"use_graph": False},
    "paper": {"preset": "paper"},
    "paper, unregularised": {"preset": "paper", "regularize": False},
}


def punched(graph: Data, rng: np.random.Generator) -> Data:
    """A copy of the graph with a share RATE of its attributes missing."""
    holes = torch.from_numpy(rng.random(graph.x.shape) < RATE)
    out = graph.clone()
    out.x = graph.x.masked_fill(holes, torch.nan)
    return out


def trial(task: tuple[str, int, str]) -> dict[str, Any]:
    """One method on one seed."""
    method, seed, device = task
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    graphs = load("ENZYMES")
    rng = np.random.default_rng(seed)
    train, validation, test = split_indices(len(graphs), random_state=seed)
    seen_validation = [punched(graphs[i], rng) for i in validation]
    seen_test = [punched(graphs[i], rng) for i in test]
    attributes = torch.cat([graphs[i].x for i in train])
    span = (attributes.amax(dim=0) - attributes.amin(dim=0)).clamp_min(1e-12)

    start = time.perf_counter()
    if method in PEERS:
        imputer: Any = get_imputer(method, **PEERS[method])
    else:
        imputer = MEGAEImputer(random_state=seed, diagnose=False, device=device, **METHODS[method])
    imputer.fit([graphs[i] for i in train], validation=seen_validation)
    seconds = time.perf_counter() - start

    errors = [
        ((filled.x - graphs[i].x) / span)[torch.isnan(seen.x)]
        for filled, seen, i in zip(imputer.transform(seen_test), seen_test, test, strict=True)
    ]
    record = {
        "method": method,
        "seed": seed,
        "per_graph_rmse": float(np.mean([float(e.square().mean().sqrt()) for e in errors if e.numel()])),
        "pooled_rmse": float(torch.cat(errors).square().mean().sqrt()),
        "seconds": seconds,
    }
    if method in PEERS:
        return record
    coverage = {}
    for level in (0.8, 0.9, 0.95):
        lower, upper = imputer.intervals(seen_test, coverage=level)
        inside = [
            ((graphs[i].x >= low.x) & (graphs[i].x <= high.x))[torch.isnan(seen.x)]
            for low, high, seen, i in zip(lower, upper, seen_test, test, strict=True)
        ]
        coverage[str(level)] = float(torch.cat(inside).float().mean())
    return {
        **record,
        "coverage": coverage,
        "best_step": imputer.diagnostics_["best_step"],
        "steps": imputer.diagnostics_["steps"],
        "entropy": imputer.diagnostics_["history"][-1]["entropy"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *PEERS], default=list(METHODS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "enzymes.json")
    args = parser.parse_args()
    tasks = [(m, s, args.device) for m in args.methods for s in args.seeds]
    trials: list[dict[str, Any]] = []
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for outcome in pool.map(trial, tasks):
            trials.append(outcome)
            write_record(args.out, {"dataset": "ENZYMES", "rate": RATE, "unit": "training range", "trials": trials})
    print(f"{'method':24} {'per-graph RMSE':>22} {'pooled':>9} {'80 %':>7} {'90 %':>7} {'95 %':>7} {'seconds':>8}")
    for method in args.methods:
        rows = [t for t in trials if t["method"] == method]
        per_graph = [t["per_graph_rmse"] for t in rows]
        levels = ("0.8", "0.9", "0.95")
        covered = [np.mean([t.get("coverage", {}).get(level, np.nan) for t in rows]) for level in levels]
        print(
            f"{method:24} {np.mean(per_graph):12.5f} +- {np.std(per_graph):.5f} "
            f"{np.mean([t['pooled_rmse'] for t in rows]):9.5f} "
            + " ".join(f"{100 * c:7.2f}" for c in covered)
            + f" {np.mean([t['seconds'] for t in rows]):8.0f}"
        )


if __name__ == "__main__":
    main()

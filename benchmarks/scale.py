"""Time and memory of ``impute`` as graphs grow: 10^4, 10^5 and 10^6 nodes, the same number of epochs at each size.

Tables of 32 columns, a tenth of the cells missing, smooth over a random geometric graph of average degree 10. Each size
runs in a process of its own: ``MEGAEImputer`` at its defaults, but for the number of steps and without the graph-free
twin (``diagnose=False``). On one graph a step is an epoch: it takes every node once. ``fit`` also sets cells aside,
looks at them before the first step and after each (that often only because the steps are few), and calibrates its
intervals; ``fill`` is ``transform`` of the same table. Making the table and the graph, importing, compiling the filter
and starting CUDA are in no figure. Peak memory is that of the whole process while it fits and fills, the table and the
graph included.

    python -m benchmarks.scale                        # 10^4 and 10^5 on CPU
    python -m benchmarks.scale --full                 # and 10^6
    python -m benchmarks.scale --device cuda          # all three on a GPU
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.costs import problem
from benchmarks.record import RESULTS, bar, write_record
from megae import MEGAEImputer
from megae.bench.surroundings import peak_memory

COLUMNS = 32
MILLION = 1_000_000


def imputer(steps: int, device: str) -> MEGAEImputer:
    """The default preset for so many steps, none of them spared by early stopping."""
    return MEGAEImputer(max_steps=steps, patience=steps + 1, diagnose=False, random_state=0, device=device)


def measure(case: tuple[int, int, str]) -> dict[str, Any]:
    """Fit and fill one table; ``case`` is its nodes, the steps and the device."""
    nodes, steps, device = case
    warnings.simplefilter("ignore")
    X, A = problem(500, COLUMNS)
    imputer(2, device).fit(X, graph=A).transform(X, graph=A)
    X, A = problem(nodes, COLUMNS)
    with peak_memory() as before:
        model = imputer(steps, device)
    with peak_memory() as memory:
        start = time.perf_counter()
        model.fit(X, graph=A)
        fitted = time.perf_counter()
        filled = model.transform(X, graph=A)
        done = time.perf_counter()
    if not np.isfinite(filled).all():
        raise AssertionError("the table came back with holes")
    return {
        "nodes": nodes,
        "edges": A.nnz // 2,
        "epochs": model.diagnostics_["steps"],
        "fit_seconds": fitted - start,
        "fill_seconds": done - fitted,
        "seconds": done - start,
        "before_gib": before.gib,
        "peak_gib": memory.gib,
        "peak_gpu_gib": memory.gpu_gib if device != "cpu" else None,
    }


def exponent(cases: list[dict[str, Any]], key: str) -> float:
    """Least-squares slope of the logarithm of a figure against that of the nodes."""
    return float(np.polyfit(np.log([c["nodes"] for c in cases]), np.log([c[key] for c in cases]), 1)[0])


def bars(cases: list[dict[str, Any]], device: str) -> list[dict[str, Any]]:
    """What is asked of the growth, and of a million nodes where they were measured."""
    where = "CPU" if device == "cpu" else "the GPU"
    found = [bar(f"exponent of the time of impute against N on {where}", exponent(cases, "seconds"), at_most=1.1)]
    for case in cases:
        if case["nodes"] == MILLION and device == "cpu":
            found.append(bar("peak GiB of impute at 10^6 nodes on CPU", case["peak_gib"], at_most=16))
        elif case["nodes"] == MILLION:
            found.append(bar("minutes of impute at 10^6 nodes on the GPU", case["seconds"] / 60, at_most=10))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", help="sizes; 10^4 and 10^5, and 10^6 with --full or on a GPU")
    parser.add_argument("--steps", type=int, default=5, help="epochs at each size")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--full", action="store_true", help="10^6 nodes on CPU too")
    parser.add_argument("--out", type=Path, help="scale.json, scale-full.json or scale-gpu.json by default")
    args = parser.parse_args()
    large = args.full or args.device != "cpu"
    sizes = args.nodes or [10_000, 100_000, *([MILLION] if large else [])]
    kind = "-gpu" if args.device != "cpu" else "-full" if args.full else ""
    out = args.out or RESULTS / f"scale{kind}.json"
    cases = []
    for nodes in sizes:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            cases.append(pool.submit(measure, (nodes, args.steps, args.device)).result())
        print(json.dumps(cases[-1]), flush=True)
    stand = bars(cases, args.device)
    write_record(
        out,
        {
            "device": args.device,
            "columns": COLUMNS,
            "missing": 0.1,
            "epochs": args.steps,
            "diagnose": False,
            "exponents": {key: exponent(cases, key) for key in ("seconds", "fit_seconds", "fill_seconds", "peak_gib")},
            "cases": cases,
            "bars": stand,
        },
    )
    print(json.dumps(stand, indent=1))


if __name__ == "__main__":
    main()

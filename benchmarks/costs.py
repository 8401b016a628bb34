"""What every method costs: fit and fill of one graph of 10,000 nodes and 50 columns, 10 % of the cells missing.

Each method runs at its defaults in a process of its own, with a limit on its time; what is over the limit is recorded
as such. The attributes are smooth over a random geometric graph of average degree 10, plus noise. ``megae bench list``
shows the figures. Methods measured again take the place of their earlier figures, the others keep theirs, each with
the command, limit, device, threads and hardware of its own run. On a machine that others use too, ``--cpu-time`` counts
the processor time of the one process instead of the time on the wall.

    python -m benchmarks.costs --limit 600
    python -m benchmarks.costs --methods mice miracle --device cpu --threads 1 --cpu-time
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import os
import queue
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from megae.bench.surroundings import peak_memory, surroundings
from megae.imputers import REGISTRY, get_imputer
from megae.io.atomic import atomic_path
from megae.missingness import mcar

OUT = Path(__file__).parents[1] / "megae" / "bench" / "costs.json"


def problem(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, sp.csr_array]:
    """A table (n, d) with holes, and a random geometric graph of average degree 10 over its rows."""
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(seed)
    place = rng.random((n, 2))
    pairs = cKDTree(place).query_pairs(np.sqrt(10 / (np.pi * n)), output_type="ndarray")
    A = sp.csr_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    waves = np.sin(place @ rng.normal(scale=6, size=(2, d)) + rng.uniform(0, 2 * np.pi, d))
    X = waves @ rng.normal(size=(d, d)) / np.sqrt(d) + 0.1 * rng.normal(size=(n, d))
    X[mcar(X, 0.1, seed)] = np.nan
    return X, sp.csr_array(A + A.T)


def measure(name: str, args: argparse.Namespace, out: Any) -> None:
    """Fit and fill with one method; the figures go into the queue."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.cpu_time else time.perf_counter
    X, A = problem(args.nodes, args.columns)
    known = inspect.signature(REGISTRY[name].__init__).parameters
    given = {"random_state": 0, "device": args.device, "verbose": 0, "diagnose": False}
    imputer = get_imputer(name, **{k: v for k, v in given.items() if k in known})
    try:
        with peak_memory() as memory:
            start = clock()
            imputer.fit(X, graph=A)
            fitted = clock()
            imputer.transform(X, graph=A)
            done = clock()
        out.put({"seconds": done - start, "fit": fitted - start, "gib": memory.gib, "gpu_gib": memory.gpu_gib})
    except Exception as error:
        out.put({"seconds": None, "gib": None, "error": f"{type(error).__name__}: {error}"})


def cost(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """What one method costs, or that it is over the limit, and what the figures depend on."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    process = context.Process(target=measure, args=(name, args, out))
    process.start()
    found, start = None, time.monotonic()
    while found is None and (_cpu_seconds(process) if args.cpu_time else time.monotonic() - start) < args.limit:
        alive = process.is_alive()
        try:
            found = out.get(timeout=0.5)
        except queue.Empty:
            if not alive:
                found = {"seconds": None, "gib": None, "error": f"the process ended with code {process.exitcode}"}
    process.kill()
    process.join()
    found = found or {"seconds": None, "gib": None, "error": f"over {args.limit:g} s"}
    print(f"{name:20} {found}", flush=True)
    ran = {"device": args.device, "threads": args.threads, "jobs": args.jobs, "limit": args.limit}
    return {**found, "measured": {**surroundings(), **ran, "clock": "cpu" if args.cpu_time else "wall"}}


def _cpu_seconds(process: Any) -> float:
    """Processor time a process has had so far (Linux)."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def merged(path: Path, found: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """The record at ``path`` with these figures in it, methods in the order of the registry."""
    methods: dict[str, Any] = {}
    if path.is_file():
        record = json.loads(path.read_text(encoding="utf-8"))
        if (record["nodes"], record["columns"]) == (args.nodes, args.columns):
            methods = record["methods"]
        else:
            raise SystemExit(f"{path} holds costs of another graph; give another --out, or remove it")
    methods = {**methods, **found}
    return {
        "nodes": args.nodes,
        "columns": args.columns,
        "methods": {name: methods[name] for name in REGISTRY if name in methods},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=list(REGISTRY), default=list(REGISTRY))
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1, help="methods measured at the same time")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each method")
    parser.add_argument("--cpu-time", action="store_true", help="count processor time, not time on the wall")
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    merged(args.out, {}, args)  # refuses before the long work
    with ThreadPoolExecutor(args.jobs) as pool:
        found = dict(zip(args.methods, pool.map(lambda name: cost(name, args), args.methods), strict=True))
    with atomic_path(args.out) as temporary:
        temporary.write_text(json.dumps(merged(args.out, found, args), indent=1) + "\n")


if __name__ == "__main__":
    main()

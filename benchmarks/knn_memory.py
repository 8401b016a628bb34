"""Memory of the nearest-row imputer: 50,000 rows of 20 columns, 10 % of the cells missing, filled from each other.

Each number of donors runs in a process of its own, so that its peak is its own. The figures are peaks of resident
memory of the whole process, and what it held before ``fit``; seconds are of processor time, since machines are shared.

    python -m benchmarks.knn_memory
    python -m benchmarks.knn_memory --donors 20000
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import RESULTS, write_record
from megae.bench.surroundings import peak_memory
from megae.imputers import KNNImputer
from megae.missingness import mcar


def table(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    """(rows, columns) of rank 5 and noise, a tenth of the cells missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 5)) @ rng.normal(size=(5, columns)) + 0.1 * rng.normal(size=(rows, columns))
    X[mcar(X, 0.1, seed)] = np.nan
    return X


def measure(case: tuple[int, int, int | None]) -> dict[str, Any]:
    """Fill one table; ``case`` is its rows, its columns and the most donors."""
    rows, columns, donors = case
    X = table(rows, columns)
    with peak_memory() as before:
        imputer = KNNImputer(standardize=True, max_donors=donors, random_state=0)
    with peak_memory() as memory:
        start = time.process_time()
        imputer.fit_transform(X)
        seconds = time.process_time() - start
    return {"max_donors": donors, "before_gib": before.gib, "peak_gib": memory.gib, "cpu_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--donors", type=int, nargs="+", default=[20_000, 0], help="the most donors; 0 for all rows")
    parser.add_argument("--out", type=Path, default=RESULTS / "knn-memory.json")
    args = parser.parse_args()
    found = []
    for donors in args.donors:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(measure, ((args.rows, args.columns, donors or None),)))
        print(found[-1])
    write_record(args.out, {"rows": args.rows, "columns": args.columns, "rate": 0.1, "cases": found})


if __name__ == "__main__":
    main()

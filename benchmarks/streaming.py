"""Large tables: reading and writing a CSV file of 10^6 rows and 32 columns of numbers, beside pandas in the same run.

A tenth of the cells are empty. megae reads with the functions that ``megae impute`` reads with, ids and the kinds of
columns included, and writes the table with every hole filled by 0.5, whole and then renamed; pandas reads with
``read_csv`` and writes the same numbers with ``to_csv``. The two take turns. Peaks of resident memory are those of a
process each that does nothing else, with what it held before; the seconds beside them are those of its first and only
call, the median of three such processes for reading.

    python -m benchmarks.streaming
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from benchmarks.record import RESULTS, bar, write_record
from benchmarks.timing import take_turns
from megae.bench.surroundings import peak_memory
from megae.io import Table, atomic_path, edges_of, open_document, read_table, write_table

SHORT, FULL, WHOLE = 24, 4, 4
"""Columns of numbers with six decimals, with all digits of a double, and without a point."""

RATE, FILL = 0.1, 0.5


def make(folder: Path, rows: int, seed: int = 0) -> tuple[Path, Path]:
    """Write the table and as many edges as it has rows."""
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {"id": [f"n{i}" for i in range(rows)]}
    for j in range(SHORT + FULL + WHOLE):
        values = rng.normal(size=rows)
        values = values.round(6) if j < SHORT else values if j < SHORT + FULL else (1000 * values).astype(np.int64)
        columns[f"x{j}"] = pa.array(values, mask=rng.random(rows) < RATE)
    ends = rng.integers(0, rows, size=(2, rows)).astype(str)
    edges = {"source": np.char.add("n", ends[0]), "target": np.char.add("n", ends[1]), "weight": rng.random(rows)}
    paths = folder / "nodes.csv", folder / "edges.csv"
    for path, table in zip(paths, (columns, edges), strict=True):
        pyarrow.csv.write_csv(pa.table(table), path, pyarrow.csv.WriteOptions(quoting_style="none"))
    return paths


def megae_write(path: Path, table: Table, filled: pd.DataFrame) -> None:
    with atomic_path(path) as temporary:
        write_table(temporary, table, filled)


def prepared(what: str, nodes: Path) -> Callable[[], Any]:
    """What is measured, with all that it needs made."""
    out = nodes.with_name(f"{what.replace(' ', '-')}.csv")
    if what == "pandas read":
        return lambda: pd.read_csv(nodes)
    if what == "megae read":
        return lambda: read_table(nodes)
    if what == "pandas write":
        numbers = pd.read_csv(nodes).fillna(FILL)
        return lambda: numbers.to_csv(out, index=False)
    table = read_table(nodes)
    filled = table.frame().fillna({c.name: 1 if c.kind == "int" else FILL for c in table.fillable})
    return lambda: megae_write(out, table, filled)


def memory(what: str, nodes: Path) -> dict[str, float | None]:
    """Peak and seconds of a process that does one thing once, and what it held before."""
    run = prepared(what, nodes)
    with peak_memory() as before:
        pass
    with peak_memory() as peak:
        began = time.perf_counter()
        held = run()
        seconds = time.perf_counter() - began
    del held
    return {"before_gib": before.gib, "peak_gib": peak.gib, "seconds": seconds}


def alone(names: Sequence[str], nodes: Path, rounds: int) -> dict[str, dict[str, float | None]]:
    """`memory` of each in processes of their own, which take turns: the run of median seconds."""
    runs: dict[str, list[dict[str, Any]]] = {what: [] for what in names}
    for _ in range(rounds):
        for what in names:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                runs[what].append(pool.apply(memory, (what, nodes)))
    return {what: sorted(found, key=lambda run: run["seconds"])[rounds // 2] for what, found in runs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "streaming.json")
    args = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        nodes, edges = make(Path(folder), args.rows)
        size = nodes.stat().st_size
        reading = ("pandas read", "megae read")
        writing = ("pandas write", "megae write")
        listing = {"pandas edges": lambda: pd.read_csv(edges), "megae edges": lambda: edges_of(open_document(edges))}
        seconds = take_turns({what: prepared(what, nodes) for what in reading}, rounds=5, budget=30)
        seconds |= take_turns(listing, rounds=5, budget=15)
        seconds |= take_turns({what: prepared(what, nodes) for what in writing}, rounds=1)
        peaks = alone(reading, nodes, rounds=3) | alone(writing, nodes, rounds=1)
    ratios = {kind: seconds[f"megae {kind}"] / seconds[f"pandas {kind}"] for kind in ("read", "write", "edges")}
    first = {kind: peaks[f"megae {kind}"]["seconds"] / peaks[f"pandas {kind}"]["seconds"] for kind in ("read", "write")}
    figures = {
        "rows": args.rows,
        "columns": {"short": SHORT, "full": FULL, "whole": WHOLE},
        "rate": RATE,
        "file_gib": size / 2**30,
        "numbers_gib": args.rows * (SHORT + FULL + WHOLE) * 8 / 2**30,
        "edges": args.rows,
        "seconds": seconds,
        "ratios": ratios,
        "ratios_in_fresh_processes": first,
        "memory": peaks,
        "total_seconds": time.perf_counter() - started,
        "bars": [
            bar("megae read / pandas read", ratios["read"], at_most=3.0),
            bar("megae write / pandas write", ratios["write"], at_most=3.0),
            bar("megae read / pandas read, first call of a process", first["read"], at_most=3.0),
        ],
    }
    for name, value in figures.items():
        print(name, value)
    write_record(args.out, figures)


if __name__ == "__main__":
    main()

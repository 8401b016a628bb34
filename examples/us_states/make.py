"""Make ``nodes.csv``, ``edges.csv`` and ``truth.csv`` from the wheel of libpysal 4.14.1.

Run ``python examples/us_states/make.py`` (downloads the wheel with pip into a temporary folder) or
``python examples/us_states/make.py --wheel libpysal-4.14.1-py3-none-any.whl`` (no network). The same source
gives the same bytes: the two files read are checked against their sha256 and the holes come from one seed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

REQUIREMENT = "libpysal==4.14.1"
FOLDER = "libpysal/examples/us_income"
SHA256 = {
    "usjoin.csv": "01566698b83366c27193ba6cc9d844f92d7c0a1a5dd4b9348aa46935dc9160d8",
    "states48.gal": "08ee593424c543ac39a1279374d37eef4819625ca953771ecd9d16db505d3b9f",
}
SEED = 1929
RATE = 0.2
YEARS = tuple(str(year) for year in range(1929, 2010))

Edge = tuple[str, str]


def punch(n_rows: int, n_columns: int, rate: float = RATE, seed: int = SEED) -> np.ndarray:
    """Return the holes, (n_rows, n_columns) boolean: each cell missing with probability ``rate``."""
    return np.random.default_rng(seed).random((n_rows, n_columns)) < rate


def fetch_wheel(folder: Path) -> Path:
    """Download the wheel with pip into ``folder`` and return its path."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        REQUIREMENT,
        "-d",
        str(folder),
    ]
    subprocess.run(command, check=True)
    return next(folder.glob("libpysal-*.whl"))


def read_member(wheel: Path, name: str) -> str:
    """Return one example file of the wheel as text, after checking its sha256."""
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(f"{FOLDER}/{name}")
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise ValueError(f"{wheel}: {name} has sha256 {found}, expected {SHA256[name]}; use {REQUIREMENT}")
    return content.decode("utf-8")


def read_income(text: str) -> tuple[list[str], list[list[str]]]:
    """Return the 48 state names and their (48, 81) cells, each cell the characters of the source."""
    header, *rows = csv.reader(io.StringIO(text))
    if tuple(header) != ("Name", "STATE_FIPS", *YEARS):
        raise ValueError(f"usjoin.csv: unexpected columns {header}")
    return [row[0] for row in rows], [row[2:] for row in rows]


def read_borders(text: str, names: list[str]) -> list[Edge]:
    """Return each border once, as names, from the GAL format (``id count`` line, then neighbour ids).

    Ids are positions in ``usjoin.csv``. The file lists every border from both sides, which is checked.
    """
    lines = text.split("\n")
    if int(lines[0]) != len(names):
        raise ValueError(f"states48.gal holds {lines[0]} states, usjoin.csv {len(names)}")
    directed: set[tuple[int, int]] = set()
    for i in range(len(names)):
        state, count = (int(word) for word in lines[1 + 2 * i].split())
        neighbours = [int(word) for word in lines[2 + 2 * i].split()]
        if len(neighbours) != count:
            raise ValueError(f"states48.gal line {3 + 2 * i}: {len(neighbours)} neighbours, not {count}")
        directed.update((state, other) for other in neighbours)
    one_sided = [(names[a], names[b]) for a, b in directed if (b, a) not in directed]
    if one_sided:
        raise ValueError(f"states48.gal: borders listed from one side only: {one_sided}")
    return [(names[a], names[b]) for a, b in sorted(directed) if a < b]


def write_csv(path: Path, rows: list[list[str]]) -> None:
    """Write ``rows`` to ``path`` whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def make(wheel: Path, out: Path) -> None:
    """Write the three CSV files made from ``wheel`` into the folder ``out``."""
    names, cells = read_income(read_member(wheel, "usjoin.csv"))
    edges = read_borders(read_member(wheel, "states48.gal"), names)
    holes = punch(len(names), len(YEARS))
    header = ["state", *YEARS]
    truth = [[name, *row] for name, row in zip(names, cells, strict=True)]
    nodes = [
        [name, *("" if hole else cell for cell, hole in zip(row, gaps, strict=True))]
        for name, row, gaps in zip(names, cells, holes, strict=True)
    ]
    write_csv(out / "truth.csv", [header, *truth])
    write_csv(out / "nodes.csv", [header, *nodes])
    write_csv(out / "edges.csv", [["source", "target"], *map(list, edges)])


def main() -> None:
    """Read the command line and make the files."""
    parser = argparse.ArgumentParser(description="Make the US states example from libpysal 4.14.1.")
    parser.add_argument("--wheel", type=Path, help="the wheel, if it is already here")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write into")
    arguments = parser.parse_args()
    if arguments.wheel is not None:
        make(arguments.wheel, arguments.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        make(fetch_wheel(Path(folder)), arguments.out)


if __name__ == "__main__":
    main()

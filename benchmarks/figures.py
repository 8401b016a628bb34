"""Write the README's figures from the records under ``benchmarks/results``.

python -m benchmarks.figures
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.record import RESULTS
from megae.io.atomic import atomic_path

README = Path(__file__).parents[1] / "README.md"
SECTION = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)


def _record(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text())


def _machine(record: dict[str, Any]) -> str:
    return record["gpu"] or f"{record['cpu_count']} CPU cores"


def enzymes() -> str:
    """Table of ENZYMES: mean and standard deviation over seeds."""
    record, peers = _record("enzymes"), _record("enzymes-peers")
    trials = record["trials"] + peers["trials"]
    seeds = sorted({t["seed"] for t in trials})
    lines = [
        f"**ENZYMES, 10 % of the attributes missing** (600 proteins, split 70-10-20, seeds {seeds[0]} to {seeds[-1]}, "
        "mean ± standard deviation over them; errors in units of each column's range over the training graphs).",
        f"MEGAE: `{record['command']}` on {_machine(record)}, torch {record['versions']['torch']}.",
        f"The rest: `{peers['command']}`, untuned.",
        "",
        "| method | RMSE per graph | pooled RMSE | inside 80 % intervals | 90 % | 95 % |",
        "|---|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(t["method"] for t in trials):
        rows = [t for t in trials if t["method"] == method]
        score = [t["per_graph_rmse"] for t in rows]
        pooled = np.mean([t["pooled_rmse"] for t in rows])
        cells = [f"{np.mean(score):.4f} ± {np.std(score):.4f}", f"{pooled:.4f}"]
        for level in ("0.8", "0.9", "0.95"):
            inside = [100 * t["coverage"][level] for t in rows if "coverage" in t]
            cells.append(f"{np.mean(inside):.1f} %" if inside else "")
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cora() -> str:
    """Table of Cora."""
    record = _record("cora")
    lines = [
        f"**Cora, {100 * record['rate']:.0f} % of words missing** (2,485 papers, 1,433 words, seed {record['seed']}).",
        f"`{record['command']}` on {_machine(record)}: {record['seconds']:.0f} s and {record['peak_gib']:.1f} GiB, "
        "diagnostics included. The blend is chosen on the answers, to bound what blending can do.",
        "",
        "| method | RMSE over the holes |",
        "|---|---|",
        *(f"| {name} | {value:.4f} |" for name, value in record["rmse"].items()),
    ]
    return "\n".join(lines)


def demo() -> str:
    """Table of the demo."""
    record = _record("demo")
    lines = [
        f"**The demo**, `{record['command']}` on {_machine(record)}, {record['seconds']:.0f} s in all: digits, 30 % of "
        "the test pixels missing.",
        "",
        "| method | RMSE |",
        "|---|---|",
        *(f"| {row['label']} | {row['rmse']:.4f} |" for row in record["rows"]),
    ]
    return "\n".join(lines)


def section() -> str:
    """All tables."""
    return "\n\n".join([demo(), enzymes(), cora()])


def main() -> None:
    text = README.read_text()
    with atomic_path(README) as temporary:
        temporary.write_text(SECTION.sub(lambda m: f"{m[1]}{section()}\n{m[2]}", text))


if __name__ == "__main__":
    main()

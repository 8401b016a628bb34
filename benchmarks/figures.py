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
    """Table of ENZYMES: mean and deviation over seeds."""
    record = _record("enzymes")
    methods = list(dict.fromkeys(t["method"] for t in record["trials"]))
    lines = [
        "**ENZYMES, 10 % of the attributes missing** (600 proteins, split 70-10-20, seeds "
        f"{', '.join(str(s) for s in sorted({t['seed'] for t in record['trials']}))}; errors in units of each column's "
        "range over the training graphs).",
        f"`{record['command']}` on {_machine(record)}, torch {record['versions']['torch']}.",
        "",
        "| method | RMSE per graph | pooled RMSE | inside 80 % intervals | 90 % | 95 % |",
        "|---|---|---|---|---|---|",
    ]
    for method in methods:
        rows = [t for t in record["trials"] if t["method"] == method]
        score = [t["per_graph_rmse"] for t in rows]
        pooled = np.mean([t["pooled_rmse"] for t in rows])
        inside = [100 * np.mean([t["coverage"][level] for t in rows]) for level in ("0.8", "0.9", "0.95")]
        lines.append(
            f"| {method} | {np.mean(score):.4f} ± {np.std(score):.4f} | {pooled:.4f} | "
            + " | ".join(f"{c:.1f} %" for c in inside)
            + " |"
        )
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
        f"**The demo**, `megae demo --json` on {_machine(record)}, {record['seconds']:.0f} s in all: digits, 30 % of "
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

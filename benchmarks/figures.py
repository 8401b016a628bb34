"""Write the figures of the README and the docs from the records under ``benchmarks/results``.

python -m benchmarks.figures
"""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import performance
from benchmarks.record import RESULTS
from megae.bench.catalogue import Experiment, Row, load_experiment
from megae.bench.store import Store
from megae.bench.trials import grid
from megae.io.atomic import atomic_path

README = Path(__file__).parents[1] / "README.md"
DOCS = Path(__file__).parents[1] / "docs"


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


def table1() -> str:
    """MEGAE on the paper's Table 1 in both units, beside the best other methods measured."""
    paper = load_experiment("table1")
    records = list(Store(RESULTS / "records").records(trial.without_extras() for trial in grid(paper)[0]))
    lines = [
        "**Table 1 of the paper, 10 % of the attributes missing** (RMSE per graph, mean ± standard deviation over "
        "trials). The best other is chosen among the methods that have all seeds of MEGAE's default; the best of those "
        "with fewer stands apart, with MEGAE's figure on the same seeds. `megae bench show table1 --results "
        "benchmarks/results/records` shows every row; each record holds the command that made it. The units are "
        "explained in [docs/benchmark.md](docs/benchmark.md).",
        "",
        "| dataset | unit | MEGAE, default | preset paper | best other | best of those with fewer trials | others run "
        "| MEGAE in the paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    own = ("MEGAE (default)", "MEGAE")
    for dataset in paper.datasets:
        for unit in ("ours", "paper"):
            found = _by_seed(paper, records, dataset, unit)
            if own[0] not in found:
                continue
            others = {label: values for label, values in found.items() if label not in own}
            printed = paper.paper_value("MEGAE", dataset, "mcar", 0.1, "rmse") if unit == "paper" else None
            cells = [dataset, unit, *(_spread(list(found[label].values())) if label in found else "" for label in own)]
            cells += [*best_others(found[own[0]], others), f"{len(others)} of {len(paper.rows) - len(own)}"]
            lines.append("| " + " | ".join([*cells, "" if printed is None else f"{printed:.4f}"]) + " |")
    return "\n".join(lines)


BySeed = dict[int, float]


def _by_seed(paper: Experiment, records: list[dict[str, Any]], dataset: str, unit: str) -> dict[str, BySeed]:
    """Row -> seed -> RMSE."""
    found: dict[str, BySeed] = {}
    for record in records:
        trial = record["trial"]
        if trial["dataset"] == dataset and record["status"] == "ok" and record["scores"]:
            row = next(r for r in paper.rows if (r.method, r.settings) == (trial["method"], trial["settings"]))
            found.setdefault(row.label, {})[trial["seed"]] = record["scores"][unit]["rmse"]
    return found


def best_others(mine: BySeed, others: dict[str, BySeed]) -> tuple[str, str]:
    """The best row that has all of my seeds, and the best against me of those with fewer; both on common seeds."""
    common = {label: {s: v for s, v in values.items() if s in mine} for label, values in others.items()}
    whole = {label: values for label, values in common.items() if len(values) == len(mine)}
    fewer = {label: values for label, values in common.items() if values and label not in whole}

    def best(rows: dict[str, BySeed]) -> str:
        return min(rows, key=lambda label: np.mean([v - mine[s] for s, v in rows[label].items()]))

    first = second = ""
    if whole:
        first = f"{best(whole)}: {_spread(list(whole[best(whole)].values()))}"
    if fewer:
        values = fewer[best(fewer)]
        seeds = f"seed{'' if len(values) == 1 else 's'} {', '.join(map(str, sorted(values)))}"
        figures = np.mean(list(values.values())), np.mean([mine[s] for s in values])
        second = f"{best(fewer)}: {figures[0]:.4f}, MEGAE {figures[1]:.4f} ({seeds})"
    return first, second


def _spread(values: list[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.4f} (1 trial)"
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f} ({len(values)} trials)"


def section() -> str:
    """All tables."""
    return "\n\n".join([demo(), table1(), enzymes(), cora()])


def units() -> str:
    """The paper's MEAN row in the units taken."""
    record = _record("units")
    names = {"as stored": "as stored", "column range over the set": "each column's range over the whole set"}
    names |= {"column range within the graph": "each column's range within the graph"}
    names |= {"row maximum": "the largest absolute value of the node's own row"}
    lines = [
        "| dataset | unit | filled as stored, then converted | filled in that unit | the paper's MEAN |",
        "|---|---|---|---|---|",
    ]
    for dataset, taken in record["taken"].items():
        rows = {r["scale"]: r for r in record["rows"] if r["dataset"] == dataset}
        scale = next(k for k, words in names.items() if taken.startswith(words))
        cells = []
        for way in ("raw fill", "scaled fill"):
            row = rows[f"{scale}, {way}"]
            cells.append(f"{np.mean(row['rmse']):.4f} ± {np.std(row['rmse']):.4f} ({100 * row['away']:+.1f} %)")
        lines.append(f"| {dataset} | {taken} | {cells[0]} | {cells[1]} | {row['paper']:.4f} |")
    return "\n".join(lines)


def two_cores() -> str:
    """What a trial of table1 on ENZYMES takes of two cores, method by method."""
    records = [json.loads(path.read_text()) for path in sorted((RESULTS / "records-cpu" / "ENZYMES").glob("*.json"))]
    lines = ["| method | fit, s | whole trial, s | peak GiB | RMSE, paper unit |", "|---|---|---|---|---|"]
    for record in sorted(records, key=lambda r: r["trial"]["method"]):
        seconds = record["seconds"]
        lines.append(
            f"| {record['trial']['method']} | {seconds['fit']:.0f} | {seconds['total']:.0f} "
            f"| {record['peak_memory_gib']:.1f} | {record['scores']['paper']['rmse']:.4f} |"
        )
    return "\n".join(lines)


def attempts(method: str) -> str:
    """What other settings of a method make of the sets that they were tried on, beside those of the paper's tables.

    A set on which the method is far behind the paper's figure is always there.
    """
    tried = [r for r in Store(RESULTS / "attempts").records() if r["trial"]["method"] == method]
    usual = [r for r in Store(RESULTS / "records").records() if r["trial"]["method"] == method]
    lines = ["| dataset | setting | our unit | the paper's unit | against the paper's |", "|---|---|---|---|---|"]
    for table in ("table1", "table8"):
        paper = load_experiment(table)
        row = next((row for row in paper.rows if row.method == method), None)
        if row is None:
            continue
        wanted = {r["trial"]["dataset"] for r in tried} | {"ENZYMES"} | far_behind(paper, row, usual)
        for dataset in paper.datasets:
            if dataset in wanted:
                lines += _tried(paper, row, dataset, [*usual, *tried])
    return "\n".join(lines)


def far_behind(paper: Experiment, row: Row, records: list[dict[str, Any]]) -> set[str]:
    """The sets on which a row's mean over all its trials at 10 % MCAR is over 30 % above what the paper prints."""
    found = set()
    for dataset in paper.datasets:
        printed = paper.paper_value(row.label, dataset, "mcar", 0.1, "rmse")
        values = [r["scores"]["paper"]["rmse"] for r in _of(dataset, records) if r["trial"]["settings"] == row.settings]
        if printed is not None and values and np.mean(values) > 1.3 * printed:
            found.add(dataset)
    return found


def _of(dataset: str, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records of a set at 10 % MCAR that have scores."""
    wanted = dataset, "mcar", 0.1
    return [
        r for r in records if tuple(r["trial"][k] for k in ("dataset", "mechanism", "rate")) == wanted and r["scores"]
    ]


def _tried(paper: Experiment, row: Row, dataset: str, records: list[dict[str, Any]]) -> list[str]:
    """Lines of one dataset: as in the paper's table first, then other settings; seed 0, and the mean of all seeds."""
    printed, lines = paper.paper_value(row.label, dataset, "mcar", 0.1, "rmse"), []
    by_settings: dict[str, list[dict[str, Any]]] = {}
    for record in _of(dataset, records):
        by_settings.setdefault(json.dumps(record["trial"]["settings"], sort_keys=True), []).append(record)
    for key in sorted(by_settings, key=lambda k: (json.loads(k) != row.settings, k)):
        settings, found = json.loads(key), {r["trial"]["seed"]: r for r in by_settings[key]}
        changed = {k: v for k, v in settings.items() if k not in row.settings or row.settings[k] != v}
        left = [f"`{k}` as by default" for k in row.settings if k not in settings]
        words = ", ".join([*(f"`{k}={v}`" for k, v in changed.items()), *left])
        words = words or f"as in {paper.name.replace('table', 'table ')}"
        for seeds, note in (([0], ""), (sorted(found), f", mean of {len(found)} seeds")):
            if any(s not in found for s in seeds) or (note and len(found) == 1):
                continue
            ours, theirs = (np.mean([found[s]["scores"][u]["rmse"] for s in seeds]) for u in ("ours", "paper"))
            away = "" if printed is None else f"{100 * (theirs / printed - 1):+.0f} %"
            lines.append(f"| {dataset} | {words}{note} | {ours:.4f} | {theirs:.4f} | {away} |")
    return lines


def knn_memory() -> str:
    """Peak memory of the nearest-row imputer."""
    record = _record("knn-memory")
    lines = [
        f"`{record['command']}`: {record['rows']:,} rows of {record['columns']} columns, "
        f"{100 * record['rate']:.0f} % of the cells missing, on {_machine(record)}; peak of the whole process.",
        "",
        "| donors | before `fit` | peak | processor time |",
        "|---|---|---|---|",
    ]
    for case in record["cases"]:
        donors = "all" if case["max_donors"] is None else f"{case['max_donors']:,}"
        sizes = f"{case['before_gib']:.2f} GiB | {case['peak_gib']:.2f} GiB"
        lines.append(f"| {donors} | {sizes} | {case['cpu_seconds']:.0f} s |")
    return "\n".join(lines)


TRIED = (
    *("svd", "mice", "missforest", "pcfi", "gain", "ot", "miracle", "vgae", "grape", "gdn", "gc-mc", "srmgcnn"),
    *("graphvae", "molgan", "megae"),
)
"""Methods whose pages show what other settings make of ENZYMES."""

PAGES = {
    README: {"figures": section},
    DOCS / "benchmark.md": {"units": units, "two-cores": two_cores},
    **{DOCS / "methods" / f"{method}.md": {"attempts": partial(attempts, method)} for method in TRIED},
    DOCS / "methods" / "inv.md": {f"attempts-{d}": partial(attempts, f"inv-{d}") for d in ("mlp", "gcn")},
    DOCS / "methods" / "knn.md": {"attempts": partial(attempts, "knn"), "memory": knn_memory},
    performance.PAGE: {"bars": performance.table, "details": performance.details},
}
"""Page -> name of a marked section -> what writes it."""


def written(page: Path) -> str:
    """A page with its marked sections written anew."""
    text = page.read_text(encoding="utf-8")
    for name, write in PAGES[page].items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = marked.sub(lambda m, w=write: f"{m[1]}{w()}\n{m[2]}", text)
    return text


def main() -> None:
    for page in PAGES:
        text = written(page)
        with atomic_path(page) as temporary:
            temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

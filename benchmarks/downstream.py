"""Accuracy of the downstream classifiers on complete features, beside the paper's.

One graph: nodes drawn by ``NODE_PROTOCOLS``, a new split for each seed. Many graphs: 70-10-20. Settings were chosen by
validation accuracy on other splits (seeds from 100 on), which ``--choose`` measures again; test nodes and graphs are
looked at only here, with the seeds reported. One thread; seconds are of CPU time, since machines are shared.

    MEGAE_DATA=... python -m benchmarks.downstream --choose
    MEGAE_DATA=... python -m benchmarks.downstream --choose --resume    # what the record lacks, after it was stopped
    MEGAE_DATA=... python -m benchmarks.downstream --whole    # Citeseer with every node, in a record of its own
    python -m benchmarks.downstream --write-docs     # the tables of docs/downstream.md out of the records
"""

from __future__ import annotations

import argparse
import json
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from benchmarks.record import RESULTS, write_record
from megae.datasets import load, split_indices
from megae.datasets.catalogue import CATALOGUE
from megae.datasets.places import absent, locate
from megae.datasets.reading import read_whole
from megae.downstream import GCN_SETTINGS, NODE_PROTOCOLS, GCNClassifier, GraphClassifier, node_split
from megae.io.atomic import atomic_path

RECORD = RESULTS / "downstream.json"
WHOLE = RESULTS / "downstream-whole.json"
DOCS = Path(__file__).parents[1] / "docs" / "downstream.md"
SECTION = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)

PAPER = {"Cora": 0.8141, "Citeseer": 0.6714, "Pubmed": 0.7711, "AmaPhoto": 0.9203}
"""The paper's accuracies with full features (Tables 3 and 9); it prints none for whole graphs."""

NODES = ("centred", "row-normalised")
GRAPHS = ("standardised", "row-normalised")
PREPARED = {**dict.fromkeys(PAPER, NODES), "ENZYMES": GRAPHS, "PROTEINS_full": GRAPHS}

_SHORT = {"max_epochs": 200, "patience": 10}
_PLAIN = {"hidden": 16, "learning_rate": 0.01, "weight_decay": 5e-4}
CANDIDATES: dict[str, dict[str, dict[str, Any]]] = {
    "Cora": {"as set": {}, "200 epochs, patience 10": _SHORT},
    "Citeseer": {"as set": {}, "200 epochs, patience 10": _SHORT},
    "Pubmed": {"as set": {}, "200 epochs, patience 10": _SHORT},
    "AmaPhoto": {"as set": {}, "Kipf & Welling's": _PLAIN, "width 64 alone": {**_PLAIN, "hidden": 64}},
    "ENZYMES": {"as set": {}, "width 64": {"hidden": 64}, "no smoothing": {"label_smoothing": 0.0}},
    "PROTEINS_full": {"as set": {}, "width 64": {"hidden": 64}, "no smoothing": {"label_smoothing": 0.0}},
}
"""Settings compared on validation; "as set" are those of the package."""


def whole(dataset: str) -> list[Data]:
    """A single graph with every node that its files hold, not its largest component alone."""
    found = locate(CATALOGUE[dataset])
    if found is None:
        raise FileNotFoundError(absent(CATALOGUE[dataset]))
    return read_whole(CATALOGUE[dataset], found[1], found[0])


def trial(
    dataset: str, features: str, seed: int, settings: dict[str, Any], test: bool, read: Callable[[str], Any] = load
) -> dict[str, Any]:
    """Train once; the test part is looked at only where asked for."""
    graphs = read(dataset)
    start = time.process_time()
    if dataset in NODE_PROTOCOLS:
        graph = graphs[0]
        parts = node_split(graph.y, **NODE_PROTOCOLS[dataset], random_state=seed)
        chosen = {**GCN_SETTINGS.get(dataset, {}), **settings}
        nodes = GCNClassifier(features=features, random_state=seed, device="cpu", **chosen)
        nodes.fit(graph, parts[0], parts[1])
        outcome, accuracy = nodes.outcome_, nodes.accuracy(graph, parts[2]) if test else None
    else:
        train, beside, last = ([graphs[i] for i in p] for p in split_indices(len(graphs), random_state=seed))
        many = GraphClassifier(features=features, random_state=seed, device="cpu", **settings).fit(train, beside)
        outcome, accuracy = many.outcome_, many.accuracy(last) if test else None
    return {
        "dataset": dataset,
        "features": features,
        "seed": seed,
        "accuracy": accuracy,
        "validation_accuracy": outcome.accuracy,
        "best_epoch": outcome.best_epoch,
        "epochs": outcome.epochs,
        "cpu_seconds": time.process_time() - start,
    }


def _rows(record: dict[str, Any], part: str, **wanted: Any) -> list[dict[str, Any]]:
    return [t for t in record[part] if all(t[k] == v for k, v in wanted.items())]


def tables(record: dict[str, Any]) -> str:
    """The record as two Markdown tables."""
    seeds = sorted({t["seed"] for t in record["trials"]})
    lines = [
        f"`{record['command']}`, one thread, torch {record['versions']['torch']}; complete features, seeds {seeds[0]} "
        f"to {seeds[-1]}, mean ± standard deviation in per cent; CPU seconds of one training.",
        "",
        "| dataset | features | test accuracy | the paper's | difference | epochs | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for dataset in dict.fromkeys(t["dataset"] for t in record["trials"]):
        for how in dict.fromkeys(t["features"] for t in _rows(record, "trials", dataset=dataset)):
            rows = _rows(record, "trials", dataset=dataset, features=how)
            found = 100 * np.array([t["accuracy"] for t in rows])
            paper = record["paper"].get(dataset)
            beside = ["", ""] if paper is None else [f"{100 * paper:.1f}", f"{found.mean() - 100 * paper:+.1f}"]
            cells = [dataset, how, f"{found.mean():.1f} ± {found.std():.1f}", *beside]
            cells += [f"{np.mean([t['epochs'] for t in rows]):.0f}", f"{np.mean([t['cpu_seconds'] for t in rows]):.1f}"]
            lines.append("| " + " | ".join(cells) + " |")
    if record["choice"]:
        seeds = sorted({t["seed"] for t in record["choice"]})
        lines += [
            "",
            f"Settings by validation (splits of seeds {seeds[0]} to {seeds[-1]}; no test node or graph is looked at):",
            "",
            "| dataset | settings | features | validation accuracy | epochs | seconds |",
            "|---|---|---|---|---|---|",
        ]
        for key in dict.fromkeys((t["dataset"], t["settings"], t["features"]) for t in record["choice"]):
            rows = _rows(record, "choice", **dict(zip(("dataset", "settings", "features"), key, strict=True)))
            figures = [np.mean([t[k] for t in rows]) for k in ("validation_accuracy", "epochs", "cpu_seconds")]
            cells = [*key, f"{100 * figures[0]:.1f}", f"{figures[1]:.0f}", f"{figures[2]:.1f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def whole_table(record: dict[str, Any]) -> str:
    """Accuracies on graphs with every node."""
    seeds = sorted({t["seed"] for t in record["trials"]})
    lines = [
        f"`{record['command']}`: every node, not the largest component alone; seeds {seeds[0]} to {seeds[-1]}.",
        "",
        "| dataset | features | test accuracy | the paper's | difference |",
        "|---|---|---|---|---|",
    ]
    for dataset, how in dict.fromkeys((t["dataset"], t["features"]) for t in record["trials"]):
        found = 100 * np.array([t["accuracy"] for t in _rows(record, "trials", dataset=dataset, features=how)])
        paper = 100 * record["paper"][dataset]
        figures = [f"{found.mean():.1f} ± {found.std():.1f}", f"{paper:.1f}", f"{found.mean() - paper:+.1f}"]
        cells = [dataset, how, *figures]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def section() -> str:
    """What docs/downstream.md shows of the committed records."""
    return tables(json.loads(RECORD.read_text())) + "\n\n" + whole_table(json.loads(WHOLE.read_text()))


def measure_whole(seeds: list[int]) -> None:
    """Citeseer with every node, the set on which the largest component lies far from the paper's figure."""
    record: dict[str, Any] = {"paper": {"Citeseer": PAPER["Citeseer"]}, "threads": 1, "trials": []}
    for seed in seeds:
        for features in NODES:
            record["trials"].append(trial("Citeseer", features, seed, {}, test=True, read=whole))
            write_record(WHOLE, record)
    print(whole_table(json.loads(WHOLE.read_text())))


def write_docs() -> None:
    """Put the tables where docs/downstream.md wants them."""
    text = DOCS.read_text()
    with atomic_path(DOCS) as temporary:
        temporary.write_text(SECTION.sub(lambda m: f"{m[1]}{section()}\n{m[2]}", text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=list(PREPARED), default=list(PREPARED))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--choose", action="store_true", help="compare settings on validation too")
    parser.add_argument("--choose-seeds", type=int, nargs="+", default=[100, 101])
    parser.add_argument("--resume", action="store_true", help="keep what the record has, and run the rest")
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--whole", action="store_true", help="only measure Citeseer with every node")
    parser.add_argument("--write-docs", action="store_true", help="only write the tables of docs/downstream.md")
    args = parser.parse_args()
    if args.write_docs:
        write_docs()
        return
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if args.whole:
        measure_whole(args.seeds)
        return
    record: dict[str, Any] = {"paper": PAPER, "threads": 1, "trials": [], "choice": []}
    if args.resume and args.out.is_file():
        before = json.loads(args.out.read_text())
        record |= {part: before[part] for part in ("trials", "choice")}
    for dataset in args.datasets:
        for features in PREPARED[dataset]:
            for seed in args.seeds:
                if not _rows(record, "trials", dataset=dataset, features=features, seed=seed):
                    record["trials"].append(trial(dataset, features, seed, {}, test=True))
                    write_record(args.out, record)
    for dataset in args.datasets if args.choose else ():
        for name, settings in CANDIDATES[dataset].items():
            for features in PREPARED[dataset] if dataset in NODE_PROTOCOLS else GRAPHS[:1]:
                for seed in args.choose_seeds:
                    if _rows(record, "choice", dataset=dataset, features=features, seed=seed, settings=name):
                        continue
                    found = trial(dataset, features, seed, settings, test=False)
                    record["choice"].append({**found, "settings": name})
                    write_record(args.out, record)
    print(tables(json.loads(args.out.read_text())))


if __name__ == "__main__":
    main()

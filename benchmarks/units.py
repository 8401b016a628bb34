"""In which units are the paper's figures? Its MEAN row, computed again at every scale it could have used.

The fill is the mean of the observed values of a column within the test graph; 10 % MCAR, five splits and masks. "raw
fill" fills attributes as stored and converts the errors, as the benchmark does: an imputer must not see a scale that
uses hidden values. "scaled fill" scales first, as the paper must have done; both agree unless the scale differs from
row to row.

    MEGAE_DATA=... python -m benchmarks.units
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.record import RESULTS, write_record
from megae.bench.catalogue import load_experiment
from megae.bench.protocol import Answers, pose
from megae.bench.units import PAPER_UNITS
from megae.datasets import load

SETS = ("ENZYMES", "PROTEINS_full", "QM9", "Synthie", "FIRSTMM_DB")


def candidates(x: np.ndarray, span: np.ndarray) -> dict[str, np.ndarray]:
    """Every scale in question, for one graph (N, D); ``span`` (D,) is the range of each column over the set."""

    def positive(values: np.ndarray) -> np.ndarray:
        return np.where(values > 0, values, 1.0)

    return {
        "as stored": np.ones((1, 1)),
        "column range over the set": positive(span)[None, :],
        "column range within the graph": positive(x.max(axis=0) - x.min(axis=0))[None, :],
        "row maximum": positive(np.abs(x).max(axis=1))[:, None],
    }


def graph_mean(x: np.ndarray, holes: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Mean of the observed values of each column, (D,)."""
    seen = ~holes
    mean = np.where(seen, x, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    return np.where(seen.any(axis=0), mean, otherwise)


def figures(answers: Answers) -> dict[str, float]:
    """Per-graph RMSE of the graph mean at each scale, both ways of filling."""
    everything = np.concatenate([g.x.numpy() for g in answers.whole]).astype(np.float64)
    span = everything.max(axis=0) - everything.min(axis=0)
    found: dict[str, list[float]] = {}
    for graph, holes in zip(answers.test, answers.holes, strict=True):
        if not holes.any():
            continue
        x = graph.x.numpy().astype(np.float64)
        for name, scale in candidates(x, span).items():
            z = x / scale
            fills = {
                "raw fill": graph_mean(x, holes, answers.mean) / scale,
                "scaled fill": graph_mean(z, holes, answers.mean / scale.mean(axis=0)),
            }
            for way, fill in fills.items():
                error = np.broadcast_to(fill, z.shape)[holes] - z[holes]
                found.setdefault(f"{name}, {way}", []).append(float(np.sqrt(np.mean(error**2))))
    return {name: float(np.mean(values)) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "units.json")
    args = parser.parse_args()
    table1, rows = load_experiment("table1"), []
    for name in SETS:
        graphs, paper = load(name), table1.paper_value("MEAN", name, "mcar", 0.1, "rmse")
        assert paper is not None
        trials = [figures(pose(name, graphs, "mcar", 0.1, seed)[1]) for seed in range(args.trials)]
        for scale in trials[0]:
            values = [t[scale] for t in trials]
            away = float(np.mean(values)) / paper - 1
            rows.append({"dataset": name, "scale": scale, "rmse": values, "paper": paper, "away": away})
            figure = f"{np.mean(values):8.4f} ± {np.std(values):.4f}"
            print(f"{name:14} {scale:42} {figure}  paper {paper:.4f} {100 * away:+8.1f} %")
    taken = {name: PAPER_UNITS[name][0] for name in SETS}
    write_record(args.out, {"rate": 0.1, "mechanism": "mcar", "taken": taken, "rows": rows})


if __name__ == "__main__":
    main()

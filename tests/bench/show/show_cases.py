"""Experiments and records made by hand, in the shape the sweep writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from megae.bench.catalogue import Experiment, read_experiment
from megae.bench.protocol import PROTOCOL
from megae.bench.trials import Trial

SURROUNDINGS = {
    "command": "megae bench run toy",
    "versions": {"torch": "2.13.0", "numpy": "2.4.0"},
    "cpu": "Test CPU",
    "cpu_count": 2,
    "gpu": None,
    "python": "3.11.2",
    "megae": "0.1.0",
}


def row(label: str, method: str = "mean", origin: str = "paper", doubt: str | None = None, **settings: Any) -> dict:
    return {"label": label, "method": method, "settings": settings, "origin": origin, "doubt": doubt}


def value(label: str, number: float | None, dataset: str = "ENZYMES", measure: str = "rmse", **more: Any) -> dict:
    printed = None if number is None else f"{number}" if measure == "rmse" else f"{100 * number:.2f}%"
    where = {"row": label, "dataset": dataset, "mechanism": "mcar", "rate": 0.1, "measure": measure}
    return {**where, "value": number, "printed": printed, **more}


def experiment(rows: Sequence[Mapping[str, Any]], values: Sequence[Mapping[str, Any]] = (), **more: Any) -> Experiment:
    return read_experiment(
        {
            "name": "toy",
            "title": "A toy table",
            "kind": "imputation",
            "source": {"file": "paper.tex", "label": "toy"},
            "mechanisms": ["mcar"],
            "rates": [0.1],
            "trials": 3,
            "datasets": ["ENZYMES"],
            "extras": {},
            "rows": list(rows),
            "values": list(values),
            "doubts": ["The unit is not stated."],
            **more,
        }
    )


def record(
    method: str,
    seed: int,
    rmse: float | None = None,
    *,
    pairs: Sequence[float | None] | Mapping[str, Sequence[float | None]] | None = None,
    over: str = "test graph",
    ids: Sequence[int] | None = None,
    ours: float | None = None,
    accuracy: tuple[float, float] | None = None,
    entropy: float | None = None,
    error: str | None = None,
    dataset: str = "ENZYMES",
    mechanism: str = "mcar",
    rate: float = 0.1,
    settings: Mapping[str, Any] | None = None,
    extras: Sequence[str] = (),
    **surroundings: Any,
) -> dict[str, Any]:
    """A record; ``rmse`` and ``pairs`` are in the paper's unit, in ours ten times that unless given."""
    trial = Trial(dataset, mechanism, rate, seed, method, dict(settings or {}), tuple(extras))
    scores = None
    if rmse is not None:
        units = {"paper": rmse, "ours": 10 * rmse if ours is None else ours}
        rest = {"mae": 0.0, "r2": 0.0}
        scores = {u: {"rmse": x, "per_graph_rmse": x, "pooled_rmse": x, **rest} for u, x in units.items()}
    if pairs is not None and not isinstance(pairs, Mapping):
        pairs = {"paper": list(pairs), "ours": [None if e is None else 10 * e for e in pairs]}
    return {
        "trial": trial.to_dict(),
        "key": trial.key,
        "protocol": PROTOCOL,
        "status": "ok" if error is None else "error",
        "error": error,
        "scores": scores,
        "pairs": None if pairs is None else {"over": over, "rmse": pairs} | ({"ids": list(ids)} if ids else {}),
        "accuracy": None if accuracy is None else {"centred": accuracy[0], "row-normalised": accuracy[1]},
        "entropy_change": entropy,
        "seconds": {"total": 1.0},
        "peak_memory_gib": 0.1,
        "device": "cpu",
        "surroundings": {**SURROUNDINGS, **surroundings},
    }


def earlier(made: Mapping[str, Any]) -> dict[str, Any]:
    """A record as it was written when pairs were kept in our unit alone."""
    return {**made, "pairs": {**made["pairs"], "rmse": made["pairs"]["rmse"]["ours"]}}

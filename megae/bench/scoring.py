"""Errors over the holes: per graph, pooled, in our units and in the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Data

from megae.bench.protocol import Answers
from megae.bench.units import scale

UNITS = ("ours", "paper")


def score(filled: Sequence[np.ndarray], answers: Answers) -> dict[str, Any]:
    """Score filled test graphs.

    Parameters
    ----------
    filled : ndarrays of shape (N_i, D), one per test graph
    answers : Answers

    Returns
    -------
    dict
        ``scores``: unit -> ``rmse`` (the headline: per graph on many graphs, pooled on one), ``per_graph_rmse``,
        ``pooled_rmse``, ``mae`` and ``r2`` against the training mean of the column; ``pairs``: RMSE of each test graph
        (each column on one graph) in our units, None where it has no hole, and ``ids``, where in the dataset those
        graphs stand; ``holes``: how many cells were scored.
    """
    check_fills(filled, answers.test, answers.holes)
    scores = {unit: _measures(filled, answers, unit) for unit in UNITS}
    for measures in scores.values():
        measures["rmse"] = measures["pooled_rmse" if answers.single else "per_graph_rmse"]
    ours = [_errors(f, g, h) / _at(scale("ours", g, answers), h) for f, g, h in _cases(filled, answers)]
    if answers.single:
        holes = answers.holes[0]
        pairs: dict[str, Any] = {"over": "column", "rmse": _by_column(ours[0], holes)}
    else:
        pairs = {"over": "test graph", "rmse": [rms(e) for e in ours]}
        if answers.parts:
            pairs["ids"] = answers.parts[2].tolist()
    return {"scores": scores, "pairs": pairs, "holes": int(sum(h.sum() for h in answers.holes))}


def check_fills(filled: Sequence[np.ndarray], graphs: Sequence[Data], holes: Sequence[np.ndarray]) -> None:
    """Refuse a fill that is not finite or that touches observed cells."""
    for values, graph, gaps in zip(filled, graphs, holes, strict=True):
        if not np.isfinite(values).all():
            raise ValueError("the method left holes open or filled in values that are not finite")
        if not np.array_equal(values[~gaps], graph.x.numpy()[~gaps]):
            raise ValueError("the method changed observed cells")


def rms(errors: np.ndarray) -> float | None:
    """Root of the mean square, None for no errors."""
    return float(np.sqrt(np.mean(errors**2))) if errors.size else None


def _cases(filled: Sequence[np.ndarray], answers: Answers) -> list[tuple[np.ndarray, Data, np.ndarray]]:
    return list(zip(filled, answers.test, answers.holes, strict=True))


def _errors(values: np.ndarray, graph: Data, holes: np.ndarray) -> np.ndarray:
    return (values.astype(np.float64) - graph.x.numpy().astype(np.float64))[holes]


def _at(factor: np.ndarray, holes: np.ndarray) -> np.ndarray:
    return np.broadcast_to(factor, holes.shape)[holes]


def _measures(filled: Sequence[np.ndarray], answers: Answers, unit: str) -> dict[str, Any]:
    errors, baseline = [], []
    for values, graph, holes in _cases(filled, answers):
        factor = _at(scale(unit, graph, answers), holes)
        errors.append(_errors(values, graph, holes) / factor)
        baseline.append(_errors(np.broadcast_to(answers.mean, holes.shape), graph, holes) / factor)
    pooled, reference = np.concatenate(errors), np.concatenate(baseline)
    of_graphs = [r for e in errors if (r := rms(e)) is not None]
    spread = float(np.sum(reference**2))
    return {
        "per_graph_rmse": float(np.mean(of_graphs)) if of_graphs else None,
        "pooled_rmse": rms(pooled),
        "mae": float(np.mean(np.abs(pooled))) if pooled.size else None,
        "r2": 1.0 - float(np.sum(pooled**2)) / spread if spread > 0 else None,
    }


def _by_column(errors: np.ndarray, holes: np.ndarray) -> list[float | None]:
    squares = np.zeros(holes.shape)
    squares[holes] = errors**2
    counts = holes.sum(axis=0)
    return [float(np.sqrt(s / c)) if c else None for s, c in zip(squares.sum(axis=0), counts, strict=True)]

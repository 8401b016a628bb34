"""Errors over the holes: per graph, pooled, in our units and in the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Data

from megae.bench.protocol import Answers
from megae.bench.units import Scale, scale

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
        ``pooled_rmse``, ``mae`` and ``r2`` against the training mean of the column; ``pairs``: unit -> ``rmse`` of each
        test graph (each column on one graph), None where it has no hole, and ``ids``, where in the dataset those graphs
        stand; ``holes``: how many cells were scored.
    """
    check_fills(filled, answers.test, answers.holes)
    means = [np.broadcast_to(answers.mean, h.shape) for h in answers.holes]
    scores: dict[str, dict[str, Any]] = {}
    pairs: dict[str, Any] = {"over": "column" if answers.single else "test graph", "rmse": {}}
    for unit in UNITS:
        divide_by = scale(unit, answers)
        errors = _errors(filled, answers, divide_by)
        measures = _measures(errors, _errors(means, answers, divide_by))
        scores[unit] = measures | {"rmse": measures["pooled_rmse" if answers.single else "per_graph_rmse"]}
        of_graphs = [rms(e) for e in errors]
        pairs["rmse"][unit] = _by_column(errors[0], answers.holes[0]) if answers.single else of_graphs
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


def _errors(filled: Sequence[np.ndarray], answers: Answers, divide_by: Scale) -> list[np.ndarray]:
    """Errors over the holes of each test graph, in a unit."""
    errors = []
    for values, graph, holes in zip(filled, answers.test, answers.holes, strict=True):
        away = values.astype(np.float64) - graph.x.numpy().astype(np.float64)
        errors.append(away[holes] / np.broadcast_to(divide_by(graph), holes.shape)[holes])
    return errors


def _measures(errors: Sequence[np.ndarray], baseline: Sequence[np.ndarray]) -> dict[str, Any]:
    """The figures of a unit from the errors on each graph, and those of the training mean."""
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

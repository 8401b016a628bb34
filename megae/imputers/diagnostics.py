"""How far to trust a fit: its error on cells that nothing else was done with, beside what costs nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from megae.training.features import propagate
from megae.training.loop import Outcome
from megae.training.task import Exam, ImputationNetwork, exam_errors


def held_out_rmse(network: ImputationNetwork, exam: Exam | None, weight: np.ndarray) -> float:
    """Pooled RMSE over an exam's hidden cells; NaN without an exam."""
    if exam is None:
        return float("nan")
    return exam.rms(exam_errors(network.predict(exam.pool, exam.visible), exam, weight))


def simple_methods(exam: Exam | None, centre: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Pooled RMSE of the training mean and of feature propagation of what lies around it.

    Parameters
    ----------
    centre : ndarray of shape (E,)
        Training mean, standardised.
    weight : ndarray of shape (E,)
        Units of error per standardised unit.
    """
    if exam is None:
        return {"mean": float("nan"), "propagation": float("nan")}
    values = exam.pool.whole.values
    offset = torch.as_tensor(centre, dtype=values.dtype, device=values.device)
    spread = propagate(exam.pool.whole.operator, (values - offset) * exam.visible, exam.visible, iterations=40)
    return {
        "mean": exam.rms(exam_errors(offset.expand_as(values), exam, weight)),
        "propagation": exam.rms(exam_errors(spread + offset, exam, weight)),
    }


def describe(
    rmse: dict[str, float], outcome: Outcome, exam: Exam | None, unit: str, quality: dict[str, float]
) -> dict[str, Any]:
    """The dictionary that ``diagnostics_`` holds.

    Parameters
    ----------
    rmse : {"megae", "mean", "propagation"} and, where it was trained, "graph_free"
    """
    notes = []
    if exam is None:
        notes.append("too few observed cells to set any aside: nothing is known about the error")
    if outcome.carried:
        notes.append(
            "the table is nearly empty, and the network is not known to be better than a share of what is propagated: "
            "that fills the holes instead"
        )
    best_simple = min(rmse["mean"], rmse["propagation"])
    if rmse["megae"] >= best_simple:
        name, simple = "feature propagation around the column means", "FeaturePropagationImputer(center=True)"
        if rmse["mean"] <= rmse["propagation"]:
            name, simple = "the column mean", "it"
        notes.append(
            f"the model does not help: held-out RMSE {rmse['megae']:.4g}, {name} has {best_simple:.4g}; consider "
            f"{simple}"
        )
    if rmse["megae"] >= rmse.get("graph_free", np.inf):
        notes.append(f"the graph does not help: held-out RMSE {rmse['megae']:.4g}, without it {rmse['graph_free']:.4g}")
    return {
        "rmse": rmse,
        "units": "each column's observed range" if unit == "range" else "each column's standard deviation",
        "n_held_out": 0 if exam is None else int(exam.cells().sum()),
        "steps": outcome.steps,
        "best_step": outcome.best_step,
        "stopped": outcome.stopped,
        "filled_by": "propagation" if outcome.carried else "network",
        "seconds": outcome.seconds,
        "history": outcome.history,
        "polynomials": quality,
        "warnings": notes,
    }

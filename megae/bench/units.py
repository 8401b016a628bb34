"""The units errors are counted in.

``ours``: each column's range over what training shows. ``paper``: the scale the paper's figures turn out to be in. It
uses hidden values, so the scorer alone converts into it, after the filling is done.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from torch_geometric.data import Data

from megae.bench.protocol import Answers

Scale = Callable[[Data], np.ndarray]
"""From a complete test graph to what its errors are divided by: (D,), (N, 1) or (1,)."""


def _range(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Range of each column, 1 where it does not vary, (D,)."""
    span = high.astype(np.float64) - low.astype(np.float64)
    return np.where(span > 0, span, 1.0)


def _columns_of_the_set(answers: Answers) -> Scale:
    ends = [(x.min(axis=0), x.max(axis=0)) for x in (g.x.numpy() for g in answers.whole)]
    lows, highs = zip(*ends, strict=True)
    span = _range(reduce(np.minimum, lows), reduce(np.maximum, highs))
    return lambda graph: span


def _columns_of_the_graph(answers: Answers) -> Scale:
    return lambda graph: _range(graph.x.numpy().min(axis=0), graph.x.numpy().max(axis=0))


def _row_maximum(answers: Answers) -> Scale:
    def largest(graph: Data) -> np.ndarray:
        found = np.abs(graph.x.numpy().astype(np.float64)).max(axis=1, keepdims=True)
        return np.where(found > 0, found, 1.0)

    return largest


def _raw(answers: Answers) -> Scale:
    return lambda graph: np.ones(1)


PAPER_UNITS: dict[str, tuple[str, Callable[[Answers], Scale]]] = {
    "ENZYMES": ("each column's range over the whole set", _columns_of_the_set),
    "QM9": ("each column's range over the whole set", _columns_of_the_set),
    "FRANKENSTEIN": ("each column's range over the whole set (a guess: the file was not at hand)", _columns_of_the_set),
    "PROTEINS_full": ("the largest absolute value of the node's own row", _row_maximum),
    "Synthie": ("each column's range within the graph", _columns_of_the_graph),
    "FIRSTMM_DB": ("as stored, -1 to 1", _raw),
    "Cora": ("as stored, 0 or 1", _raw),
    "Citeseer": ("as stored, 0 or 1", _raw),
    "Pubmed": ("as stored, TF-IDF", _raw),
    "AmaPhoto": ("as stored, 0 or 1", _raw),
}
"""Dataset -> what the paper divides by, in words and as a function that makes the scale of a task's answers.

The paper does not say; these are the scales at which its MEAN row comes out again (``python -m benchmarks.units``).
"""

_ONE_FACTOR = ("FIRSTMM_DB", "Cora", "Citeseer", "AmaPhoto")
"""One attribute whose range no split changes, or attributes that are all 0 or 1."""


def proportional(dataset: str) -> bool:
    """Whether errors in the two units differ by one factor throughout a dataset, so that both order them alike.

    A dataset the paper does not have is counted in our unit in both.
    """
    return dataset not in PAPER_UNITS or dataset in _ONE_FACTOR


def scale(unit: str, answers: Answers) -> Scale:
    """What to divide the errors on each test graph by; what all graphs share is computed here, once."""
    if unit == "paper" and answers.dataset in PAPER_UNITS:
        return PAPER_UNITS[answers.dataset][1](answers)
    return lambda graph: answers.span

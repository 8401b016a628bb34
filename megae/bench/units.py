"""The units errors are counted in.

``ours``: each column's range over what training shows. ``paper``: the scale the paper's figures turn out to be in. It
uses hidden values, so the scorer alone converts into it, after the filling is done.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch_geometric.data import Data

from megae.bench.protocol import Answers


def _range_of(x: np.ndarray) -> np.ndarray:
    """Range of each column, 1 where it does not vary, (D,)."""
    span = x.max(axis=0) - x.min(axis=0)
    return np.where(span > 0, span, 1.0)


def _columns_of_the_set(graph: Data, answers: Answers) -> np.ndarray:
    return _range_of(np.concatenate([g.x.numpy() for g in answers.whole]).astype(np.float64))


def _columns_of_the_graph(graph: Data, answers: Answers) -> np.ndarray:
    return _range_of(graph.x.numpy().astype(np.float64))


def _row_maximum(graph: Data, answers: Answers) -> np.ndarray:
    largest = np.abs(graph.x.numpy().astype(np.float64)).max(axis=1, keepdims=True)
    return np.where(largest > 0, largest, 1.0)


def _raw(graph: Data, answers: Answers) -> np.ndarray:
    return np.ones(1)


Scale = Callable[[Data, Answers], np.ndarray]

PAPER_UNITS: dict[str, tuple[str, Scale]] = {
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
"""Dataset -> what the paper divides by, in words and as a function giving (D,), (N, 1) or (1,).

The paper does not say; these are the scales at which its MEAN row comes out again (``python -m benchmarks.units``).
"""


def scale(unit: str, graph: Data, answers: Answers) -> np.ndarray:
    """What to divide the errors on a complete test graph by; broadcasts to (N, D).

    A dataset the paper does not have is counted in our unit in both.
    """
    if unit == "paper" and answers.dataset in PAPER_UNITS:
        return PAPER_UNITS[answers.dataset][1](graph, answers)
    return answers.span

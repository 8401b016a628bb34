"""What an imputer is shown, and what the scorer keeps to itself.

- Many graphs: 70-10-20 into training, validation and test. Training graphs are complete; validation and test graphs
  have holes. A new split and new holes for each seed.
- One graph: holes in the graph itself; the imputer learns from the observed cells of the same graph.

The imputer gets :class:`Task`: copies without labels, NaN in their holes. The truth stays in :class:`Answers`, and
whatever is done to the copies does not reach it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from megae.datasets import split_indices
from megae.graphs import adjacency
from megae.missingness import MECHANISMS

PROTOCOL = 1
"""Raised when splits, holes, units or scores come out differently; old records then no longer count.

Where a method alone changes, its records are taken away and made anew.
"""

SPLIT = (0.7, 0.1, 0.2)


@dataclass(frozen=True)
class Task:
    """What an imputer may see.

    Parameters
    ----------
    train : list of Data
        Complete graphs, or the one graph with NaN in its holes.
    validation : list of Data
        Graphs with NaN in their holes to select on; empty on one graph.
    test : list of Data
        Graphs to fill; on one graph, that of ``train``.
    """

    train: list[Data]
    validation: list[Data]
    test: list[Data]


@dataclass(frozen=True)
class Answers:
    """What the scorer alone knows.

    Parameters
    ----------
    dataset : str
    test, validation : lists of Data, complete
    holes, validation_holes : lists of bool ndarrays (N_i, D), True where ``Task`` holds NaN
    span, mean : ndarrays of shape (D,)
        Range and mean of each column over what training shows; errors are counted in these ranges.
    whole : list of Data
        The whole dataset, for the scales of the paper.
    parts : tuple of index arrays
        Which graphs of the dataset are training, validation and test; empty on one graph.
    """

    dataset: str
    test: list[Data]
    holes: list[np.ndarray]
    span: np.ndarray
    mean: np.ndarray
    whole: list[Data]
    validation: list[Data] = field(default_factory=list)
    validation_holes: list[np.ndarray] = field(default_factory=list)
    parts: tuple[np.ndarray, ...] = ()

    @property
    def single(self) -> bool:
        """Whether the dataset is one graph."""
        return len(self.whole) == 1


def pose(dataset: str, graphs: Sequence[Data], mechanism: str, rate: float, seed: int) -> tuple[Task, Answers]:
    """Split the graphs, punch holes, and part what is shown from what is hidden.

    Parameters
    ----------
    dataset : str
        Its name; decides units and enters the seed of the holes.
    graphs : complete graphs, as :func:`megae.datasets.load` gives them
    mechanism : a key of :data:`megae.missingness.MECHANISMS`
    rate : float in (0, 1)
    seed : int
        The trial; decides split and holes.

    Examples
    --------
    >>> from megae.datasets import load
    >>> task, answers = pose("digits", load("digits")[:20], "mcar", 0.1, seed=0)
    >>> len(task.train), len(task.validation), len(task.test)
    (14, 2, 4)
    >>> bool((task.test[0].x.isnan().numpy() == answers.holes[0]).all())
    True
    """
    if mechanism not in MECHANISMS:
        raise ValueError(f"there is no mechanism {mechanism!r}; choose one of {', '.join(MECHANISMS)}")
    graphs = list(graphs)
    if len(graphs) == 1:
        holes = punch(graphs, mechanism, rate, seed_of(dataset, seed, "test"))
        shown, again = (hidden_copy(graphs[0], holes[0]) for _ in range(2))
        span, mean = column_facts([shown])
        return Task([shown], [], [again]), Answers(dataset, graphs, holes, span, mean, graphs)
    parts = split_indices(len(graphs), SPLIT, seed_of(dataset, seed, "split"))
    train, validation, test = ([graphs[i] for i in part] for part in parts)
    if not train or not test:
        raise ValueError(f"{dataset} has {len(graphs)} graphs, too few to divide into training, validation and test")
    holes = punch(test, mechanism, rate, seed_of(dataset, seed, "test"))
    other = punch(validation, mechanism, rate, seed_of(dataset, seed, "validation")) if validation else []
    span, mean = column_facts(train)
    task = Task(
        [hidden_copy(g) for g in train],
        [hidden_copy(g, h) for g, h in zip(validation, other, strict=True)],
        [hidden_copy(g, h) for g, h in zip(test, holes, strict=True)],
    )
    return task, Answers(dataset, test, holes, span, mean, graphs, validation, other, parts)


def seed_of(dataset: str, seed: int, purpose: str) -> int:
    """A seed that no other dataset, trial or purpose shares."""
    digest = hashlib.sha256(f"{dataset}/{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def punch(graphs: Sequence[Data], mechanism: str, rate: float, random_state: int) -> list[np.ndarray]:
    """Holes of one mechanism over all nodes of the graphs together, so that its rate and scales are common to them.

    Returns
    -------
    list of bool ndarrays of shape (N_i, D)
    """
    x = np.concatenate([g.x.numpy() for g in graphs]).astype(np.float64)
    more = {}
    if mechanism == "mar" and x.shape[1] == 1:
        more["graph"] = sp.block_diag([adjacency(g, len(g.x)) for g in graphs], format="csr")
    holes = MECHANISMS[mechanism](x, rate, random_state, **more)
    return np.split(holes, np.cumsum([len(g.x) for g in graphs])[:-1])


def hidden_copy(graph: Data, holes: np.ndarray | None = None) -> Data:
    """A copy with NaN in its holes, if any, of attributes, edges and their weights alone: labels stay behind."""
    kept = {name: graph[name].clone() for name in ("x", "edge_index", "edge_weight") if graph.get(name) is not None}
    if holes is not None:
        kept["x"][torch.from_numpy(holes)] = torch.nan
    return Data(**kept)


def column_facts(graphs: Sequence[Data]) -> tuple[np.ndarray, np.ndarray]:
    """Range (1 where a column does not vary or shows nothing) and mean of each column of observed cells, (D,) each."""
    x = np.concatenate([g.x.numpy() for g in graphs]).astype(np.float64)
    seen = ~np.isnan(x)
    low = np.where(seen, x, np.inf).min(axis=0)
    high = np.where(seen, x, -np.inf).max(axis=0)
    mean = np.where(seen, x, 0.0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    with np.errstate(invalid="ignore"):
        span = high - low
    return np.where(np.isfinite(span) & (span > 0), span, 1.0), mean

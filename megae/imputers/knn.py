"""Means over the nearest rows, by the attributes both rows show."""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from sklearn.impute import KNNImputer as _NearestRows
from sklearn.utils import check_random_state
from torch_geometric.data import Data

from megae.imputers.base import GraphImputer
from megae.imputers.mean import column_means
from megae.training.progress import make_progress
from megae.training.schedule import Clock

CHUNK_MEGABYTES = 64
"""Distances held at once."""


class KNNImputer(GraphImputer):
    r"""Fill a hole with the mean over the nearest training rows that show that column.

    .. math::
        \hat x_{ij} = \frac{1}{k} \sum_{r \in N_j(i)} x_{rj}, \qquad
        d(i, r)^2 = \frac{D}{|O_i \cap O_r|} \sum_{l \in O_i \cap O_r} (x_{il} - x_{rl})^2

    where :math:`O_i` are the columns observed in row i and :math:`N_j(i)` the k training rows nearest to i
    that show column j (Troyanskaya et al., Bioinformatics 2001; :class:`sklearn.impute.KNNImputer` does the
    work). The graph is not used. Donors are the rows seen by ``fit`` alone; on one graph, the table's own
    rows.

    Deviations
    ----------
    - The plain mean by default; the paper weighs neighbours by similarity. ``weights="distance"`` weighs them by one
      over the distance.
    - Distances over the columns that both rows show, scaled up to all columns; a row that shares none with any donor
      gets the mean.
    - Above ``max_donors`` training rows, donors are a sample.

    Parameters
    ----------
    n_neighbors : int
        k.
    weights : "uniform" or "distance"
    standardize : bool
        Measure distances in units of each column's standard deviation in the training data. By default they
        are measured in the table's own units, as in scikit-learn, so columns of large numbers dominate.
    max_donors : int or None
        With more training rows than this, donors are a random sample of so many. Time grows with rows to fill
        times donors; memory does not, since the rows are filled in chunks.
    random_state : int, RandomState or None
        Draws that sample.
    verbose : int
        Above 0, ``transform`` shows how many of the rows with holes are filled, on a terminal.
    column_types, clip, fallback, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    donors_ : ndarray of shape (R, E)
    mean_, scale_ : ndarray of shape (E,)
        Column means of the training data, and what columns are divided by before distances are measured.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [0.1, 3.0], [9.0, 50.0], [0.2, np.nan]])
    >>> KNNImputer(n_neighbors=2).fit_transform(X)[3]
    array([0.2, 2. ])
    """

    _uses_graph = False

    donors_: np.ndarray
    mean_: np.ndarray
    scale_: np.ndarray

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        weights: str = "uniform",
        standardize: bool = False,
        max_donors: int | None = 20_000,
        random_state: Any = None,
        verbose: int = 0,
        column_types: Any = "auto",
        clip: bool = False,
        fallback: float = 0.0,
        unknown_nodes: str = "error",
    ) -> None:
        super().__init__(
            column_types=column_types,
            clip=clip,
            fallback=fallback,
            n_neighbors=n_neighbors,
            unknown_nodes=unknown_nodes,
        )
        self.weights = weights
        self.standardize = standardize
        self.max_donors = max_donors
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        if self.n_neighbors < 1:
            raise ValueError(f"n_neighbors must be at least 1, got {self.n_neighbors}")
        if self.weights not in ("uniform", "distance"):
            raise ValueError(f"weights must be 'uniform' or 'distance', got {self.weights!r}")
        if self.max_donors is not None and self.max_donors < 1:
            raise ValueError(f"max_donors must be at least 1, or None for all rows, got {self.max_donors}")
        rows = np.concatenate([g.x.numpy() for g in graphs])
        self.mean_ = column_means(graphs)
        self.scale_ = np.ones_like(self.mean_)
        if self.standardize:
            spread = np.nanstd(rows, axis=0)
            self.scale_ = np.where(spread > 0, spread, 1.0)
        rows = rows[~np.isnan(rows).all(axis=1)]
        if self.max_donors is not None and len(rows) > self.max_donors:
            chosen = check_random_state(self.random_state).choice(len(rows), self.max_donors, replace=False)
            rows = rows[np.sort(chosen)]
        self.donors_ = rows / self.scale_

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        shown = ~np.isnan(self.donors_).all(axis=0)
        search = _NearestRows(n_neighbors=self.n_neighbors, weights=self.weights).fit(self.donors_[:, shown])
        rows = np.concatenate([g.x.numpy() for g in graphs])
        filled = np.broadcast_to(self.mean_, rows.shape).copy()
        asked = np.flatnonzero(np.isnan(rows[:, shown]).any(axis=1))
        size = max(1, CHUNK_MEGABYTES * 2**20 // (8 * len(self.donors_)))
        clock = Clock(len(asked))
        with (
            sklearn.config_context(working_memory=CHUNK_MEGABYTES, transform_output="default"),
            make_progress(self.verbose, "knn", len(asked)) as progress,
        ):
            for start in range(0, len(asked), size):
                some = asked[start : start + size]
                found = search.transform(rows[np.ix_(some, shown)] / self.scale_[shown]) * self.scale_[shown]
                filled[np.ix_(some, shown)] = found
                done = start + len(some)
                progress.advance(done, clock.remaining(done))
        return np.split(filled, np.cumsum([len(g.x) for g in graphs])[:-1])

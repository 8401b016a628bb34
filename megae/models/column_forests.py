"""A forest for each column of a table, and how far two fills of it lie apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from megae.columns import Column
from megae.models.compact_forest import CompactForest

FORESTS = {
    "random": (RandomForestRegressor, RandomForestClassifier),
    "extra-trees": (ExtraTreesRegressor, ExtraTreesClassifier),
}


@dataclass(frozen=True)
class ColumnForests:
    """Predicts any column of a table from all the others.

    Parameters
    ----------
    columns : columns of the encoded table
    mean, scale : ndarray of shape (E,)
        Predictors are centred and scaled by these, since trees compare them in single precision.
    kind : "random" or "extra-trees"
    settings : arguments of scikit-learn's forests
    """

    columns: Sequence[Column]
    mean: np.ndarray
    scale: np.ndarray
    kind: str
    settings: Mapping[str, Any]

    def start(self, x: np.ndarray) -> np.ndarray:
        """Rows x (N, E) with every hole at the column mean, or at the most frequent category."""
        values = self.mean.copy()
        for c in self.columns:
            if c.kind == "categorical":
                values[c.start : c.stop] = np.arange(c.stop - c.start) == self.mean[c.start : c.stop].argmax()
        return np.where(np.isnan(x), values, x)

    def grow(self, filled: np.ndarray, shown: np.ndarray, j: int, seed: int) -> CompactForest | None:
        """The forest of column j, from the rows that show it; None where there is no other column.

        Parameters
        ----------
        filled : ndarray of shape (N, E)
        shown : bool ndarray of shape (N,)
        """
        c = self.columns[j]
        if filled.shape[1] == c.stop - c.start:
            return None
        X, y = self._others(filled[shown], c), filled[shown, c.start : c.stop]
        regressor, classifier = FORESTS[self.kind]
        if c.kind == "categorical":
            forest = classifier(**self.settings, random_state=seed).fit(X, y.argmax(axis=1))
        else:
            forest = regressor(**self.settings, random_state=seed).fit(X, y[:, 0])
        return CompactForest.of(forest)

    def predict(self, forest: CompactForest | None, filled: np.ndarray, which: np.ndarray, j: int) -> None:
        """Put what the forest says into column j of these rows (N,) of ``filled`` (N, E)."""
        if forest is None or not which.any():
            return
        c = self.columns[j]
        out = forest.predict(self._others(filled[which], c))
        if c.kind == "categorical":
            filled[which, c.start : c.stop] = out[:, None] == np.arange(c.stop - c.start)
        else:
            filled[which, c.start] = out

    def _others(self, rows: np.ndarray, c: Column) -> np.ndarray:
        return np.delete((rows - self.mean) / self.scale, np.s_[c.start : c.stop], axis=1)

    def differences(
        self, new: np.ndarray, old: np.ndarray, holes: np.ndarray, owner: np.ndarray, n_graphs: int
    ) -> np.ndarray:
        r"""How far two fills of each graph lie apart, by numbers and by categories.

        .. math::
            \Delta_N = \frac{\sum_{j \in N} \sum_i (x^{new}_{ij} - x^{old}_{ij})^2}
                            {\sum_{j \in N} \sum_i (x^{new}_{ij})^2}, \qquad
            \Delta_F = \frac{\sum_{j \in F} \sum_i \mathbb 1[x^{new}_{ij} \ne x^{old}_{ij}]}{\#\text{holes in } F}

        Parameters
        ----------
        new, old, holes : ndarray of shape (N, E)
        owner : int64 ndarray of shape (N,)
            Graph of each row.

        Returns
        -------
        ndarray of shape (G, 2), NaN where a graph has no hole of that kind
        """
        numbers = [c.start for c in self.columns if c.kind != "categorical"]
        categories = [c for c in self.columns if c.kind == "categorical"]

        def total(cells: np.ndarray) -> np.ndarray:
            return np.bincount(owner, cells.sum(axis=1), minlength=n_graphs)

        moved, size = total((new - old)[:, numbers] ** 2), total(new[:, numbers] ** 2)
        by_number = moved / np.where(size > 0, size, 1.0)
        by_number[total(holes[:, numbers]) == 0] = np.nan
        spans = [(new != old)[:, c.start : c.stop].any(axis=1, keepdims=True) for c in categories]
        count = total(holes[:, [c.start for c in categories]])
        changed = total(np.hstack(spans)) if spans else np.zeros(n_graphs)
        by_category = np.where(count > 0, changed / np.maximum(count, 1), np.nan)
        return np.stack([by_number, by_category], axis=1)


def grew(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Where neither difference became smaller, by graph; (G, 2) and (G, 2) -> (G,). NaN stands for no such hole."""
    return np.logical_not((now < before).any(axis=1))

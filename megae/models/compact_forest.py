"""A fitted forest of scikit-learn's, kept in a quarter of the memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

CELLS = 1 << 20
"""Rows times trees that go down at a time."""


@dataclass(frozen=True)
class CompactForest:
    """The trees of a forest side by side: what a prediction needs, and nothing else of them.

    scikit-learn keeps 72 bytes and the values of each node; here they are 14, and values of leaves alone. Predictions
    are the same to the bit: inputs are single precision there too, so a threshold may be rounded down to it.

    Parameters
    ----------
    roots : int64 ndarray of shape (T,)
        Node at which each tree starts.
    feature : int16 or int32 ndarray of shape (nodes,)
        What a node asks for; -1 for leaves.
    threshold : float32 ndarray of shape (nodes,)
    left, right : int32 ndarray of shape (nodes,)
        Where inputs up to the threshold go, and the others; ``left`` of a leaf is its place among the leaves.
    values : ndarray of shape (leaves, K)
        Mean, or share of each class.
    classes : ndarray of shape (K,), or None for numbers

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = np.arange(20.0).reshape(-1, 1)
    >>> forest = RandomForestRegressor(10, random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool((CompactForest.of(forest).predict(X) == forest.predict(X)).all())
    True
    """

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    values: np.ndarray
    classes: np.ndarray | None

    @classmethod
    def of(cls, forest: Any) -> CompactForest:
        """Out of a fitted forest of one output."""
        trees = [estimator.tree_ for estimator in forest.estimators_]
        counts = np.array([tree.node_count for tree in trees])
        roots = np.cumsum(counts) - counts
        leaf = np.concatenate([tree.children_left == -1 for tree in trees])
        left = np.concatenate([tree.children_left + root for tree, root in zip(trees, roots, strict=True)])
        right = np.concatenate([tree.children_right + root for tree, root in zip(trees, roots, strict=True)])
        left[leaf] = np.arange(leaf.sum())
        split = np.concatenate([tree.threshold for tree in trees])
        down = split.astype(np.float32)
        down = np.where(down > split, np.nextafter(down, np.float32(-np.inf)), down)
        narrow = np.int16 if forest.n_features_in_ <= np.iinfo(np.int16).max else np.int32
        feature = np.concatenate([tree.feature for tree in trees]).astype(narrow)
        feature[leaf] = -1
        values = np.concatenate([tree.value[tree.children_left == -1, 0] for tree in trees])
        return cls(
            roots.astype(np.int64),
            feature,
            down,
            left.astype(np.int32),
            right.astype(np.int32),
            values,
            getattr(forest, "classes_", None),
        )

    @property
    def nbytes(self) -> int:
        """Bytes that the trees take."""
        arrays = (self.roots, self.feature, self.threshold, self.left, self.right, self.values)
        return sum(array.nbytes for array in arrays)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Means, or the likeliest classes: (N, F) -> (N,)."""
        X = np.ascontiguousarray(X, dtype=np.float32)
        step = max(1, CELLS // self.roots.size)
        mean = np.concatenate([self._mean(X[i : i + step]) for i in range(0, max(len(X), 1), step)])
        return mean[:, 0] if self.classes is None else self.classes[mean.argmax(axis=1)]

    def _mean(self, X: np.ndarray) -> np.ndarray:
        """Mean of the trees' values, added one tree after the other: (n, F) -> (n, K)."""
        node = np.repeat(self.roots, len(X))  # (T * n,), tree by tree
        row = np.tile(np.arange(len(X)), self.roots.size)
        going = np.flatnonzero(self.feature[node] >= 0)
        while going.size:
            at = node[going]
            low = X[row[going], self.feature[at]] <= self.threshold[at]
            node[going] = at = np.where(low, self.left[at], self.right[at])
            going = going[self.feature[at] >= 0]
        found = self.values[self.left[node]].reshape(self.roots.size, len(X), self.values.shape[1])
        total = np.zeros(found.shape[1:])
        for values in found:  # numpy's own sum takes another order where there is one number per tree
            total += values
        return total / self.roots.size

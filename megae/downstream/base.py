"""What every classifier of nodes shares: reading a graph, the honesty rules, and accuracy."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from megae.downstream.early import Outcome
from megae.downstream.features import Preparation
from megae.downstream.reading import read_edges, read_features, read_labels, read_nodes
from megae.graphs import to_data


class NodeClassifier(BaseEstimator):
    """Base of all classifiers of nodes: one graph, a few labelled nodes, classes for all of them.

    A method is a subclass with two hooks. Both get a graph ``Data(x, edge_index, edge_weight)`` whose ``x`` (N, D) is
    prepared, in float32, and whose symmetric edges are without self-loops:

    - ``_fit(graph, labels, train, validation)`` learns, and sets ``outcome_``; ``labels`` (N,) counts through
      ``classes_`` and is -1 for every node in neither part, so no other label can be used;
    - ``_predict(graph)`` returns positions in ``classes_``, an int Tensor of shape (N,).

    A method that works on features with holes says ``takes_holes = True`` and finds NaN in ``x``; the others refuse
    such a graph.

    Parameters every subclass has: ``features``, how to prepare them, see
    :func:`megae.downstream.features.prepare_features`; the reference is the graph given to ``fit``.
    """

    takes_holes: ClassVar[bool] = False

    features: str

    classes_: np.ndarray
    preparation_: Preparation
    outcome_: Outcome

    def __init__(self, *, features: str = "centred") -> None:
        self.features = features

    def _fit(self, graph: Data, labels: Tensor, train: Tensor, validation: Tensor) -> None:
        raise TypeError(f"{type(self).__name__} does not say how it learns")

    def _predict(self, graph: Data) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how it predicts")

    def fit(self, graph: Data, train: Any, validation: Any) -> Self:
        """Learn from the labels of some nodes, choose on those of others, look at no label else.

        Parameters
        ----------
        graph : Data with ``x`` (N, D), ``edge_index`` (2, E) and integer ``y`` (N,)
        train, validation : int arrays of positions, or bool arrays of shape (N,)
            Disjoint. A node without label (negative ``y``) may be in neither.

        Returns
        -------
        self
        """
        x = read_features(graph, self.takes_holes, type(self).__name__)
        if graph.get("y") is None:
            raise ValueError("the graph has no y to learn from; put the class of each node there, -1 where unknown")
        y = read_labels(graph.y, len(x), "y")
        train, validation = read_nodes(train, y, "train"), read_nodes(validation, y, "validation")
        both = np.intersect1d(train, validation)
        if len(both):
            raise ValueError(f"node {both[0]} is in train and in validation; it can be in one of them")
        shown = np.concatenate([train, validation])
        self.classes_ = np.unique(y[shown])
        labels = np.full(len(y), -1, dtype=np.int64)
        labels[shown] = np.searchsorted(self.classes_, y[shown])
        self.preparation_ = Preparation.learn(x, self.features)
        parts = (torch.from_numpy(part) for part in (labels, train, validation))
        self._fit(self._prepared(graph, x), *parts)
        return self

    def predict(self, graph: Data) -> np.ndarray:
        """Class of every node of a graph, that of ``fit`` or another with the same columns; its ``y`` is not read.

        Returns
        -------
        ndarray of shape (N,), values among ``classes_``
        """
        check_is_fitted(self)
        x = read_features(graph, self.takes_holes, type(self).__name__)
        return self.classes_[self._predict(self._prepared(graph, x)).cpu().numpy()]

    def accuracy(self, graph: Data, nodes: Any) -> float:
        """Share of these nodes whose predicted class is their ``y``."""
        y = read_labels(graph.y, len(graph.x), "y")
        chosen = read_nodes(nodes, y, "nodes")
        return float(np.mean(self.predict(graph)[chosen] == y[chosen]))

    def _prepared(self, graph: Data, x: Tensor) -> Data:
        out = to_data(self.preparation_(x.detach().cpu().double().numpy()), read_edges(graph))
        out.x, out.edge_weight = out.x.float(), out.edge_weight.float()
        return out

"""The column mean within each graph."""

from __future__ import annotations

import numpy as np
from torch_geometric.data import Data

from megae.imputers.base import GraphImputer
from megae.imputers.mean import column_means


class GraphMeanImputer(GraphImputer):
    r"""Fill a hole with the mean of what its own graph shows of that column.

    .. math:: \hat x_{ij} = \frac{1}{|O_j \cap G|} \sum_{k \in O_j \cap G} x_{kj}

    for node i of graph G, where :math:`O_j` are the nodes whose attribute j is observed. A graph that shows
    nothing of a column gets the mean of the training data there. For a table it is the mean of that table's
    own column, whatever the table of ``fit`` held.

    Parameters
    ----------
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    mean_ : ndarray of shape (E,)
        Training means of the encoded columns that have an observed cell.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> nan = float("nan")
    >>> low, high = Data(x=torch.tensor([[1.0], [nan]])), Data(x=torch.tensor([[9.0], [nan]]))
    >>> [g.x.flatten().tolist() for g in GraphMeanImputer().fit_transform([low, high])]
    [[1.0, 1.0], [9.0, 9.0]]
    """

    _uses_graph = False

    mean_: np.ndarray

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        self.mean_ = column_means(graphs)

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        filled = []
        for g in graphs:
            shown = ~np.isnan(g.x.numpy()).all(axis=0)
            mean = np.where(shown, column_means([g]), self.mean_)
            filled.append(np.broadcast_to(mean, tuple(g.x.shape)))
        return filled

"""The column mean of the training data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch_geometric.data import Data

from megae.imputers.base import GraphImputer


def column_means(graphs: Sequence[Data]) -> np.ndarray:
    """Mean of the observed cells of each column over all graphs.

    Parameters
    ----------
    graphs : Data whose ``x`` is (N_i, E) with NaN in holes

    Returns
    -------
    ndarray of shape (E,)
        0 where a column has no observed cell.
    """
    x = np.concatenate([g.x.numpy() for g in graphs])
    observed = ~np.isnan(x)
    return np.where(observed, x, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)


class MeanImputer(GraphImputer):
    r"""Fill a hole with the mean of its column in the training data.

    .. math:: \hat x_{ij} = \frac{1}{|O_j|} \sum_{k \in O_j} x_{kj}

    where :math:`O_j` are the training nodes, of all training graphs together, whose attribute j is observed.
    A categorical column gets its most frequent category.

    Parameters
    ----------
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    mean_ : ndarray of shape (E,)
        Means of the encoded columns that have an observed cell.

    Examples
    --------
    >>> import numpy as np
    >>> MeanImputer().fit_transform(np.array([[1.0, np.nan], [3.0, 4.0], [np.nan, 8.0]]))
    array([[1., 6.],
           [3., 4.],
           [2., 8.]])
    """

    _uses_graph = False

    mean_: np.ndarray

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        self.mean_ = column_means(graphs)

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        return [np.broadcast_to(self.mean_, tuple(g.x.shape)) for g in graphs]

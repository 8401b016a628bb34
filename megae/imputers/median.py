"""The column median of the training data."""

from __future__ import annotations

import numpy as np
from torch_geometric.data import Data

from megae.imputers.base import GraphImputer
from megae.imputers.mean import column_means


class MedianImputer(GraphImputer):
    r"""Fill a hole with the median of its column in the training data, the constant of least absolute error.

    .. math:: \hat x_{ij} = \operatorname{median} \{x_{kj} : k \in O_j\}

    where :math:`O_j` are the training nodes, of all training graphs together, whose attribute j is observed.
    A categorical column gets its most frequent category.

    Parameters
    ----------
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    median_ : ndarray of shape (E,)
        Medians of the encoded columns that have an observed cell; in one-hot columns, shares.

    Examples
    --------
    >>> import numpy as np
    >>> MedianImputer().fit_transform(np.array([[1.0], [2.0], [90.0], [np.nan]]))
    array([[ 1.],
           [ 2.],
           [90.],
           [ 2.]])
    """

    _uses_graph = False

    median_: np.ndarray

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        one_hot = np.zeros(self.usable_.size, dtype=bool)
        for column in self.columns_:
            one_hot[column.start : column.stop] = column.kind == "categorical"
        x = np.concatenate([g.x.numpy() for g in graphs])
        self.median_ = np.where(one_hot[self.usable_], column_means(graphs), np.nanmedian(x, axis=0))

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        return [np.broadcast_to(self.median_, tuple(g.x.shape)) for g in graphs]

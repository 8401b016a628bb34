"""Zero for every hole: the floor any method has to beat."""

from __future__ import annotations

import numpy as np
from torch_geometric.data import Data

from megae.imputers.base import GraphImputer


class ZeroImputer(GraphImputer):
    r"""Fill every hole with zero, :math:`\hat x_{ij} = 0`; in a categorical column, with its first category.

    With ``clip=True`` zero is moved into each column's observed range.

    Parameters
    ----------
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Examples
    --------
    >>> import numpy as np
    >>> ZeroImputer().fit_transform(np.array([[1.0, np.nan], [3.0, 4.0]]))
    array([[1., 0.],
           [3., 4.]])
    """

    _uses_graph = False

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        pass

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        return [np.zeros(tuple(g.x.shape)) for g in graphs]

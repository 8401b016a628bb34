"""Observed attributes spread along edges until they settle."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from torch_geometric.data import Data

from megae.graphs import collate, to_adjacency
from megae.imputers.base import GraphImputer
from megae.imputers.mean import column_means


class FeaturePropagationImputer(GraphImputer):
    r"""Fill holes by feature propagation (Rossi et al., Learning on Graphs 2022, arXiv:2111.12128).

    .. math::
        x^{(0)} = x_{\text{observed}},\ 0 \text{ in holes}; \qquad
        x^{(t+1)}_{\text{hole}} = (D^{-1/2} A D^{-1/2} x^{(t)})_{\text{hole}}, \quad
        x^{(t+1)}_{\text{observed}} = x_{\text{observed}}

    The iteration descends to the fill of least Dirichlet energy. Nothing is learnt but the means of the training data.

    Deviations
    ----------
    - A hole that no observed value of its column reaches in ``num_iterations`` steps (a component, or an isolated node,
      that shows nothing of that column) gets the mean of the training data; the paper leaves it at zero.
    - Edge weights count; the paper's graphs have none.
    - ``center=True``, below, is ours; the default is the paper's.

    Parameters
    ----------
    num_iterations : int
    center : bool
        Propagate deviations from the training means, and add those back. Without it, what is propagated
        shrinks towards zero where degrees differ, which suits columns whose zero means "nothing".
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    mean_ : ndarray of shape (E,)
        Training means of the encoded columns that have an observed cell.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> X = np.array([[1.0], [np.nan], [3.0], [np.nan]])
    >>> FeaturePropagationImputer().fit_transform(X, graph=ring).ravel()
    array([1., 2., 3., 2.])
    """

    kind: ClassVar[str] = "graph"

    mean_: np.ndarray

    def __init__(
        self,
        *,
        num_iterations: int = 40,
        center: bool = False,
        column_types: Any = "auto",
        clip: bool = False,
        fallback: float = 0.0,
        n_neighbors: int = 10,
        unknown_nodes: str = "error",
    ) -> None:
        super().__init__(
            column_types=column_types,
            clip=clip,
            fallback=fallback,
            n_neighbors=n_neighbors,
            unknown_nodes=unknown_nodes,
        )
        self.num_iterations = num_iterations
        self.center = center

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        if self.num_iterations < 1:
            raise ValueError(f"num_iterations must be at least 1, got {self.num_iterations}")
        self.mean_ = column_means(graphs)

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        batch = collate(graphs)
        x = batch.x.numpy()
        A = to_adjacency(batch)
        offset = self.mean_ if self.center else np.zeros_like(self.mean_)
        spread = propagate(x - offset, A, self.num_iterations) + offset
        filled = np.where(reached(x, A, self.num_iterations), spread, self.mean_)
        return np.split(filled, batch.ptr.numpy()[1:-1])


def propagate(x: np.ndarray, A: sp.csr_array, num_iterations: int) -> np.ndarray:
    """Spread the observed cells of x over a graph, holes starting at zero.

    Parameters
    ----------
    x : ndarray of shape (N, E), NaN in holes
    A : csr_array of shape (N, N), symmetric weights
    num_iterations : int

    Returns
    -------
    ndarray of shape (N, E)
    """
    degree = np.asarray(A.sum(axis=1)).ravel()
    root = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    normalized = sp.csr_array(sp.diags_array(root) @ A @ sp.diags_array(root))
    holes = np.isnan(x)
    out = start = np.where(holes, 0.0, x)
    for _ in range(num_iterations):
        out = np.where(holes, normalized @ out, start)
    return out


def reached(x: np.ndarray, A: sp.csr_array, num_iterations: int) -> np.ndarray:
    """Which cells an observed cell of their column lies at most ``num_iterations`` edges away from.

    Parameters
    ----------
    x : ndarray of shape (N, E), NaN in holes
    A : csr_array of shape (N, N), symmetric weights
    num_iterations : int

    Returns
    -------
    boolean ndarray of shape (N, E)
    """
    links = sp.csr_array((np.ones(A.nnz, dtype=np.float32), A.indices, A.indptr), shape=A.shape)
    known = ~np.isnan(x)
    for _ in range(num_iterations):
        wider = known | (links @ known.astype(np.float32) > 0)
        if np.array_equal(wider, known):
            break
        known = wider
    return known

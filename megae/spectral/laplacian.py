"""From anything that holds edges to a clean undirected adjacency, and to its normalised Laplacian."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

_Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], int]


def symmetrized_adjacency(
    A: Any, *, num_nodes: int | None = None, edge_weight: ArrayLike | None = None
) -> sp.csr_array:
    """Undirected adjacency matrix of a graph.

    Parameters
    ----------
    A : scipy sparse matrix or array, dense array, networkx graph, or edge_index
        Square (N, N) weights; or a networkx graph (edge attribute ``weight``, 1 where absent, nodes in the
        graph's own order); or an integer array or tensor of shape (2, E) of node numbers. A (2, 2) array is
        read as an adjacency matrix unless `num_nodes` or `edge_weight` says that it is an edge_index.
    num_nodes : int, optional
        Number of nodes of an edge_index; the largest node number plus one where it is not given.
    edge_weight : array-like of shape (E,), optional
        Weights of an edge_index; ones where it is not given.

    Returns
    -------
    csr_array of shape (N, N), float64
        Symmetric, with sorted indices, no diagonal and no stored zero.

    Notes
    -----
    - An edge may be given in one direction or in both: either way it is one undirected edge.
    - All entries given for one pair of nodes, in either direction, count once, with the largest weight.
      So a line that stands twice in a file does not raise a weight (scipy would sum the two).
    - Self-loops and edges of weight 0 are dropped.
    - Negative, NaN, infinite and complex weights are refused with ValueError.

    Examples
    --------
    >>> import numpy as np
    >>> symmetrized_adjacency(np.array([[0, 1, 1, 2], [1, 0, 2, 2]])).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    if num_nodes is None and edge_weight is None and _is_clean(A):
        return sp.csr_array(A, copy=True)
    rows, cols, weights, n = _edges(A, num_nodes, edge_weight)
    _check_weights(rows, cols, weights)
    keep = (rows != cols) & (weights > 0)
    low, high = np.minimum(rows, cols)[keep], np.maximum(rows, cols)[keep]
    weights = weights[keep]
    order = np.argsort(low * n + high)
    low, high, weights = low[order], high[order], weights[order]
    if low.size:
        first = np.flatnonzero(np.r_[True, (np.diff(low) != 0) | (np.diff(high) != 0)])
        low, high, weights = low[first], high[first], np.maximum.reduceat(weights, first)
    both = (np.r_[weights, weights], (np.r_[low, high], np.r_[high, low]))
    adjacency = sp.csr_array(sp.coo_array(both, shape=(n, n)))
    adjacency.sort_indices()
    return adjacency


def normalized_laplacian(A: Any, *, num_nodes: int | None = None, edge_weight: ArrayLike | None = None) -> sp.csr_array:
    r"""Normalised Laplacian :math:`L = I - D^{-1/2} A D^{-1/2}`, with spectrum in [0, 2].

    Parameters
    ----------
    A, num_nodes, edge_weight
        A graph in any form that :func:`symmetrized_adjacency` reads, under its rules for directed edges,
        duplicates, self-loops and weights.

    Returns
    -------
    csr_array of shape (N, N), float64
        Exactly symmetric, with sorted indices and the whole diagonal stored (all ones). An isolated node has
        a zero row in the normalised adjacency, hence eigenvalue 1.

    Examples
    --------
    >>> import numpy as np
    >>> normalized_laplacian(np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]])).toarray()
    array([[ 1., -1.,  0.],
           [-1.,  1.,  0.],
           [ 0.,  0.,  1.]])
    """
    adjacency = symmetrized_adjacency(A, num_nodes=num_nodes, edge_weight=edge_weight)
    n = adjacency.shape[0]
    with np.errstate(over="ignore"):
        degree = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    if np.isinf(degree).any():
        node = int(np.flatnonzero(np.isinf(degree))[0])
        raise ValueError(
            f"edge weights of node {node} sum to more than float64 holds; divide all weights by one constant"
        )
    root = np.sqrt(degree)
    rows = np.repeat(np.arange(n), np.diff(adjacency.indptr))
    normalized = sp.csr_array(
        (adjacency.data / (root[rows] * root[adjacency.indices]), adjacency.indices, adjacency.indptr),
        shape=(n, n),
    )
    laplacian = sp.csr_array(sp.eye_array(n, format="csr") - normalized)
    laplacian.sort_indices()
    return laplacian


def _is_clean(A: Any) -> bool:
    """Whether A is just what :func:`symmetrized_adjacency` makes, so that a second reading need not sort again."""
    matrix: Any = A
    if not sp.issparse(A) or matrix.format != "csr" or matrix.dtype != np.float64:
        return False
    if matrix.shape[0] != matrix.shape[1]:
        return False
    if not matrix.has_canonical_format or not (np.isfinite(matrix.data) & (matrix.data > 0)).all():
        return False
    if matrix.diagonal().any():
        return False
    other = matrix.T.tocsr()
    return all(np.array_equal(getattr(matrix, part), getattr(other, part)) for part in ("indptr", "indices", "data"))


def _edges(A: Any, num_nodes: int | None, edge_weight: ArrayLike | None) -> _Edges:
    """Read any accepted graph as (rows, cols, weights, N), duplicates still in place."""
    if hasattr(A, "detach"):
        A = A.detach().cpu().numpy()
    if sp.issparse(A):
        _refuse_edge_options("a sparse matrix", num_nodes, edge_weight)
        matrix: Any = A
        n = _square(matrix.shape)
        coo = matrix.tocoo()
        return coo.row.astype(np.int64), coo.col.astype(np.int64), _real(coo.data), n
    if hasattr(A, "nodes") and hasattr(A, "edges") and hasattr(A, "is_directed"):
        _refuse_edge_options("a networkx graph", num_nodes, edge_weight)
        return _networkx_edges(A)
    array = np.asarray(A)
    is_edge_index = (
        array.ndim == 2
        and array.shape[0] == 2
        and (array.shape[1] != 2 or num_nodes is not None or edge_weight is not None)
    )
    if is_edge_index:
        return _edge_index_edges(array, num_nodes, edge_weight)
    _refuse_edge_options("a dense matrix", num_nodes, edge_weight)
    n = _square(array.shape)
    rows, cols = np.nonzero(array)
    return rows.astype(np.int64), cols.astype(np.int64), _real(array[rows, cols]), n


def _edge_index_edges(array: NDArray[Any], num_nodes: int | None, edge_weight: ArrayLike | None) -> _Edges:
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"an edge_index of shape {array.shape} must hold integer node numbers, got dtype {array.dtype}; "
            "cast it, or pass a square (N, N) adjacency matrix"
        )
    rows, cols = array.astype(np.int64)
    n = int(array.max()) + 1 if num_nodes is None and array.size else int(num_nodes or 0)
    if array.size and (array.min() < 0 or array.max() >= n):
        raise ValueError(
            f"edge_index names node {int(array.min() if array.min() < 0 else array.max())}, "
            f"but nodes are numbered 0 to {n - 1}; renumber the nodes or raise num_nodes"
        )
    weights = np.ones(rows.size) if edge_weight is None else _real(_as_numpy(edge_weight)).ravel()
    if weights.size != rows.size:
        raise ValueError(f"edge_weight holds {weights.size} weights for {rows.size} edges; give one for each edge")
    return rows, cols, weights, n


def _networkx_edges(graph: Any) -> _Edges:
    number = {node: i for i, node in enumerate(graph.nodes)}
    triples = [(number[u], number[v], data.get("weight", 1.0)) for u, v, data in graph.edges(data=True)]
    rows = np.array([t[0] for t in triples], dtype=np.int64)
    cols = np.array([t[1] for t in triples], dtype=np.int64)
    return rows, cols, _real(np.array([t[2] for t in triples])), len(number)


def _as_numpy(values: Any) -> NDArray[Any]:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _real(values: NDArray[Any]) -> NDArray[np.float64]:
    if np.iscomplexobj(values):
        raise ValueError("edge weights must be real numbers, got complex ones")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"edge weights must be numbers, got values of dtype {values.dtype}") from error


def _square(shape: tuple[int, ...]) -> int:
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(
            f"a graph must be a square (N, N) adjacency matrix or an integer edge_index of shape (2, E), "
            f"got shape {tuple(shape)}"
        )
    return int(shape[0])


def _refuse_edge_options(kind: str, num_nodes: int | None, edge_weight: ArrayLike | None) -> None:
    if num_nodes is not None or edge_weight is not None:
        raise ValueError(f"num_nodes and edge_weight belong to an edge_index of shape (2, E), but {kind} was given")


def _check_weights(rows: NDArray[np.int64], cols: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if bad.size:
        i = bad[0]
        raise ValueError(
            f"edge ({rows[i]}, {cols[i]}) has weight {weights[i]}; weights must be finite and at least 0 "
            f"({bad.size} such {'edge' if bad.size == 1 else 'edges'}): drop or repair them"
        )

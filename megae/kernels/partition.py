"""Which part of a graph each node belongs to, where one device cannot hold the whole."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from megae.kernels.operator import FilterOperator

METHODS = ("auto", "metis", "bfs")


def partition_nodes(operator: FilterOperator, parts: int, method: str = "auto", seed: int = 0) -> np.ndarray:
    """Cut a graph into balanced parts with few edges between them.

    Every edge between two parts costs a row in the halo of each, sent at each step of the filter. The result of
    the filter is the same for any assignment.

    Parameters
    ----------
    operator : FilterOperator of N nodes
    parts : int
        How many parts, at least 1.
    method : {"auto", "metis", "bfs"}
        ``metis`` minimises the cut and needs ``pymetis``; ``bfs`` cuts a breadth-first ordering (reverse
        Cuthill-McKee) into equal runs, whose sizes differ by at most one; ``auto`` takes metis where it is installed.
    seed : int
        Seed of metis; ``bfs`` draws nothing.

    Returns
    -------
    ndarray of shape (N,), int64
        The part of each node, in 0..parts - 1. No part is empty where N >= parts.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> path = sp.diags_array([-0.5, 1.0, -0.5], offsets=[-1, 0, 1], shape=(6, 6))
    >>> partition_nodes(FilterOperator.from_laplacian(path), 2, method="bfs")
    array([1, 1, 1, 0, 0, 0])
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if parts < 1:
        raise ValueError(f"parts must be at least 1, got {parts}")
    if method == "bfs":
        return _breadth_first(operator, parts)
    try:
        import pymetis
    except ImportError as error:
        if method == "auto":
            return _breadth_first(operator, parts)
        raise ImportError("method='metis' needs pymetis: pip install pymetis, or take method='bfs'") from error
    if min(parts, operator.n) < 2:
        return np.zeros(operator.n, np.int64)
    graph = _neighbours(operator)
    form = getattr(pymetis, "CSRAdjacency", None)
    csr = {"xadj": graph.indptr, "adjncy": graph.indices}
    given = csr if form is None else {"adjacency": form(graph.indptr, graph.indices)}
    _, owner = pymetis.part_graph(min(parts, operator.n), **given, options=pymetis.Options(seed=seed))
    return _none_empty(np.array(owner, dtype=np.int64), parts)


def cut_edges(operator: FilterOperator, owner: np.ndarray) -> int:
    """Number of edges whose two nodes lie in different parts; ``owner`` is (N,), the part of each node."""
    rows = np.repeat(owner, np.diff(operator.indptr.cpu().numpy()))
    return int((rows != owner[operator.indices.cpu().numpy()]).sum()) // 2


def _neighbours(operator: FilterOperator) -> sp.csr_array:
    """(N, N) pattern of the graph, without loops."""
    indptr, indices = operator.indptr.cpu().numpy(), operator.indices.cpu().numpy()
    rows = np.repeat(np.arange(operator.n, dtype=indices.dtype), np.diff(indptr))
    loops = rows == indices
    if loops.any():
        kept = np.bincount(rows[~loops], minlength=operator.n)
        indptr, indices = np.concatenate([[0], np.cumsum(kept)]).astype(indptr.dtype), indices[~loops]
    return sp.csr_array((np.ones(indices.size, np.int8), indices, indptr), shape=(operator.n, operator.n))


def _breadth_first(operator: FilterOperator, parts: int) -> np.ndarray:
    order = reverse_cuthill_mckee(sp.csr_matrix(_neighbours(operator)), symmetric_mode=True)
    owner = np.empty(operator.n, np.int64)
    owner[order] = np.arange(operator.n, dtype=np.int64) * parts // max(operator.n, 1)
    return owner


def _none_empty(owner: np.ndarray, parts: int) -> np.ndarray:
    """Give each empty part one node of the largest part, as far as the nodes go."""
    sizes = np.bincount(owner, minlength=parts)
    for part in np.flatnonzero(sizes == 0):
        largest = sizes.argmax()
        if sizes[largest] < 2:
            break
        owner[np.flatnonzero(owner == largest)[-1]] = part
        sizes[largest], sizes[part] = sizes[largest] - 1, 1
    return owner

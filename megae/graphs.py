"""Anything a user may hold as a graph -> PyG ``Data`` whose ``x`` holds NaN.

How edges are read, everywhere in this package: an edge given in either direction, or in both, is one
undirected edge; given several times, it counts once with its largest weight; self-loops are dropped; weights
must be finite and not negative, and an edge of weight zero is no edge.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.data.dataset import Dataset

from megae.columns import ENDPOINTS
from megae.spectral import normalized_laplacian, symmetrized_adjacency
from megae.tables import is_frame

_REPEATED = "the table's index has repeated labels, so edges cannot be matched with rows; make it unique"


def is_graph_collection(X: Any) -> TypeGuard[Sequence[Data]]:
    """Whether X is a PyG dataset or a non-empty list of PyG ``Data``."""
    if isinstance(X, Dataset):
        return True
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(g, Data) for g in X)


def adjacency(graph: Any, n: int, labels: Any = None, unknown_nodes: str = "error") -> sp.csr_array:
    """Read a graph over n nodes.

    Parameters
    ----------
    graph : scipy sparse or dense (n, n) matrix, networkx graph, integer ``edge_index`` of shape (2, E),
        pandas edge table, or PyG ``Data``; an integer (2, 2) array is an ``edge_index``. The endpoints of an edge
        table are its columns named source and target (or as in :data:`megae.columns.ENDPOINTS`, in any case), else
        the first two; its weights the column named weight, else, with a warning, the next column after the endpoints if
        it holds numbers
    n : int
    labels : index of the node table, or None
        Endpoints in an edge table and nodes of a networkx graph are matched with these where given, else with
        positions 0..n-1. A networkx graph none of whose nodes is a label, as text or as a number, is matched by
        positions; where there are no labels and no node is a position either, by the order of its nodes.
    unknown_nodes : "error" or "drop"
        What to do with edges whose endpoint is not a row of the table.

    Returns
    -------
    csr_array of shape (n, n), symmetric, without diagonal
    """
    if unknown_nodes not in ("error", "drop"):
        raise ValueError(f"unknown_nodes must be 'error' or 'drop', got {unknown_nodes!r}")
    if isinstance(graph, Data):
        return _from_edges(graph.edge_index, data_weights(graph), n, unknown_nodes)
    if sp.issparse(graph):
        return _square(graph, n)
    if is_frame(graph):
        return _from_frame(graph, n, labels, unknown_nodes)
    if hasattr(graph, "adjacency") and hasattr(graph, "nodes"):
        return _from_networkx(graph, n, labels, unknown_nodes)
    array = graph.detach().cpu().numpy() if isinstance(graph, torch.Tensor) else np.asarray(graph)
    if array.shape == (2, 0):
        return sp.csr_array((n, n))
    if array.ndim == 2 and array.shape[0] == 2 and np.issubdtype(array.dtype, np.integer):
        return _from_edges(array, None, n, unknown_nodes)
    if array.ndim == 2 and array.shape == (n, n):
        return symmetrized_adjacency(sp.coo_array(array.astype(np.float64)))
    raise ValueError(
        "graph must be a scipy sparse (n, n) matrix, a networkx graph, an integer edge_index of shape (2, "
        f"E), an edge table or None; got {type(graph).__name__} of shape {array.shape} for {n} rows"
    )


def _square(graph: Any, n: int) -> sp.csr_array:
    if graph.shape != (n, n):
        hint = (
            "; if scikit-learn's cross-validation cut its rows, pass an edge table matched by index labels "
            "and unknown_nodes='drop' instead"
            if graph.shape[0] != graph.shape[1]
            else ""
        )
        raise ValueError(f"graph has shape {graph.shape} but X has {n} rows{hint}")
    return symmetrized_adjacency(graph)


def _from_edges(edge_index: Any, weight: Any, n: int, unknown_nodes: str) -> sp.csr_array:
    edges = np.asarray(edge_index.cpu() if isinstance(edge_index, torch.Tensor) else edge_index)
    weights = np.ones(edges.shape[1]) if weight is None else np.asarray(weight, dtype=np.float64)
    known = ((edges >= 0) & (edges < n)).all(axis=0)
    if not known.all():
        if unknown_nodes == "error":
            k = int(np.argmin(known))
            raise ValueError(
                f"edge {k} joins nodes {edges[0, k]} and {edges[1, k]}, but X has rows 0..{n - 1}; remove "
                "the edge or pass unknown_nodes='drop'; where cross-validation took rows away, the others have new "
                "numbers: give an edge table, whose ends are matched by index labels, instead"
            )
        edges, weights = edges[:, known], weights[known]
    return symmetrized_adjacency(sp.coo_array((weights, (edges[0], edges[1])), shape=(n, n)))


def _from_frame(frame: Any, n: int, labels: Any, unknown_nodes: str) -> sp.csr_array:
    import pandas as pd

    if frame.shape[1] < 2:
        raise ValueError("an edge table needs two columns, one per endpoint, and may have a column named 'weight'")
    ends, weight_column = _edge_columns(frame)
    index = pd.RangeIndex(n) if labels is None else pd.Index(labels)
    if not index.is_unique:
        raise ValueError(_REPEATED)
    edges = np.stack([index.get_indexer(pd.Index(frame[c])) for c in ends])
    lost = (edges < 0).any(axis=0)
    if lost.any() and unknown_nodes == "error":
        k = int(np.argmax(lost))
        end = ends[0] if edges[0, k] < 0 else ends[1]
        node = _plain(frame[end].iloc[k])
        raise ValueError(
            f"edge table row {k}: node {node!r} is not a row of X{_other_type(node, index)}; add it there or pass "
            "unknown_nodes='drop'"
        )
    weights = None if weight_column is None else frame[weight_column].to_numpy(dtype=np.float64, na_value=np.nan)
    return _from_edges(edges[:, ~lost], None if weights is None else weights[~lost], n, unknown_nodes)


def _edge_columns(frame: Any) -> tuple[list[Any], Any]:
    """The columns of an edge table that hold its endpoints, and the one that holds its weights or None."""
    import pandas as pd

    names = list(frame.columns)
    by_name = {str(name).strip().lower(): name for name in reversed(names)}
    named = next(([by_name[a], by_name[b]] for a, b in ENDPOINTS if a in by_name and b in by_name), None)
    weight = by_name.get("weight")
    ends = named or [c for c in names if c != weight][:2]
    after = names[max(map(names.index, ends)) + 1 :]
    if weight is None and after and pd.api.types.is_numeric_dtype(frame[after[0]].dtype):
        weight = after[0]
        warnings.warn(
            f"edges join columns {ends[0]!r} and {ends[1]!r}, and column {weight!r} is read as their weight (larger is "
            "closer); name it 'weight' if it is, leave it out if not",
            stacklevel=2,
        )
    return ends, weight


def _from_networkx(graph: Any, n: int, labels: Any, unknown_nodes: str) -> sp.csr_array:
    nodes = list(graph.nodes)
    position = {node: i for i, node in enumerate(range(n) if labels is None else labels)}
    if len(position) < n:
        raise ValueError(_REPEATED)
    if labels is not None and not any(node in position for node in nodes):
        alike = next((node for node in nodes if _other_type(node, position)), None)
        if alike is not None:
            raise ValueError(f"node {alike!r} is not a row of X{_other_type(alike, position)}")
        position = {i: i for i in range(n)}
    unknown = [node for node in nodes if node not in position]
    if labels is None and len(unknown) == len(nodes) == n:
        position, unknown = {node: i for i, node in enumerate(nodes)}, []
    if unknown and (unknown_nodes == "error" or len(unknown) == len(nodes)):
        hint = _other_type(unknown[0], position if labels is None else labels)
        raise ValueError(
            f"the networkx graph has {len(nodes)} nodes, X has {n} rows, and node {unknown[0]!r} is not a "
            f"row of X{hint}; name the nodes as the rows are named, remove the others or pass unknown_nodes='drop'"
        )
    weighted = graph.edges(data="weight", default=1.0)
    kept = [(position[u], position[v], w) for u, v, w in weighted if u in position and v in position]
    edges = np.array([(i, j) for i, j, _ in kept], dtype=np.int64).reshape(-1, 2).T
    return _from_edges(edges, [w for _, _, w in kept], n, unknown_nodes)


def _plain(node: Any) -> Any:
    return node.item() if isinstance(node, np.generic) else node


def _other_type(node: Any, labels: Any) -> str:
    """What to say where a node is not among the labels, but would be as text or as a number."""
    node = _plain(node)
    try:
        twin: Any = int(node) if isinstance(node, str) else str(node)
    except ValueError:
        return ""
    if twin not in labels:
        return ""
    return (
        f", whose index holds {twin!r}: {type(twin).__name__} where the edges have {type(node).__name__}; give both "
        "the same type"
    )


def knn_adjacency(cells: np.ndarray, k: int = 10) -> sp.csr_array:
    """A graph over the rows of a table: each row and its k nearest, by observed cells.

    Columns are standardised on their observed cells and holes count as the column's mean, so a distance never
    uses what is hidden. With a single row, or no column that varies, the graph has no edges.

    Parameters
    ----------
    cells : ndarray of shape (N, D), NaN in holes

    Returns
    -------
    csr_array of shape (N, N)
    """
    from sklearn.neighbors import kneighbors_graph

    n = cells.shape[0]
    observed = ~np.isnan(cells)
    count = np.maximum(observed.sum(axis=0), 1)
    mean = np.where(observed, cells, 0.0).sum(axis=0) / count
    centred = np.where(observed, cells - mean, 0.0)
    spread = np.sqrt((centred**2).sum(axis=0) / count)
    varies = spread > 1e-12
    if n < 2 or not varies.any():
        return sp.csr_array((n, n))
    k = min(k, n - 1)
    return symmetrized_adjacency(kneighbors_graph(centred[:, varies] / spread[varies], k, mode="connectivity"))


def data_weights(data: Data) -> np.ndarray | None:
    """Edge weights of a PyG graph: ``edge_weight``, or ``edge_attr`` where it holds one number per edge."""
    weight = data.get("edge_weight")
    if weight is None:
        attr = data.get("edge_attr")
        if attr is not None and attr.dim() <= 2 and attr.numel() == attr.shape[0]:
            weight = attr
    return None if weight is None else weight.detach().cpu().numpy().astype(np.float64).reshape(-1)


def to_data(cells: np.ndarray, A: sp.csr_array) -> Data:
    """(N, E) numbers with NaN and a symmetric adjacency -> float64 ``Data(x, edge_index, edge_weight)``."""
    coo = A.tocoo()
    return Data(
        x=torch.from_numpy(np.ascontiguousarray(cells, dtype=np.float64)),
        edge_index=torch.from_numpy(np.stack(coo.coords).astype(np.int64)),
        edge_weight=torch.from_numpy(coo.data.astype(np.float64)),
    )


def to_adjacency(data: Data) -> sp.csr_array:
    """The (N, N) matrix of a ``Data`` made by :func:`to_data`, or, block diagonal, of a ``Batch`` of them."""
    row, col = data.edge_index.numpy()
    n = data.x.shape[0]
    return sp.csr_array((data.edge_weight.numpy(), (row, col)), shape=(n, n))


def laplacian(data: Data) -> sp.csr_array:
    """Normalised Laplacian of a ``Data`` or ``Batch`` made by :func:`to_data`."""
    return sp.csr_array(normalized_laplacian(to_adjacency(data)))


def collate(graphs: Sequence[Data]) -> Batch:
    """One disconnected graph out of many."""
    return Batch.from_data_list(list(graphs))

"""From the graphs a user holds to what a classifier computes with."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from megae.graphs import adjacency


def read_features(graph: Data, takes_holes: bool, reader: str, where: str = "the graph") -> Tensor:
    """The features of a graph, checked.

    Parameters
    ----------
    graph : Data with ``x`` (N, D)
    takes_holes : whether NaN may be in it
    reader, where : who reads what, for the error

    Returns
    -------
    Tensor of shape (N, D)
    """
    x = graph.get("x") if isinstance(graph, Data) else None
    if not isinstance(x, Tensor) or x.dim() != 2 or 0 in x.shape:
        raise ValueError(f"{where} must be a PyG Data whose x holds the features of its nodes, shape (nodes, columns)")
    holes = int(torch.isnan(x).sum())
    if holes and not takes_holes:
        raise ValueError(
            f"{where} misses {holes:,} of its {x.numel():,} features (NaN), and {reader} needs all of them; fill them "
            "first, with megae.imputers.get_imputer('feature-propagation').fit_transform(graph), say"
        )
    if torch.isinf(x).any():
        raise ValueError(f"{where} has infinite features; replace them by numbers")
    return x


def read_edges(graph: Data) -> sp.csr_array:
    """The symmetric adjacency (N, N) of a graph, read as everywhere in this package (:mod:`megae.graphs`)."""
    n = graph.x.shape[0]
    return adjacency(graph, n) if graph.get("edge_index") is not None else sp.csr_array((n, n))


def normalised_adjacency(A: sp.csr_array) -> sp.csr_array:
    r"""The GCN's operator, by PyG's ``gcn_norm``: float32 (N, N), symmetric.

    .. math:: \hat A = (D + I)^{-1/2} (A + I) (D + I)^{-1/2}
    """
    coo = A.tocoo()
    edges = torch.from_numpy(np.stack(coo.coords).astype(np.int64))
    edge_index, weight = gcn_norm(edges, torch.from_numpy(coo.data.astype(np.float32)), A.shape[0])
    return sp.csr_array((weight.numpy(), tuple(edge_index.numpy())), shape=A.shape)


def sparse_tensor(A: sp.csr_array) -> Tensor:
    """A square scipy matrix as a torch CSR tensor, the layout PyG's convolutions multiply fastest with."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        start, column, weight = (torch.from_numpy(part) for part in (A.indptr, A.indices, A.data))
        return torch.sparse_csr_tensor(start, column, weight, A.shape)


def read_nodes(nodes: Any, labels: np.ndarray, name: str) -> np.ndarray:
    """Positions of labelled nodes, from positions or a boolean mask.

    Parameters
    ----------
    nodes : int array of shape (K,), or bool array of shape (N,)
    labels : int ndarray of shape (N,)
    name : str
        What to call them in an error.

    Returns
    -------
    int64 ndarray of shape (K,)
    """
    n = len(labels)
    found = np.asarray(nodes.cpu().numpy() if isinstance(nodes, Tensor) else nodes)
    if found.dtype == bool and found.shape == (n,):
        found = np.flatnonzero(found)
    if found.ndim != 1 or not (np.issubdtype(found.dtype, np.integer) and found.size):
        raise ValueError(
            f"{name} must name at least one node, by positions or by a mask over all {n} nodes; got {found.dtype} of "
            f"shape {found.shape}"
        )
    if found.min() < 0 or found.max() >= n:
        raise ValueError(f"{name} names nodes {found.min()} to {found.max()}, but the graph has nodes 0 to {n - 1}")
    if len(np.unique(found)) < len(found):
        raise ValueError(f"{name} names a node twice; name each once")
    unlabelled = found[labels[found] < 0]
    if len(unlabelled):
        raise ValueError(
            f"{name} names node {unlabelled[0]}, which has no label (its y is negative); leave such nodes out, as "
            "node_split does"
        )
    return found.astype(np.int64)


def read_labels(y: Any, n: int, where: str) -> np.ndarray:
    """Integer classes, one for each of n; negative where there is none."""
    labels = np.asarray(y.cpu().numpy() if isinstance(y, Tensor) else y)
    if labels.shape != (n,) or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"{where} must be {n} integer classes, one for each; got {labels.dtype} of {labels.shape}")
    return labels

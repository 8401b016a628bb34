"""Made graphs with classes that can be learnt."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data


def planted(n: int = 120, classes: int = 3, columns: int = 6, seed: int = 0, noise: float = 1.0) -> Data:
    """A planted partition: edges mostly within a class, features around the class's own centre, far from zero."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    chance = np.where(y[:, None] == y, 0.15, 0.01)
    upper = np.triu(rng.random((n, n)) < chance, 1)
    centre = rng.normal(size=(classes, columns))
    x = 5.0 + centre[y] + noise * rng.normal(size=(n, columns))
    edges = np.stack(np.nonzero(upper | upper.T))
    return Data(
        x=torch.from_numpy(x.astype(np.float32)),
        edge_index=torch.from_numpy(edges.astype(np.int64)),
        y=torch.from_numpy(y.astype(np.int64)),
    )


def parts(graph: Data, train: int = 24, validation: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test nodes, in the order of the nodes."""
    order = np.flatnonzero(graph.y.numpy() >= 0)
    return order[:train], order[train : train + validation], order[train + validation :]


def small_graphs(count: int = 60, seed: int = 0) -> list[Data]:
    """Rings of 3 to 8 nodes; the class is whether the first of two columns is high on average."""
    rng = np.random.default_rng(seed)
    graphs = []
    for k in range(count):
        n, label = int(rng.integers(3, 9)), k % 2
        x = rng.normal(size=(n, 2)) * [1.0, 300.0] + [2.0 * label, 1000.0]
        ring = np.stack([np.arange(n), (np.arange(n) + 1) % n])
        graphs.append(
            Data(
                x=torch.from_numpy(x.astype(np.float32)),
                edge_index=torch.from_numpy(ring),
                y=torch.tensor([label]),
            )
        )
    return graphs


def dense_operator(graph: Data) -> np.ndarray:
    """(D + I)^-1/2 (A + I) (D + I)^-1/2, dense, from the edges read as undirected and unweighted."""
    n = len(graph.x)
    A = np.zeros((n, n))
    A[tuple(graph.edge_index.numpy())] = 1.0
    A = np.maximum(A, A.T)
    np.fill_diagonal(A, 1.0)
    scale = A.sum(axis=1) ** -0.5
    return scale[:, None] * A * scale

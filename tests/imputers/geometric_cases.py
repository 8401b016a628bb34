"""A smooth signal over a random geometric graph, some of whose nodes miss every attribute."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def geometric(
    n: int = 200, d: int = 4, rate: float = 0.2, seed: int = 0
) -> tuple[np.ndarray, sp.csr_array, np.ndarray]:
    """Attributes (n, d), graph (n, n) that joins points closer than a radius, and the nodes (n,) without attributes."""
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    far = np.linalg.norm(points[:, None] - points[None], axis=2)
    A = sp.csr_array(((far < 0.13) & (far > 0)).astype(float))
    X = np.stack([np.cos(3 * points[:, 0] + j) + np.sin(2 * points[:, 1] + 2 * j) for j in range(d)], axis=1)
    return X, A, rng.random(n) < rate


def error_against_mean(filled: np.ndarray, X: np.ndarray, nodes: np.ndarray) -> float:
    """RMSE on the nodes without attributes, as a share of what the means of the other nodes' columns leave."""
    error = np.sqrt(np.mean((filled - X)[nodes] ** 2))
    return float(error / np.sqrt(np.mean((X[~nodes].mean(axis=0) - X)[nodes] ** 2)))

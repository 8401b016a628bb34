"""The filter by eigendecomposition: slow, and obviously right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def exact_filter(L: Any, Z: np.ndarray, kernels: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """U g_m(Lambda) U^T Z_m for every band m.

    Parameters
    ----------
    L : symmetric matrix of shape (N, N)
    Z : ndarray of shape (N, M, h) or (N, 1, h)
    kernels : callable
        Maps eigenvalues (N,) to responses (M, N).

    Returns
    -------
    ndarray of shape (N, M, h)
    """
    dense = np.asarray(L.toarray() if hasattr(L, "toarray") else L)
    eigenvalues, U = np.linalg.eigh(dense)
    response = np.asarray(kernels(eigenvalues))
    spectrum = np.einsum("ni,nmh->imh", U, np.broadcast_to(Z, (Z.shape[0], response.shape[0], Z.shape[2])))
    return np.einsum("ni,imh->nmh", U, response.T[:, :, None] * spectrum)


def chebyshev_response(C: np.ndarray, eigenvalues: np.ndarray) -> np.ndarray:
    """p_m(l) = sum_k C[m, k] T_k(l - 1): (M, K + 1), (n,) -> (M, n)."""
    return np.polynomial.chebyshev.chebval(np.asarray(eigenvalues) - 1.0, np.asarray(C).T)

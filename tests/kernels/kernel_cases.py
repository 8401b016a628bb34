"""Graphs, coefficients and the slow twin, for the tests of the filter."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from megae.kernels import chebyshev_response, exact_filter
from megae.spectral import normalized_laplacian


def random_laplacian(n: int, seed: int = 0, isolated: int = 0, p: float = 0.3) -> sp.csr_array:
    """Normalised Laplacian of a weighted random graph whose last ``isolated`` nodes have no edge."""
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) * (rng.random((n, n)) < p), 1)
    if isolated:
        A[:, n - isolated :] = 0.0
        A[n - isolated :] = 0.0
    return sp.csr_array(normalized_laplacian(sp.csr_array(A + A.T)))


LAPLACIANS = {
    "random": random_laplacian(23),
    "isolated": random_laplacian(17, seed=1, isolated=4),
    "no edges": sp.csr_array(sp.eye_array(6, format="csr")),
    "one node": sp.csr_array(sp.eye_array(1, format="csr")),
    "many graphs": sp.csr_array(
        sp.block_diag(
            [random_laplacian(n, seed=n, p=0.6) for n in (1, 9, 2, 14, 3, 5, 8, 13, 4, 1, 6, 7, 2, 9, 3, 8, 5, 4)]
        )
    ),
    "two nodes": sp.csr_array([[1.0, -1.0], [-1.0, 1.0]]),
}


def coefficients(M: int, K: int, seed: int = 0) -> np.ndarray:
    """(M, K + 1), none of them zero."""
    return np.random.default_rng(seed).standard_normal((M, K + 1))


def signal(n: int, bands: int, h: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng([seed, 9]).standard_normal((n, bands, h))).to(dtype)


def twin(L: sp.csr_array, Z: torch.Tensor, C: np.ndarray) -> np.ndarray:
    """The filter by eigendecomposition, float64: (N, M, h) or (N, 1, h) -> (N, M, h)."""
    return exact_filter(L, Z.double().numpy(), lambda eigenvalues: chebyshev_response(C, eigenvalues))


def distance(a: torch.Tensor, b: np.ndarray) -> float:
    """Largest difference in units of the largest entry of b."""
    assert tuple(a.shape) == b.shape
    return float(np.abs(a.detach().double().numpy() - b).max() / max(np.abs(b).max(), 1e-300))

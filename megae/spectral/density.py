"""Chebyshev moments of signals, and the cumulative spectral density of a graph, without eigendecomposition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class SpectralCDF:
    r"""Cumulative density of eigenvalues on [0, 2], held as damped Chebyshev moments.

    Parameters
    ----------
    moments : ndarray of shape (order + 1,)
        :math:`\mu_k \approx \frac 1N \operatorname{tr} T_k(L - I)`, times the Jackson factors.

    Examples
    --------
    >>> import numpy as np
    >>> from megae.spectral import normalized_laplacian, spectral_cdf
    >>> cdf = spectral_cdf(normalized_laplacian(np.ones((8, 8))), random_state=0)
    >>> cdf([0.0, 0.6, 2.0]).round(1)
    array([0. , 0.1, 1. ])
    """

    moments: NDArray[np.float64]

    def __call__(self, eigenvalues: ArrayLike) -> NDArray[np.float64]:
        r"""Share of eigenvalues at or below each point, shape (n,).

        With :math:`\lambda = 1 + \cos\theta`, the density's series integrates term by term to

        .. math:: F(\lambda) = \frac 1\pi \Big[(\pi - \theta)\mu_0
                  - 2 \sum_{k \ge 1} \mu_k \sin(k\theta)/k\Big]
        """
        l = np.atleast_1d(np.asarray(eigenvalues, dtype=np.float64))
        theta = np.arccos(np.clip(l - 1.0, -1.0, 1.0))
        k = np.arange(1, self.moments.size)
        waves = np.sin(np.multiply.outer(theta, k)) @ (self.moments[1:] / k)
        return np.clip(((np.pi - theta) * self.moments[0] - 2.0 * waves) / np.pi, 0.0, 1.0)


def spectral_cdf(
    L: Any,
    n_probes: int = 32,
    order: int = 128,
    random_state: int | np.random.Generator | None = 0,
) -> SpectralCDF:
    r"""Estimate the cumulative spectral density by the kernel polynomial method.

    Chebyshev moments :math:`\frac 1N \operatorname{tr} T_k(L - I)` are estimated with random sign vectors
    (Hutchinson), two moments for each product with L, and damped by Jackson's kernel (Weisse et al. 2006),
    under which the density stays non-negative and the estimate monotone. Its resolution is about
    :math:`\pi / \text{order}`; the random error of a moment is about :math:`1 / \sqrt{N P}` with P probes.
    A graph with no more nodes than `n_probes` gets its exact moments.

    Parameters
    ----------
    L : scipy sparse of shape (N, N)
        Normalised Laplacian.
    n_probes : int, default 32
        Number of random vectors.
    order : int, default 128
        Highest moment; about order / 2 products with L are taken.
    random_state : int, Generator or None, default 0
        Seed of the random vectors.

    Returns
    -------
    SpectralCDF
        Callable on eigenvalues in [0, 2].
    """
    if L.shape[0] != L.shape[1] or L.shape[0] == 0:
        raise ValueError(f"L must be a square Laplacian of at least one node, got shape {L.shape}")
    if n_probes < 1 or order < 1:
        raise ValueError(f"n_probes and order must be at least 1, got n_probes={n_probes}, order={order}")
    n = L.shape[0]
    if n <= n_probes:
        probes = np.eye(n)
    else:
        probes = np.random.default_rng(random_state).choice([-1.0, 1.0], size=(n, n_probes))
    moments = _moments(sp.csr_array(L), probes, order)
    return SpectralCDF(moments * _jackson(order))


def chebyshev_moments(L: Any, X: NDArray[np.float64], order: int) -> NDArray[np.float64]:
    r"""Moments :math:`\mu_{kd} = x_d^T\, T_k(L - I)\, x_d` of every column, two for each product with L.

    Through :math:`T_{2k} = 2 T_k^2 - 1` and :math:`T_{2k+1} = 2 T_k T_{k+1} - T_1`, moments up to order 2K take
    K products, and no more memory than three arrays like X.

    Parameters
    ----------
    L : scipy sparse of shape (N, N)
        Normalised Laplacian.
    X : ndarray of shape (N, D)
    order : int
        At least 0.

    Returns
    -------
    ndarray of shape (order + 1, D)
    """
    S = sp.csr_array(L - sp.eye_array(L.shape[0], format="csr"))
    S.eliminate_zeros()
    double = 2.0 * S
    start = X[:, 0] if X.shape[1] == 1 else X  # scipy multiplies a vector faster than a matrix of one column
    moments = np.empty((order + 3, X.shape[1]))
    previous, current = start, S @ start
    moments[0], moments[1] = _dot(start, start), _dot(start, current)
    for k in range(1, order // 2 + 1):
        moments[2 * k] = 2.0 * _dot(current, current) - moments[0]
        if 2 * k < order:
            following = double @ current
            following -= previous
            previous, current = current, following
            moments[2 * k + 1] = 2.0 * _dot(previous, current) - moments[1]
    return moments[: order + 1]


def _dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> Any:
    """Inner product of each column; einsum's sum depends on no number of threads."""
    return np.einsum("n...,n...->...", a, b)


def _moments(L: Any, probes: NDArray[np.float64], order: int) -> NDArray[np.float64]:
    """Moments 0..order of all columns together, over that of order 0."""
    moments = chebyshev_moments(L, probes, order).sum(axis=1)
    return moments / moments[0]


def _jackson(order: int) -> NDArray[np.float64]:
    """Jackson damping factors g_0 = 1, ..., g_order."""
    p = order + 2
    k = np.arange(order + 1)
    a = np.pi / p
    return ((p - k) * np.cos(a * k) + np.sin(a * k) / np.tan(a)) / p

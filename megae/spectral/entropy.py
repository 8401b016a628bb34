"""Graph spectral entropy, exactly by eigendecomposition, and wavelet entropy without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from megae.spectral.base import Frame
from megae.spectral.chebyshev import chebyshev_coefficients
from megae.spectral.density import chebyshev_moments
from megae.spectral.laplacian import normalized_laplacian

EIGENVALUE_TOL = 1e-8
_CHUNK_NUMBERS = 1 << 24


def spectral_entropy(x: ArrayLike, A: Any, *, tol: float = EIGENVALUE_TOL) -> float | NDArray[np.float64]:
    r"""Graph spectral entropy of signals (Definition 1 of MEGAE), by eigendecomposition.

    .. math:: \xi_s(x, L) = -\sum_i p_i \log p_i, \qquad p_i = \hat x_i^2 / \sum_j \hat x_j^2, \quad
              \hat x = U^T x

    in natural logarithms. Where an eigenvalue is repeated, its eigenvectors are not unique and the formula
    would depend on the basis the solver happens to return. So i runs over distinct eigenvalues, and p_i is
    the energy of the whole eigenspace. Time O(N^3) and memory O(N^2): for graphs up to some thousand nodes.

    Parameters
    ----------
    x : array-like of shape (N,) or (N, D)
        One signal, or one per column; finite.
    A : graph
        As :func:`~megae.spectral.normalized_laplacian` reads it.
    tol : float, default 1e-8
        Neighbouring eigenvalues at most this far apart count as one.

    Returns
    -------
    float or ndarray of shape (D,)
        Between 0 and the logarithm of the number of distinct eigenvalues; 0.0 for a signal of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([[0, 1], [1, 0]])
    >>> round(spectral_entropy([1.0, 0.0], path), 4)
    0.6931
    """
    L = normalized_laplacian(A)
    columns, is_vector = _columns(x, L.shape[0])
    eigenvalues, U = np.linalg.eigh(L.toarray()) if L.shape[0] else (np.empty(0), np.empty((0, 0)))
    return _result(entropy_of_energies(eigenspace_energies(columns, eigenvalues, U, tol)), is_vector)


def eigenspace_energies(
    X: NDArray[np.float64], eigenvalues: NDArray[np.float64], U: NDArray[np.float64], tol: float = EIGENVALUE_TOL
) -> NDArray[np.float64]:
    """Energy of every column in every eigenspace.

    Parameters
    ----------
    X : ndarray of shape (N, D)
    eigenvalues : ndarray of shape (N,), ascending
    U : ndarray of shape (N, N)
        Their eigenvectors, in columns.
    tol : float
        Neighbouring eigenvalues at most this far apart count as one.

    Returns
    -------
    ndarray of shape (number of distinct eigenvalues, D)
    """
    starts = eigenspace_starts(eigenvalues, tol)
    energies = np.square(U.T @ X)
    return np.add.reduceat(energies, starts, axis=0) if starts.size else energies


def wavelet_entropy(x: ArrayLike, A: Any, frame: Frame, tol: float = 1e-3) -> float | NDArray[np.float64]:
    r"""Wavelet entropy of signals (Definition 2 of MEGAE), without eigendecomposition.

    .. math:: \xi_w(x, L, g) = -\sum_m q_m \log q_m, \qquad q_m = \|g_m(L) x\|^2 / E_w, \quad
              E_w = \sum_m \|g_m(L) x\|^2

    in natural logarithms. Each kernel is replaced by its Chebyshev polynomial, whose order follows from
    `tol`; the energies are divided by their own sum, also where the polynomials do not quite preserve it.
    :func:`~megae.spectral.polynomial_entropy_term` bounds what the polynomials change.

    Parameters
    ----------
    x : array-like of shape (N,) or (N, D)
        One signal, or one per column; finite.
    A : graph
        As :func:`~megae.spectral.normalized_laplacian` reads it.
    frame : Frame
        M kernels, tight or not.
    tol : float, default 1e-3
        Largest error of a kernel's polynomial on [0, 2].

    Returns
    -------
    float or ndarray of shape (D,)
        Between 0 and log M; 0.0 for a signal of zeros.

    Examples
    --------
    >>> import numpy as np
    >>> from megae.spectral import TightFrame
    >>> path = np.array([[0, 1], [1, 0]])
    >>> bool(wavelet_entropy([1.0, 0.0], path, TightFrame(4)) > 1.0)
    True
    """
    L = normalized_laplacian(A)
    columns, is_vector = _columns(x, L.shape[0])
    return _result(entropy_of_energies(band_energies(L, columns, chebyshev_coefficients(frame, tol=tol))), is_vector)


def band_energies(L: Any, X: NDArray[np.float64], C: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Energies :math:`\|p_m(L) x_d\|^2` of polynomial filters, without a filtered signal.

    .. math:: \|p_m(L) x\|^2 = x^T p_m(L)^2 x = \sum_{k=0}^{2K} B_{mk}\, x^T T_k(L - I)\, x

    with B the Chebyshev coefficients of the squared polynomials: time and memory hardly depend on the number of bands.

    Parameters
    ----------
    L : scipy sparse of shape (N, N)
        Normalised Laplacian.
    X : ndarray of shape (N, D)
    C : ndarray of shape (M, K + 1)
        Chebyshev coefficients.

    Returns
    -------
    ndarray of shape (M, D)
    """
    n, d = X.shape
    order = 2 * (C.shape[1] - 1)
    B = np.zeros((len(C), order + 1))
    for row, c in zip(B, C, strict=True):
        square = chebyshev.chebmul(c, c)
        row[: square.size] = square
    energies = np.zeros((len(C), d))
    width = max(1, _CHUNK_NUMBERS // max(1, n))
    for start in range(0, d if n else 0, width):
        part = slice(start, start + width)
        energies[:, part] = B @ chebyshev_moments(L, np.ascontiguousarray(X[:, part]), order)
    return np.maximum(energies, 0.0)  # rounding


def distinct_eigenvalues(eigenvalues: ArrayLike, tol: float = EIGENVALUE_TOL) -> NDArray[np.float64]:
    """Sorted eigenvalues with repeated ones merged (their mean), as :func:`spectral_entropy` merges them.

    Parameters
    ----------
    eigenvalues : array-like of shape (n,)
    tol : float, default 1e-8
        Neighbours at most this far apart count as one.

    Returns
    -------
    ndarray of shape (number of distinct eigenvalues,)
    """
    values = np.sort(np.asarray(eigenvalues, dtype=np.float64).ravel())
    if not np.isfinite(values).all():
        raise ValueError("eigenvalues must be finite, got NaN or infinity; check the graph's weights")
    starts = eigenspace_starts(values, tol)
    if not starts.size:
        return values
    return np.add.reduceat(values, starts) / np.diff(np.r_[starts, values.size])


def eigenspace_starts(eigenvalues: NDArray[np.float64], tol: float) -> NDArray[np.intp]:
    """Index of the first member of each run of equal eigenvalues, which are given in ascending order."""
    if not eigenvalues.size:
        return np.empty(0, dtype=np.intp)
    return np.flatnonzero(np.r_[True, np.diff(eigenvalues) > tol])


def _columns(x: ArrayLike, n: int) -> tuple[NDArray[np.float64], bool]:
    """Signals as (N, D), each scaled to a largest magnitude of 1 so that no square overflows or vanishes."""
    values = x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
    values = values.astype(np.float64)
    if values.ndim not in (1, 2) or values.shape[0] != n:
        raise ValueError(f"x must have shape (N,) or (N, D) with N={n} nodes, got {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("x must be finite, got NaN or infinity; fill the holes first")
    columns = values[:, None] if values.ndim == 1 else values
    peak = np.abs(columns).max(axis=0, initial=0.0)
    return columns / np.where(peak > 0, peak, 1.0), values.ndim == 1


def entropy_of_energies(energies: NDArray[np.float64]) -> NDArray[np.float64]:
    """Entropy of each column of non-negative energies, 0 where a column is all zeros."""
    total = energies.sum(axis=0)
    return entr(energies / np.where(total > 0, total, 1.0)).sum(axis=0)


def _result(entropies: NDArray[np.float64], is_vector: bool) -> float | NDArray[np.float64]:
    return float(entropies[0]) if is_vector else entropies

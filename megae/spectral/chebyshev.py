"""Chebyshev polynomials that stand in for kernels on [0, 2], and how far they are off."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct

Kernels = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_GRID_POINTS = 8193


def spectrum_grid() -> NDArray[np.float64]:
    r"""Fine grid on [0, 2]: :math:`1 - \cos\theta` for 8,193 equally spaced :math:`\theta` in [0, pi].

    It is denser towards both ends, where polynomials oscillate fastest. A polynomial of degree d exceeds its
    largest value on this grid by a factor of at most :math:`1 / \cos(\pi d / 16384)` (Ehlich, Zeller 1964).
    """
    return 1.0 - np.cos(np.linspace(0.0, np.pi, _GRID_POINTS))


def chebyshev_coefficients(
    kernels: Kernels, K: int | None = None, *, tol: float = 1e-3, max_order: int = 512
) -> NDArray[np.float64]:
    r"""Chebyshev coefficients of kernels on [0, 2].

    .. math:: g_m(\lambda) \approx p_m(\lambda) = \sum_{k=0}^{K} C_{mk}\, T_k(\lambda - 1)

    (a plain sum: the usual half of the term k = 0 is already in C), by Chebyshev-Gauss quadrature, that is a
    discrete cosine transform of the kernels at Chebyshev nodes.

    Parameters
    ----------
    kernels : Frame or callable
        Maps eigenvalues of shape (n,) to values of shape (M, n).
    K : int, optional
        Order, at least 0. If None, it is the smallest one whose largest error over all bands on a fine grid
        of [0, 2] is at most `tol`.
    tol : float, default 1e-3
        Largest error allowed; used only where K is None.
    max_order : int, default 512
        Highest order tried. If `tol` is not met there, a UserWarning says so and this order is used.

    Returns
    -------
    ndarray of shape (M, K + 1), float64

    Examples
    --------
    >>> from megae.spectral import TightFrame
    >>> C = chebyshev_coefficients(TightFrame(6), K=16)
    >>> C.shape
    (6, 17)
    >>> bool(chebyshev_error(TightFrame(6), C).max() < 0.01)
    True
    """
    if K is not None:
        if K < 0:
            raise ValueError(f"K must be at least 0, got {K}")
        return _project(kernels, int(K))
    if not tol > 0:
        raise ValueError(f"tol must be above 0, got {tol!r}")
    if max_order < 0:
        raise ValueError(f"max_order must be at least 0, got {max_order}")
    C = _project(kernels, max_order)
    grid = spectrum_grid()
    residual = _evaluate(kernels, grid)
    x = grid - 1.0
    previous, current = x, np.ones_like(x)
    error = np.inf
    for k in range(max_order + 1):
        residual -= C[:, k, None] * current
        error = float(np.abs(residual).max())
        if error <= tol:
            return np.ascontiguousarray(C[:, : k + 1])
        previous, current = current, 2.0 * x * current - previous if k else x
    warnings.warn(
        f"Chebyshev order {max_order} leaves an error of {error:.2g} > tol={tol:g}; "
        "raise max_order or tol, or take fewer kernels or a gentler warp",
        UserWarning,
        stacklevel=2,
    )
    return C


def evaluate_chebyshev(C: ArrayLike, eigenvalues: ArrayLike) -> NDArray[np.float64]:
    r"""Values of the polynomials :math:`p_m(\lambda) = \sum_k C_{mk} T_k(\lambda - 1)`.

    Parameters
    ----------
    C : array-like of shape (M, K + 1)
    eigenvalues : array-like of shape (n,)

    Returns
    -------
    ndarray of shape (M, n)
    """
    coefficients = _check_coefficients(C)
    x = np.atleast_1d(np.asarray(eigenvalues, dtype=np.float64)) - 1.0
    return np.asarray(chebyshev.chebval(x, coefficients.T))


def chebyshev_error(kernels: Kernels, C: ArrayLike) -> NDArray[np.float64]:
    r"""Largest error :math:`\delta_m = \max_\lambda |p_m(\lambda) - g_m(\lambda)|` per band on a fine grid.

    Parameters
    ----------
    kernels : Frame or callable
        The kernels meant, (n,) -> (M, n).
    C : array-like of shape (M, K + 1)
        Chebyshev coefficients.

    Returns
    -------
    ndarray of shape (M,)
    """
    grid = spectrum_grid()
    return np.abs(_difference(kernels, C, grid)).max(axis=1)


def frame_error(kernels: Kernels | None, C: ArrayLike) -> float:
    r"""Frame error :math:`\max_\lambda |\sum_m p_m(\lambda)^2 - G(\lambda)|` of polynomials on a fine grid.

    For a tight frame G is 1, and this is how far the adjoint decoder is from the identity.

    Parameters
    ----------
    kernels : Frame, callable or None
        Gives :math:`G(\lambda) = \sum_m g_m(\lambda)^2`; None stands for G = 1.
    C : array-like of shape (M, K + 1)
        Chebyshev coefficients.
    """
    grid = spectrum_grid()
    target = 1.0 if kernels is None else np.square(_evaluate(kernels, grid)).sum(axis=0)
    return float(np.abs(np.square(evaluate_chebyshev(C, grid)).sum(axis=0) - target).max())


def _project(kernels: Kernels, K: int) -> NDArray[np.float64]:
    nodes = max(4096, 8 * (K + 1))
    theta = np.pi * (np.arange(nodes) + 0.5) / nodes
    values = _evaluate(kernels, 1.0 + np.cos(theta))
    C = dct(values, type=2, axis=1)[:, : K + 1] / nodes
    C[:, 0] /= 2.0
    return np.ascontiguousarray(C)


def _evaluate(kernels: Kernels, l: NDArray[np.float64]) -> NDArray[np.float64]:
    values = np.array(kernels(l), dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != l.size:
        raise ValueError(f"kernels must map (n,) to (M, n), got {values.shape} for {l.size} eigenvalues")
    if not np.isfinite(values).all():
        raise ValueError("kernels must be finite on all of [0, 2], got NaN or infinity")
    return values


def _difference(kernels: Kernels, C: ArrayLike, l: NDArray[np.float64]) -> NDArray[np.float64]:
    exact, approximate = _evaluate(kernels, l), evaluate_chebyshev(C, l)
    if exact.shape != approximate.shape:
        raise ValueError(f"C holds {approximate.shape[0]} bands, but the kernels are {exact.shape[0]}")
    return approximate - exact


def _check_coefficients(C: ArrayLike) -> NDArray[np.float64]:
    coefficients = np.asarray(C, dtype=np.float64)
    if coefficients.ndim != 2 or coefficients.shape[1] == 0:
        raise ValueError(f"C must have shape (M, K + 1), got {coefficients.shape}")
    return coefficients

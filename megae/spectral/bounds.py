"""Coverage, Crossness, the bound of Proposition 2, and what polynomials add to it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from megae.spectral.base import Frame, check_eigenvalues
from megae.spectral.chebyshev import Kernels, evaluate_chebyshev, spectrum_grid

ZERO_KERNEL = 1e-12


def coverage(frame: Frame, eigenvalues: ArrayLike) -> NDArray[np.int64]:
    r"""Coverage :math:`C_m = \#\{i : g_m(\lambda_i) \ne 0\}`: how many eigenvalues each kernel covers.

    Every entry of `eigenvalues` counts, so a repeated eigenvalue counts as often as it is given. A kernel
    value of at most 1e-12 in magnitude is taken for zero: it carries less than 1e-24 of the energy.

    Parameters
    ----------
    frame : Frame
    eigenvalues : array-like of shape (n,)
        Finite, in [0, 2].

    Returns
    -------
    ndarray of shape (M,), int64
    """
    return _active(frame, eigenvalues).sum(axis=1, dtype=np.int64)


def crossness(frame: Frame, eigenvalues: ArrayLike) -> NDArray[np.int64]:
    r"""Crossness :math:`R_i = \#\{m : g_m(\lambda_i) \ne 0\}`: how many kernels meet at each eigenvalue.

    A kernel value of at most 1e-12 in magnitude is taken for zero.

    Parameters
    ----------
    frame : Frame
    eigenvalues : array-like of shape (n,)
        Finite, in [0, 2].

    Returns
    -------
    ndarray of shape (n,), int64
    """
    return _active(frame, eigenvalues).sum(axis=0, dtype=np.int64)


def entropy_error_bound(frame: Frame, eigenvalues: ArrayLike) -> float:
    r"""Bound of Proposition 2 on :math:`|\xi_s - \xi_w|` for a tight frame and exact filters.

    .. math:: e(g, \lambda) = \max\big(\max_m \log C_m,\; \max_i \log R_i\big)

    Parameters
    ----------
    frame : Frame
        Tight; the proposition says nothing about other frames, and they are refused.
    eigenvalues : array-like of shape (n,)
        All N eigenvalues, or the distinct ones (see the notes).

    Returns
    -------
    float

    Notes
    -----
    :func:`~megae.spectral.spectral_entropy` merges the energy of each eigenspace. A kernel is constant on an
    eigenspace, so :math:`q_m = \sum_i g_m(\lambda_i)^2 p_i` holds with i over the *distinct* eigenvalues, and
    both halves of the proof go through with C_m counting those: pass
    :func:`~megae.spectral.distinct_eigenvalues` for the sharper bound. Counting every eigenvalue, as the
    paper does, only raises C_m and leaves the R_i as they are, so that bound holds too, for the merged as for
    the unmerged entropy.

    The bound is loose: at N = 1,000 it is log of several hundred, while entropies differ by less. It is about
    exact filters; add :func:`polynomial_entropy_term` for polynomials.

    Examples
    --------
    >>> from megae.spectral import TightFrame
    >>> round(entropy_error_bound(TightFrame(4), [0.0, 2.0]), 3)
    0.693
    """
    if not frame.tight:
        raise ValueError(f"Proposition 2 needs a tight frame, got {frame!r}; use TightFrame")
    active = _active(frame, eigenvalues)
    largest = max(active.sum(axis=1).max(initial=1), active.sum(axis=0).max(initial=1))
    return float(np.log(largest))


def polynomial_entropy_term(kernels: Kernels, C: ArrayLike, eigenvalues: ArrayLike | None = None) -> float:
    r"""Bound on how far polynomial filters move the wavelet entropy, for every signal.

    With :math:`p_m` the polynomials, :math:`g_m` the kernels and

    .. math:: T = \max_\lambda \|p(\lambda) - g(\lambda)\|_2 \,/\, \|g(\lambda)\|_2
              \qquad (\le \textstyle\sqrt{\sum_m \delta_m^2} \text{ for a tight frame}),

    the entropies of the two sets of energies satisfy

    .. math:: |\xi_w^{(p)} - \xi_w^{(g)}| \le T \log(M - 1) - T \log T - (1 - T) \log(1 - T)
              \quad \text{if } T \le 1 - 1/M, \text{ else } \log M.

    So :math:`|\xi_s - \xi_w^{(p)}|` is at most :func:`entropy_error_bound` plus this term.

    Proof. Let :math:`a_m = \|g_m(L)x\|` and :math:`b_m = \|p_m(L)x\|`. By the triangle inequality per band,
    :math:`\|a - b\|^2 \le \sum_m \|(p_m - g_m)(L)x\|^2
    = \sum_i \hat x_i^2 \|p(\lambda_i) - g(\lambda_i)\|^2 \le T^2 \|a\|^2`.
    For T < 1 the angle :math:`\theta` between a and b is acute, with
    :math:`\sin\theta \le \|a - b\| / \|a\| \le T`. The squares of the unit vectors :math:`\bar a, \bar b` are
    the two distributions, and Cauchy-Schwarz bounds their total variation:
    :math:`\frac12 \sum_m |\bar a_m^2 - \bar b_m^2| \le \frac12 \|\bar a - \bar b\| \|\bar a + \bar b\|
    = \sin\theta \le T`. The sharp continuity bound of entropy in total variation (Zhang 2007; Audenaert 2007)
    ends the proof; it grows with T up to log M at T = 1 - 1/M.

    Parameters
    ----------
    kernels : Frame or callable
        The kernels meant, (n,) -> (M, n), not all zero at any point.
    C : array-like of shape (M, K + 1)
        Chebyshev coefficients of the polynomials.
    eigenvalues : array-like of shape (n,), optional
        The graph's eigenvalues, where known: T is then the maximum over them alone, and the bound is rigorous
        up to rounding. Otherwise T is the maximum over a grid of 8,193 points of [0, 2].

    Returns
    -------
    float

    Examples
    --------
    >>> from megae.spectral import TightFrame, chebyshev_coefficients
    >>> frame = TightFrame(6)
    >>> round(polynomial_entropy_term(frame, chebyshev_coefficients(frame, tol=1e-3)), 3)
    0.013
    """
    l = spectrum_grid() if eigenvalues is None else check_eigenvalues(eigenvalues)
    g, p = np.asarray(kernels(l), dtype=np.float64), evaluate_chebyshev(C, l)
    if g.shape != p.shape:
        raise ValueError(f"C holds {p.shape[0]} bands, but the kernels are {g.shape[0]}")
    size = np.linalg.norm(g, axis=0)
    if (size == 0).any():
        raise ValueError("all kernels vanish at some eigenvalue; its energy is lost and no bound exists")
    M = g.shape[0]
    T = float((np.linalg.norm(p - g, axis=0) / size).max(initial=0.0))
    if M == 1:
        return 0.0
    if T >= 1.0 - 1.0 / M:
        return float(np.log(M))
    return float(T * np.log(M - 1) + entr(T) + entr(1.0 - T))


def _active(frame: Frame, eigenvalues: ArrayLike) -> NDArray[np.bool_]:
    return np.abs(frame(eigenvalues)) > ZERO_KERNEL

"""Maclaurin series, for the kernels that have one."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.polynomial import Polynomial, chebyshev
from numpy.typing import NDArray

from megae.spectral.base import Frame
from megae.spectral.chebyshev import chebyshev_error


def maclaurin_coefficients(
    frame: Frame, K: int | None = None, *, tol: float = 1e-3, max_order: int = 64
) -> NDArray[np.float64]:
    r"""Truncated Maclaurin series of kernels, written in the Chebyshev basis.

    .. math:: \sum_{k=0}^{K} \alpha_{mk} \lambda^k = \sum_{k=0}^{K} C_{mk}\, T_k(\lambda - 1)

    The two sides are the same polynomial, so C serves wherever Chebyshev coefficients do. The series is good
    near 0 and worst at 2: for the heat kernel its error is about :math:`(2s)^{K+1} / (K+1)!`, and rounding
    leaves about :math:`10^{-16} e^{2s}`. Chebyshev coefficients of the same order err less over [0, 2]; this
    is the option nearest to the paper. Tight and SGWT frames have no such series and are refused.

    Parameters
    ----------
    frame : Frame
        A frame with a series, such as :class:`~megae.spectral.HeatFrame`.
    K : int, optional
        Order. If None, the smallest one with an error of at most `tol` on [0, 2].
    tol : float, default 1e-3
        Largest error allowed; used only where K is None.
    max_order : int, default 64
        Highest order tried; a UserWarning says if `tol` is not met there.

    Returns
    -------
    ndarray of shape (M, K + 1), float64
        Coefficients on :math:`T_k(\lambda - 1)`.

    Examples
    --------
    >>> from megae.spectral import HeatFrame
    >>> maclaurin_coefficients(HeatFrame(1, scales=[1.0]), K=1)
    array([[ 0., -1.]])
    """
    if K is not None:
        if K < 0:
            raise ValueError(f"K must be at least 0, got {K}")
        return _to_chebyshev(frame.series(int(K)))
    if not tol > 0:
        raise ValueError(f"tol must be above 0, got {tol!r}")
    series = frame.series(max_order)
    error, C = np.inf, np.zeros((frame.M, 1))
    for order in range(max_order + 1):
        C = _to_chebyshev(series[:, : order + 1])
        error = float(chebyshev_error(frame, C).max())
        if error <= tol:
            return C
    warnings.warn(
        f"Maclaurin order {max_order} leaves an error of {error:.2g} > tol={tol:g}; "
        "use chebyshev_coefficients, or smaller scales",
        UserWarning,
        stacklevel=2,
    )
    return C


def _to_chebyshev(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Monomials in l, shape (M, K + 1), to Chebyshev polynomials in l - 1."""
    shift = Polynomial([1.0, 1.0])
    C = np.zeros_like(series)
    for m, row in enumerate(series):
        shifted = chebyshev.poly2cheb(Polynomial(row)(shift).coef)
        C[m, : shifted.size] = shifted
    return C

"""Tight wavelet frames: warped Hann translates whose squares sum to one on [0, 2]."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from megae.spectral.base import LAMBDA_MAX, Frame, check_eigenvalues
from megae.spectral.density import spectral_cdf
from megae.spectral.laplacian import normalized_laplacian

Warp = Literal["uniform", "log", "paper-log", "adapted"]
WARPS: tuple[Warp, ...] = ("uniform", "log", "paper-log", "adapted")

_KNOTS = 33
_LINEAR_SHARE = 0.1
_STEEPEST = 4.0


def hann_translates(w: NDArray[np.float64], M: int, gamma: float) -> NDArray[np.float64]:
    r"""Uniform Hann translates, whose squares sum to one on :math:`[0, \gamma]`.

    With R = 3, Q = 1, :math:`a_0 = a_1 = 1/2` (which satisfy :math:`\sum_q (-1)^q a_q = 0` and Q < R/2) and
    the step :math:`h = \gamma / (M + 1 - R)`,

    .. math:: u(w) = \sum_{q=0}^{Q} a_q \cos\!\big(2 \pi q (w / (R h) + 1/2)\big)
                     \;\text{ for } -R h \le w < 0, \text{ else } 0,
              \qquad u_m(w) = u(w - m h).

    The squares of the M translates sum to :math:`R a_0^2 + \frac R2 \sum_{q \ge 1} a_q^2 = 9/8`, so each is
    divided by :math:`\sqrt{9/8}`.

    Parameters
    ----------
    w : ndarray of shape (n,)
        Warped eigenvalues.
    M : int
        Number of translates, at least 3.
    gamma : float
        Upper end of the warped axis.

    Returns
    -------
    ndarray of shape (M, n)
    """
    step = gamma / (M - 2)
    offset = w[None, :] / step - np.arange(1, M + 1)[:, None]
    inside = (offset >= -3.0) & (offset < 0.0)
    bump = 0.5 + 0.5 * np.cos(2.0 * np.pi * (offset / 3.0 + 0.5))
    return np.where(inside, bump, 0.0) / np.sqrt(9.0 / 8.0)


class TightFrame(Frame):
    r"""Tight wavelet frame :math:`g_m(\lambda) = u_m(\omega(\lambda))`, m = 1..M, from Hann translates u_m.

    The translates of Shuman et al. (2015), which MEGAE builds on (AAAI 2023, appendix "Tight Wavelet Kernel
    Construction"), satisfy :math:`\sum_m g_m(\lambda)^2 = 1` on [0, 2] for every monotone warp
    :math:`\omega` that maps [0, 2] onto :math:`[0, \gamma]`:

    - ``"uniform"``: :math:`\omega(\lambda) = \lambda`.
    - ``"log"``: :math:`\omega(\lambda) = \log(1 + c \lambda)`; finer at low frequencies, finite at 0.
    - ``"paper-log"``: :math:`\omega(\lambda) = \log \lambda` with :math:`\gamma = \log 2`, literally. The
      translates start at :math:`\lambda = 1` (the first of them a little below), so a scaling kernel
      :math:`g_1 = \sqrt{\max(0, 1 - \sum_{m \ge 2} g_m^2)}` takes the rest of the spectrum, 0 included.
    - ``"adapted"``: :math:`\omega` follows the cumulative spectral density, so that each kernel covers about
      the same number of eigenvalues; this evens out Coverage and serves the bound of Proposition 2 best.

    Parameters
    ----------
    M : int
        Number of kernels, at least 3 (the construction needs 2 < R <= M with R = 3).
    warp : {"uniform", "log", "paper-log", "adapted"}, default "uniform"
    c : float, default 10.0
        Strength of ``warp="log"``, above 0.
    spectrum : graph or array of shape (n,), optional
        For ``warp="adapted"`` only: eigenvalues in [0, 2], or a graph as
        :func:`~megae.spectral.normalized_laplacian` reads it. The density of a graph is estimated without
        eigendecomposition by :func:`~megae.spectral.spectral_cdf` with a fixed seed.

    Notes
    -----
    The adapted warp runs from 0 to 1 over 33 equally spaced knots on [0, 2]. Between two knots it rises by
    0.9 of the share of eigenvalues that lie there (one on a knot counts half on either side), but by at most
    4 times the mean rise; what is then missing to 1 is added as a straight line. Monotone cubics (PCHIP) join
    the knots, so the warp is strictly increasing and continuously differentiable. The ceiling acts where many
    eigenvalues coincide, as in trees: no kernel can split an eigenspace, and a steeper warp would only raise
    the Chebyshev order.

    Examples
    --------
    >>> frame = TightFrame(6, warp="log")
    >>> frame
    TightFrame(M=6, warp='log', c=10.0)
    >>> frame([0.0, 0.5, 2.0]).shape
    (6, 3)
    >>> frame.energy([0.0, 0.5, 2.0]).round(12)
    array([1., 1., 1.])
    """

    tight = True

    def __init__(self, M: int, warp: Warp = "uniform", c: float = 10.0, spectrum: Any = None) -> None:
        super().__init__(M)
        if self.M < 3:
            raise ValueError(f"TightFrame needs M >= 3 kernels (Hann translates overlap by R = 3 <= M), got M={M}")
        if warp not in WARPS:
            raise ValueError(f"warp must be one of {', '.join(map(repr, WARPS))}, got {warp!r}")
        if not np.isfinite(c) or c <= 0:
            raise ValueError(f"c must be a finite number above 0, got {c!r}")
        if warp == "adapted" and spectrum is None:
            raise ValueError("warp='adapted' needs spectrum=, a graph or its eigenvalues")
        if warp != "adapted" and spectrum is not None:
            raise ValueError(f"spectrum= is only used by warp='adapted', got warp={warp!r}; drop it or change warp")
        self.warp: Warp = warp
        self.c = float(c)
        self._adapted = _adapted_warp(spectrum) if warp == "adapted" else None

    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.warp == "uniform":
            return hann_translates(l, self.M, LAMBDA_MAX)
        if self.warp == "log":
            return hann_translates(np.log1p(self.c * l), self.M, float(np.log1p(self.c * LAMBDA_MAX)))
        if self.warp == "paper-log":
            return self._paper_log(l)
        assert self._adapted is not None
        return hann_translates(np.clip(self._adapted(l), 0.0, 1.0), self.M, 1.0)

    def _paper_log(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        # The closed form of g_1: at and above l = 1 all M translates sum to one, so what m >= 2 leave is u_1;
        # below it only u_2 is left. The subtraction 1 - sum would leave 1e-8 of noise where g_1 is zero.
        gamma = float(np.log(LAMBDA_MAX))
        start = -gamma / (self.M - 2)
        w = np.log(np.maximum(l, np.exp(start)))
        g = hann_translates(w, self.M, gamma)
        rest = np.sqrt(np.maximum(0.0, 1.0 - np.square(g[1])))
        g[0] = np.where(w >= 0.0, g[0], rest)
        return g

    def _repr_parameters(self) -> dict[str, Any]:
        return {"warp": self.warp, "c": self.c} if self.warp == "log" else {"warp": self.warp}


def _adapted_warp(spectrum: Any) -> PchipInterpolator:
    """Strictly increasing map of [0, 2] onto [0, 1] that follows the spectrum (see TightFrame's notes)."""
    knots = np.linspace(0.0, LAMBDA_MAX, _KNOTS)
    if isinstance(spectrum, (list, tuple)) or getattr(spectrum, "ndim", None) == 1:
        eigenvalues = np.sort(check_eigenvalues(spectrum))
        if not eigenvalues.size:
            raise ValueError("spectrum holds no eigenvalues; pass at least one, or a graph")
        counts = np.searchsorted(eigenvalues, knots, "left") + np.searchsorted(eigenvalues, knots, "right")
        cdf = counts / (2.0 * eigenvalues.size)
    else:
        cdf = spectral_cdf(normalized_laplacian(spectrum), random_state=0)(knots)
    rise = np.maximum(np.diff(cdf), 0.0)
    rise /= max(rise.sum(), np.finfo(np.float64).tiny)
    rise = np.minimum((1.0 - _LINEAR_SHARE) * rise, _STEEPEST / (_KNOTS - 1))
    values = np.r_[0.0, np.cumsum(rise)] + (1.0 - rise.sum()) * knots / LAMBDA_MAX
    return PchipInterpolator(knots, values)

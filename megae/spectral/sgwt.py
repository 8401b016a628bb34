"""The spectral graph wavelet transform of Hammond, Vandergheynst and Gribonval."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from megae.spectral.base import LAMBDA_MAX, Frame

# The cubic with s(1) = s(2) = 1, s'(1) = 2, s'(2) = -1 peaks where 3x^2 - 12x + 11 = 0.
_PEAK = 2.0 - 1.0 / np.sqrt(3.0)


def spline_kernel(x: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Band-pass kernel: :math:`x^2` up to 1, :math:`-5 + 11x - 6x^2 + x^3` up to 2, then :math:`4 / x^2`."""
    middle = -5.0 + x * (11.0 + x * (-6.0 + x))
    return np.where(x < 1.0, np.square(x), np.where(x <= 2.0, middle, 4.0 / np.square(np.maximum(x, 1.0))))


class SGWTFrame(Frame):
    r"""Spectral graph wavelets (Hammond et al. 2011): one scaling kernel and M - 1 dilated wavelet kernels.

    .. math:: g_1(\lambda) = \gamma \exp\!\big(-(\lambda / (0.6\,\lambda_{\min}))^4\big), \qquad
              g_m(\lambda) = g(t_{m-1} \lambda), \quad m = 2, \dots, M,

    with the spline kernel g (quadratic rise, cubic top, quadratic decay), :math:`\gamma` its maximum,
    :math:`\lambda_{\max} = 2`, :math:`\lambda_{\min} = \lambda_{\max} / \text{ratio}` and scales spaced
    logarithmically from :math:`2 / \lambda_{\min}` down to :math:`1 / \lambda_{\max}`. Not tight; with fewer
    than 5 kernels the scales lie so far apart that parts of the spectrum are hardly passed.

    Parameters
    ----------
    M : int
        Number of kernels, at least 2.
    ratio : float, default 20.0
        :math:`\lambda_{\max} / \lambda_{\min}`, above 1.

    Examples
    --------
    >>> frame = SGWTFrame(4)
    >>> frame([0.0, 2.0]).round(3)
    array([[1.385, 0.   ],
           [0.   , 0.002],
           [0.   , 0.1  ],
           [0.   , 1.   ]])
    """

    def __init__(self, M: int, ratio: float = 20.0) -> None:
        super().__init__(M)
        if self.M < 2:
            raise ValueError(f"SGWTFrame needs M >= 2 kernels (a scaling kernel and a wavelet), got M={M}")
        if not np.isfinite(ratio) or ratio <= 1:
            raise ValueError(f"ratio must be a finite number above 1, got {ratio!r}")
        self.ratio = float(ratio)
        self.lambda_min = LAMBDA_MAX / self.ratio
        self.scales = np.geomspace(2.0 / self.lambda_min, 1.0 / LAMBDA_MAX, self.M - 1)

    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        gamma = spline_kernel(np.array([_PEAK]))
        scaling = gamma * np.exp(-((l / (0.6 * self.lambda_min)) ** 4))
        wavelets = spline_kernel(self.scales[:, None] * l[None, :])
        return np.concatenate([scaling[None, :], wavelets])

    def _repr_parameters(self) -> dict[str, Any]:
        return {} if self.ratio == 20.0 else {"ratio": self.ratio}

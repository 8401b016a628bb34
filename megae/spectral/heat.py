"""Heat kernels, the wavelets of GWNN."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import factorial

from megae.spectral.base import Frame


class HeatFrame(Frame):
    r"""Heat kernels :math:`g_m(\lambda) = \exp(-s_m \lambda)` (GWNN, Xu et al. 2019).

    All of them pass low frequencies, so the frame is not tight and cannot tell high bands apart.

    Parameters
    ----------
    M : int
        Number of kernels.
    scales : array-like of shape (M,), optional
        Diffusion times, finite and above 0. By default they run geometrically from 1/4 to 4, around the
        scale 1 that GWNN uses; a single kernel gets scale 1.

    Examples
    --------
    >>> HeatFrame(3).scales
    array([0.25, 1.  , 4.  ])
    >>> HeatFrame(2, scales=[1.0, 2.0])([0.0, 1.0]).round(3)
    array([[1.   , 0.368],
           [1.   , 0.135]])
    """

    def __init__(self, M: int, scales: ArrayLike | None = None) -> None:
        super().__init__(M)
        if scales is None:
            self.scales = np.geomspace(0.25, 4.0, self.M) if self.M > 1 else np.ones(1)
        else:
            self.scales = np.array(scales, dtype=np.float64)
        if self.scales.shape != (self.M,):
            raise ValueError(f"scales must hold M={self.M} numbers, got shape {self.scales.shape}")
        if not np.isfinite(self.scales).all() or self.scales.min() <= 0:
            raise ValueError(f"scales must be finite and above 0, got {self.scales.tolist()}")

    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(-self.scales[:, None] * l[None, :])

    def series(self, order: int) -> NDArray[np.float64]:
        r"""Maclaurin coefficients :math:`(-s_m)^k / k!`, shape (M, order + 1)."""
        k = np.arange(order + 1)
        return (-self.scales[:, None]) ** k[None, :] / factorial(k)[None, :]

    def _repr_parameters(self) -> dict[str, Any]:
        return {"scales": [float(f"{s:.4g}") for s in self.scales]}

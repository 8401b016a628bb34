"""What every wavelet frame shares: evaluation on [0, 2], energy, regularised inverse, a plot of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LAMBDA_MAX = 2.0
_SLACK = 1e-6


def check_eigenvalues(eigenvalues: ArrayLike) -> NDArray[np.float64]:
    """Validate eigenvalues of a normalised Laplacian and clip rounding noise away.

    Parameters
    ----------
    eigenvalues : array-like of shape (n,) or a scalar
        Finite numbers in [0, 2]; values outside by at most 1e-6 count as rounding and are clipped.

    Returns
    -------
    ndarray of shape (n,), float64
    """
    values = np.atleast_1d(np.asarray(eigenvalues, dtype=np.float64))
    if values.ndim != 1:
        raise ValueError(f"eigenvalues must be one-dimensional, got an array of shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("eigenvalues must be finite, got NaN or infinity; check the graph's weights")
    if values.size and (values.min() < -_SLACK or values.max() > LAMBDA_MAX + _SLACK):
        raise ValueError(
            f"eigenvalues must lie in [0, 2], got a range of [{values.min():g}, {values.max():g}]; "
            "use those of the normalised Laplacian (megae.spectral.normalized_laplacian)"
        )
    return np.clip(values, 0.0, LAMBDA_MAX)


class Frame(ABC):
    r"""A set of M kernels :math:`g_1, \dots, g_M` on the spectrum [0, 2] of a normalised Laplacian.

    A subclass writes ``_kernels``; called on eigenvalues, a frame gives an array of shape (M, n).

    Parameters
    ----------
    M : int
        Number of kernels (bands).

    Attributes
    ----------
    tight : bool
        Whether the squares sum to one, :math:`\sum_m g_m(\lambda)^2 = 1` on all of [0, 2].
    """

    tight: bool = False

    def __init__(self, M: int) -> None:
        if isinstance(M, bool) or not isinstance(M, (int, np.integer)) or M < 1:
            raise ValueError(f"M must be a positive integer (the number of kernels), got {M!r}")
        self.M = int(M)

    @abstractmethod
    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        """Kernel values, shape (M, n), for checked eigenvalues ``l`` of shape (n,)."""

    def __call__(self, eigenvalues: ArrayLike) -> NDArray[np.float64]:
        r"""Evaluate all kernels.

        Parameters
        ----------
        eigenvalues : array-like of shape (n,)
            Numbers in [0, 2].

        Returns
        -------
        ndarray of shape (M, n), float64
            :math:`g_m(\lambda_i)` in row m, column i.
        """
        return self._kernels(check_eigenvalues(eigenvalues))

    def energy(self, eigenvalues: ArrayLike) -> NDArray[np.float64]:
        r"""Frame energy :math:`G(\lambda) = \sum_m g_m(\lambda)^2`, shape (n,); all ones if tight."""
        return np.square(self(eigenvalues)).sum(axis=0)

    def inverse(self, eps: float = 0.1) -> InverseFrame:
        r"""Frame of the regularised inverse kernels :math:`g / (g^2 + \varepsilon)`.

        The plain inverse 1/g does not exist where a kernel vanishes. Below eps = 0.1 the inverse kernels
        get steep and need a high polynomial order. For a tight frame the exact decoder is the adjoint,
        :math:`\sum_m g_m(L)[g_m(L)x] = x`, which needs no inverse.
        """
        return InverseFrame(self, eps)

    def series(self, order: int) -> NDArray[np.float64]:
        r"""Maclaurin coefficients of the kernels in powers of :math:`\lambda`, shape (M, order + 1)."""
        raise ValueError(
            f"{type(self).__name__} has no Maclaurin series that represents it on [0, 2]; "
            "use chebyshev_coefficients instead"
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every kernel and the frame energy over [0, 2]; returns the matplotlib axes drawn on."""
        import matplotlib.pyplot as plt

        axes = plt.subplots()[1] if ax is None else ax
        l = np.linspace(0.0, LAMBDA_MAX, 1001)
        values = self(l)
        for m, row in enumerate(values, start=1):
            axes.plot(l, row, label=f"$g_{{{m}}}$")
        axes.plot(l, np.square(values).sum(axis=0), color="black", linestyle=":", label="energy")
        axes.set_xlabel("eigenvalue of the normalised Laplacian")
        axes.set_ylabel("kernel")
        axes.set_title(repr(self))
        axes.legend(fontsize="small")
        return axes

    def _repr_parameters(self) -> dict[str, Any]:
        return {}

    def __repr__(self) -> str:
        parameters = "".join(f", {name}={value!r}" for name, value in self._repr_parameters().items())
        return f"{type(self).__name__}(M={self.M}{parameters})"


class InverseFrame(Frame):
    r"""Regularised inverse kernels :math:`g_m / (g_m^2 + \varepsilon)` of another frame.

    Parameters
    ----------
    frame : Frame
        The frame to invert band by band.
    eps : float, default 0.1
        Regularisation, above 0.

    Examples
    --------
    >>> from megae.spectral import HeatFrame
    >>> HeatFrame(1, scales=[1.0]).inverse(eps=0.25)([0.0]).round(3)
    array([[0.8]])
    """

    def __init__(self, frame: Frame, eps: float = 0.1) -> None:
        super().__init__(frame.M)
        if not np.isfinite(eps) or eps <= 0:
            raise ValueError(f"eps must be a finite number above 0 (0.1 is a good start), got {eps!r}")
        self.frame = frame
        self.eps = float(eps)

    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        g = self.frame(l)
        return g / (np.square(g) + self.eps)

    def _repr_parameters(self) -> dict[str, Any]:
        return {"frame": self.frame, "eps": self.eps}

"""GDN: a graph convolutional encoder, and a decoder that undoes its smoothing and takes the noise out."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import factorial
from torch import Tensor, nn
from torch.nn import functional as F

from megae.kernels import FilterOperator, apply
from megae.spectral import Frame, HeatFrame, maclaurin_coefficients

KERNELS = ("heat", "gcn")


class ConvolutionKernel(Frame):
    r"""The kernel of a graph convolution, :math:`g_c(\lambda) = 1 - \lambda`."""

    def __init__(self) -> None:
        super().__init__(1)

    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 - l[None, :]

    def series(self, order: int) -> NDArray[np.float64]:
        return np.array([[1.0, -1.0, *[0.0] * (order - 1)]])[:, : order + 1]


class InverseConvolutionKernel(Frame):
    r"""Its inverse, :math:`g_c^{-1}(\lambda) = 1 / (1 - \lambda) = \sum_n \lambda^n`; the series alone is used."""

    def __init__(self) -> None:
        super().__init__(1)

    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 / (1.0 - l[None, :])

    def series(self, order: int) -> NDArray[np.float64]:
        return np.ones((1, order + 1))


class InverseHeatKernel(Frame):
    r"""The inverse of the heat kernel, :math:`\exp(s \lambda)`.

    Parameters
    ----------
    scale : float
        s.
    """

    def __init__(self, scale: float) -> None:
        super().__init__(1)
        self.scale = scale

    def _kernels(self, l: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(self.scale * l[None, :])

    def series(self, order: int) -> NDArray[np.float64]:
        k = np.arange(order + 1)
        return (self.scale**k / factorial(k))[None, :]


def deconvolution_filters(kernel: str, order: int, scale: float) -> dict[str, NDArray[np.float64]]:
    """Truncated Maclaurin series of GDN's four filters, as Chebyshev coefficients (1, order + 1).

    Parameters
    ----------
    kernel : "heat" (exp(-l) in the encoder, exp(l) to undo it) or "gcn" (1 - l, and the series of 1 / (1 - l))
    order : int
    scale : float
        s of the wavelets exp(-s l).

    Returns
    -------
    dict with the keys ``smooth``, ``sharpen``, ``analyse`` (to wavelet coefficients) and ``synthesise``
    """
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, got {kernel!r}")
    heat = kernel == "heat"
    frames: dict[str, Frame] = {
        "smooth": HeatFrame(1) if heat else ConvolutionKernel(),
        "sharpen": InverseHeatKernel(1.0) if heat else InverseConvolutionKernel(),
        "analyse": InverseHeatKernel(scale),
        "synthesise": HeatFrame(1, scales=[scale]),
    }
    return {name: maclaurin_coefficients(frame, order) for name, frame in frames.items()}


class GraphDeconvolution(nn.Module):
    r"""The autoencoder of GDN.

    .. math::
        H^{(1)} &= \phi(\phi(g_c(L) X W_1) W_2), \quad H^{(2)} = \phi(\phi(g_c(L) H^{(1)} W_3) W_4) \\
        M &= \phi(\phi(g_c^{-1}(L) [H^{(1)}, H^{(2)}] W_5) W_6) \\
        \hat X &= \Psi_s\, \phi(\Psi_s^{-1} M W_7)\, W_8, \qquad \Psi_s = \exp(-s L)

    with :math:`\phi` the ReLU and every filter a truncated Maclaurin series.

    Parameters
    ----------
    features_in, features_out : int
    width : int
        Of the first code and of the decoder; the second code has half of it.
    kernel, order, scale : see :func:`deconvolution_filters`

    Shapes
    ------
    input (N, features_in), output (N, features_out)
    """

    def __init__(
        self,
        features_in: int,
        features_out: int,
        *,
        width: int = 256,
        kernel: str = "heat",
        order: int = 4,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        for name, C in deconvolution_filters(kernel, order, scale).items():
            self.register_buffer(name, torch.as_tensor(C, dtype=torch.float32))
        code = max(1, width // 2)
        self.encode1 = _perceptron(features_in, width, width)
        self.encode2 = _perceptron(width, width, code)
        self.invert = _perceptron(width + code, width, width)
        self.denoise = nn.Linear(width, width)
        self.out = nn.Linear(width, features_out)

    def _filter(self, name: str, operator: FilterOperator, Z: Tensor) -> Tensor:
        return apply(operator, Z.unsqueeze(1), self.get_buffer(name)).squeeze(1)

    def forward(self, x: Tensor, operator: FilterOperator) -> Tensor:
        H1 = F.relu(self.encode1(self._filter("smooth", operator, x)))  # (N, width)
        H2 = F.relu(self.encode2(self._filter("smooth", operator, H1)))  # (N, width / 2)
        M = F.relu(self.invert(self._filter("sharpen", operator, torch.cat([H1, H2], dim=1))))  # (N, width)
        C = F.relu(self.denoise(self._filter("analyse", operator, M)))  # (N, width), wavelet coefficients
        return self.out(self._filter("synthesise", operator, C))


def _perceptron(features_in: int, hidden: int, features_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features_in, hidden), nn.ReLU(), nn.Linear(hidden, features_out))

"""A frame turned into the polynomial filters a network carries with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from megae.kernels import FilterOperator, apply
from megae.spectral import (
    Frame,
    HeatFrame,
    SGWTFrame,
    TightFrame,
    chebyshev_coefficients,
    chebyshev_error,
    frame_error,
)

FRAMES = ("uniform", "log", "paper-log", "adapted", "heat", "sgwt")
DECODERS = ("adjoint", "inverse", "gcn", "mlp")


def make_frame(name: str, M: int, c: float = 10.0, spectrum: Any = None) -> Frame:
    """A frame by name: ``uniform``, ``log``, ``paper-log``, ``adapted`` (tight), ``heat``, ``sgwt``."""
    if name == "heat":
        return HeatFrame(M)
    if name == "sgwt":
        return SGWTFrame(M)
    if name in FRAMES:
        return TightFrame(M, warp=name, c=c, spectrum=spectrum)  # type: ignore[arg-type]
    raise ValueError(f"frame must be one of {', '.join(FRAMES)}, got {name!r}")


class FilterBank(nn.Module):
    r"""Analysis filters g_m(L) and what the decoder does on the way back.

    ========== ================================================================================
    decoder    per band
    ========== ================================================================================
    adjoint    g_m(L), exact for a tight frame: :math:`\sum_m g_m(L)^2 = I`
    inverse    g_m / (g_m^2 + eps), the regularised inverse nearest to equation 9
    gcn        (I + D^-1/2 A D^-1/2) / 2, one graph convolution (Inv_GCN)
    mlp        nothing: the graph is not used on the way back (Inv_MLP)
    ========== ================================================================================

    Parameters
    ----------
    analysis : array of shape (M, K + 1)
    synthesis : array of shape (M, K' + 1) or None
    """

    analysis: Tensor
    synthesis: Tensor | None

    def __init__(self, analysis: np.ndarray, synthesis: np.ndarray | None) -> None:
        super().__init__()
        self.register_buffer("analysis", torch.as_tensor(analysis, dtype=torch.float32))
        back = None if synthesis is None else torch.as_tensor(synthesis, dtype=torch.float32)
        self.register_buffer("synthesis", back)

    @classmethod
    def from_frame(cls, frame: Frame, order: int, decoder: str = "adjoint", eps: float = 0.1) -> FilterBank:
        """Chebyshev coefficients of a frame and of the chosen decoder."""
        if decoder not in DECODERS:
            raise ValueError(f"decoder must be one of {', '.join(DECODERS)}, got {decoder!r}")
        analysis = chebyshev_coefficients(frame, order)
        synthesis: np.ndarray | None
        if decoder == "adjoint":
            synthesis = analysis
        elif decoder == "inverse":
            synthesis = chebyshev_coefficients(frame.inverse(eps), order)
        elif decoder == "gcn":
            synthesis = np.tile([0.5, -0.5], (frame.M, 1))
        else:
            synthesis = None
        return cls(analysis, synthesis)

    @property
    def bands(self) -> int:
        return self.analysis.shape[0]

    def encode(self, operator: FilterOperator, Z: Tensor) -> Tensor:
        """(N, M, h) or (N, 1, h) -> (N, M, h)."""
        return apply(operator, Z, self.analysis)

    def decode(self, operator: FilterOperator, Z: Tensor) -> Tensor:
        """(N, M, h) -> (N, M, h)."""
        return Z if self.synthesis is None else apply(operator, Z, self.synthesis)


def polynomial_quality(frame: Frame, bank: FilterBank) -> dict[str, float]:
    """How far the polynomials are from the kernels, and their squares from a tight frame's sum."""
    C = bank.analysis.double().cpu().numpy()
    return {
        "order": C.shape[1] - 1,
        "filter_error": float(np.max(chebyshev_error(frame, C))),
        "frame_error": float(frame_error(None, C)),
    }

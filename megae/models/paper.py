"""Preset ``paper``: equations 5 to 11 as written."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from megae.kernels import FilterOperator
from megae.models.autoencoder import BandLinear
from megae.models.filters import FilterBank


class PaperAutoencoder(nn.Module):
    r"""The autoencoder of the paper, with :math:`\phi` leaky ReLU throughout.

    .. math::
        Z^{(1)}_m &= \phi(g_m(L) (X \odot R) W^{(0)}_m)            && \text{(5)} \\
        Z^{(2)}_m &= \phi(Z^{(1)}_m W^{(1)}_m)                     && \text{(6)} \\
        Z^{(3)}_m &= \phi(g_m^{-1}(L) Z^{(2)}_m W^{(2)}_m)         && \text{(8)} \\
        \tilde X  &= \phi([Z^{(3)}_1, \dots, Z^{(3)}_M] W^{(3)})   && \text{(9)}

    Parameters
    ----------
    features : int
        Columns D of X.
    filters : FilterBank
    width : int

    Shapes
    ------
    input (N, D), zero in the holes; output (N, D) and a list with the latent code (N, M, width)
    """

    def __init__(self, features: int, filters: FilterBank, *, width: int = 32) -> None:
        super().__init__()
        self.filters = filters
        self.convolve = BandLinear(filters.bands, features, width)
        self.encode = BandLinear(filters.bands, width, width)
        self.decode = BandLinear(filters.bands, width, width)
        self.merge = nn.Linear(filters.bands * width, features)

    def forward(self, x: Tensor, operator: FilterOperator) -> tuple[Tensor, list[Tensor]]:
        Z0 = x.unsqueeze(1)  # (N, 1, D), shared by the bands
        Z1 = F.leaky_relu(self.convolve(self.filters.encode(operator, Z0)))
        Z2 = F.leaky_relu(self.encode(Z1))
        Z3 = F.leaky_relu(self.decode(self.filters.decode(operator, Z2)))
        return F.leaky_relu(self.merge(Z3.flatten(1))), [Z2]

"""Preset ``default``: the paper's wavelet autoencoder as a residual network."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from megae.kernels import FilterOperator
from megae.models.filters import FilterBank


class BandLinear(nn.Module):
    """One linear map per band: (N, M, i) -> (N, M, o), the W_m of equations 5, 6 and 9."""

    def __init__(self, bands: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(bands, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(bands, 1, outputs))
        nn.init.uniform_(self.weight, -(inputs**-0.5), inputs**-0.5)

    def forward(self, Z: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, Z.transpose(0, 1), self.weight).transpose(0, 1)


class Dropout(nn.Module):
    """Inverted dropout out of uniform draws: several times faster on CPU than torch's, which draws one by one."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p)


class Perceptron(nn.Module):
    """x + W_2 gelu(W_1 norm(x)), starting as the identity."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.dropout = Dropout(dropout)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.dropout(F.gelu(self.up(self.norm(x)))))


class WaveletBlock(nn.Module):
    r"""One encoder and decoder of the paper around a residual path, starting as the identity.

    .. math::
        Z^{(1)}_m &= \phi(g_m(L) \, [\mathrm{norm}(x) W^{(0)}]_m) \\
        Z^{(2)}_m &= \phi(Z^{(1)}_m W^{(1)}_m) \\
        Z^{(3)}_m &= \phi(\tilde g_m(L) \, [Z^{(2)}_m W^{(2)}_m]) \\
        x &\leftarrow x + \mathrm{concat}(Z^{(3)}_1, \dots, Z^{(3)}_M) \, W^{(3)}
    """

    def __init__(self, width: int, band_width: int, filters: FilterBank) -> None:
        super().__init__()
        self.filters = filters
        bands = filters.bands
        self.shape = (bands, band_width)
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, bands * band_width)
        self.encode = BandLinear(bands, band_width, band_width)
        self.decode = BandLinear(bands, band_width, band_width)
        self.merge = nn.Linear(bands * band_width, width)
        nn.init.zeros_(self.merge.weight)
        nn.init.zeros_(self.merge.bias)

    def forward(self, x: Tensor, operator: FilterOperator) -> tuple[Tensor, Tensor]:
        """(N, width) -> (N, width) and the latent code Z^(2) of shape (N, M, band_width)."""
        Z0 = self.project(self.norm(x)).view(-1, *self.shape)  # (N, M, b)
        Z1 = F.gelu(self.filters.encode(operator, Z0))
        Z2 = F.gelu(self.encode(Z1))
        Z3 = F.gelu(self.filters.decode(operator, self.decode(Z2)))
        return x + self.merge(Z3.flatten(1)), Z2


class WaveletAutoencoder(nn.Module):
    """Linear to ``width``; two perceptrons; wavelet block and perceptron, ``blocks`` times; two perceptrons; linear.

    The output starts at exactly zero, that is, at the column means.

    Parameters
    ----------
    inputs, outputs : int
    filters : FilterBank
        Shared by all wavelet blocks.
    width, band_width, blocks : int
    dropout : float

    Shapes
    ------
    input (N, inputs); output (N, outputs) and a list of ``blocks`` latent codes (N, M, band_width)
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        filters: FilterBank,
        *,
        width: int = 256,
        band_width: int = 24,
        blocks: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.dropout = Dropout(dropout)
        self.before = nn.Sequential(*(Perceptron(width, dropout) for _ in range(2)))
        self.wavelets = nn.ModuleList(WaveletBlock(width, band_width, filters) for _ in range(blocks))
        self.between = nn.ModuleList(Perceptron(width, dropout) for _ in range(blocks))
        self.after = nn.Sequential(*(Perceptron(width, dropout) for _ in range(2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor, operator: FilterOperator) -> tuple[Tensor, list[Tensor]]:
        h = self.before(self.embed(self.dropout(x)))
        codes = []
        for wavelet, perceptron in zip(self.wavelets, self.between, strict=True):
            h, Z2 = wavelet(h, operator)
            h = perceptron(h)
            codes.append(Z2)
        return self.head(self.norm(self.after(h))), codes

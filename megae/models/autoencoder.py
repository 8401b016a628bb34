"""Preset ``default``: the paper's wavelet autoencoder as a residual network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from megae.kernels import FilterOperator
from megae.models.filters import FilterBank
from megae.models.linear import Linear, even_rows
from megae.models.pieces import WHOLE, by_rows, uniform


class BandLinear(nn.Module):
    """One linear map per band: (N, M, i) -> (N, M, o), the W_m of equations 5, 6 and 9."""

    def __init__(self, bands: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(bands, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(bands, 1, outputs))
        nn.init.uniform_(self.weight, -(inputs**-0.5), inputs**-0.5)

    def forward(self, Z: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, Z.transpose(0, 1), self.weight).transpose(0, 1).contiguous()


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
        return x * (uniform(x) >= self.p) / (1 - self.p)


class Perceptron(nn.Module):
    """x + W_2 gelu(W_1 norm(x)), starting as the identity."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = Linear(width, 2 * width)
        self.down = Linear(2 * width, width)
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
        self.project = Linear(width, bands * band_width)
        self.encode = BandLinear(bands, band_width, band_width)
        self.decode = BandLinear(bands, band_width, band_width)
        self.merge = Linear(bands * band_width, width)
        nn.init.zeros_(self.merge.weight)
        nn.init.zeros_(self.merge.bias)

    def forward(self, x: Tensor, operator: FilterOperator, then: Sequence[nn.Module] = ()) -> tuple[Tensor, Tensor]:
        """(N, width) -> (N, width), through ``then``, and the latent code Z^(2) of shape (N, M, band_width)."""
        Z0 = by_rows(self._split, x, of=(self.norm, self.project))  # (N, M, b)
        Y2, Z2 = by_rows(self._code, self.filters.encode(operator, Z0), of=(self.encode, self.decode))
        Y3 = self.filters.decode(operator, Y2)

        def join(x: Tensor, Y3: Tensor) -> Tensor:
            h = x + self.merge(F.gelu(Y3).flatten(1))
            for module in then:
                h = module(h)
            return h

        return by_rows(join, x, Y3, of=(self.merge, *then)), Z2

    def _split(self, x: Tensor) -> Tensor:
        return self.project(self.norm(x)).view(-1, *self.shape)

    def _code(self, Y1: Tensor) -> tuple[Tensor, Tensor]:
        Z2 = F.gelu(self.encode(F.gelu(Y1)))
        return self.decode(Z2), Z2


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
        self.embed = Linear(inputs, width)
        self.dropout = Dropout(dropout)
        self.before = nn.Sequential(*(Perceptron(width, dropout) for _ in range(2)))
        self.wavelets = nn.ModuleList(WaveletBlock(width, band_width, filters) for _ in range(blocks))
        self.between = nn.ModuleList(Perceptron(width, dropout) for _ in range(blocks))
        self.after = nn.Sequential(*(Perceptron(width, dropout) for _ in range(2)))
        self.norm = nn.LayerNorm(width)
        self.head = Linear(width, outputs)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor, operator: FilterOperator) -> tuple[Tensor, list[Tensor]]:
        n, rows = x.shape[0], even_rows(x.shape[0], cast(Perceptron, self.before[0]).up.weight)
        if n < rows <= WHOLE and isinstance(operator, FilterOperator):
            raw, codes = self._through(F.pad(x, (0, 0, 0, rows - n)), operator.with_isolated(rows - n))
            return raw[:n], [Z2[:n] for Z2 in codes]
        return self._through(x, operator)

    def _through(self, x: Tensor, operator: FilterOperator) -> tuple[Tensor, list[Tensor]]:
        h = by_rows(lambda x: self.before(self.embed(self.dropout(x))), x, of=(self.embed, self.before))
        codes: list[Tensor] = []
        for wavelet, perceptron in zip(self.wavelets, self.between, strict=True):
            last = len(codes) == len(self.wavelets) - 1
            h, Z2 = wavelet(h, operator, (perceptron, self.after, self.norm, self.head) if last else (perceptron,))
            codes.append(Z2)
        return h, codes

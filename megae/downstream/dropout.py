"""Dropout of one matrix over and over, fast on CPU."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


class InputDropout:
    r"""Dropout of a fixed matrix: each call zeroes every cell with probability ``rate`` and scales the rest.

    .. math:: \tilde x_{ij} = x_{ij} b_{ij} / (1 - p), \qquad b_{ij} \sim \mathrm{Bernoulli}(1 - p)

    torch draws a whole number per cell, which on CPU takes longer than the layer behind it. At ``rate=0.5`` one
    random bit per cell is enough: sixty-four cells for each number drawn. Every call writes into the same memory, so
    what one call returned is gone with the next; the backward pass has to be done by then.

    Parameters
    ----------
    x : Tensor of shape (N, D)
    rate : float in [0, 1)
    seed : int
        Of the bits; other rates, and other devices than CPU, draw from torch's generator.
    """

    def __init__(self, x: Tensor, rate: float, seed: int) -> None:
        self._by_bits = rate == 0.5 and x.device.type == "cpu"
        self._scaled = 2.0 * x if self._by_bits else x
        self._buffer = torch.empty_like(x) if self._by_bits else None
        self._rate = rate
        self._rng = np.random.default_rng([seed, 1])

    def __call__(self) -> Tensor:
        x = self._scaled
        if self._buffer is None:
            return F.dropout(x, self._rate)
        packed = np.frombuffer(self._rng.bytes(-(-x.numel() // 8)), dtype=np.uint8)
        bits = np.unpackbits(packed, count=x.numel()).reshape(x.shape)
        return torch.mul(x, torch.from_numpy(bits), out=self._buffer)

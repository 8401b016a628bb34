"""The Chebyshev recurrences over parts of a graph, a block of columns at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from megae.kernels.halo_parts import Blocks, Part, spans
from megae.kernels.operator import OwnFilter

COLUMNS = 256
"""Columns filtered at a time, so that a part's memory does not grow with the signal's width."""


class InParts(OwnFilter):
    """The recurrences over the parts held here, a block of columns at a time."""

    _parts: Sequence[Part]
    _has_edges: bool
    _columns: int

    @property
    def has_edges(self) -> bool:
        """False for a graph without any edge; a property of the whole graph, the same for every part."""
        return self._has_edges

    @property
    def dtype(self) -> torch.dtype:
        return self._parts[0].matrix.dtype

    @abstractmethod
    def _scatter(self, X: Tensor) -> list[Tensor]:
        """Rows of each part on its device: (n, ...) -> (n_own, ...) each."""

    @abstractmethod
    def _gather(self, Y: Tensor, pieces: list[Tensor]) -> None:
        """Write the parts' rows to where they belong in ``Y``, the reverse of :meth:`_scatter`."""

    @abstractmethod
    def _exchange(self, blocks: list[Tensor]) -> None:
        """Fill the halo rows of each part's (n_own + n_halo, columns) block."""

    def bandwise(self, Z: Tensor, C: Tensor) -> Tensor:
        n, bands, h = Z.shape
        flat, Y = Z.reshape(n, bands * h), Z.new_empty((n, bands * h))
        weights = C.repeat_interleave(h, dim=0).T
        for span in spans(bands * h, self._columns):
            blocks = Blocks(self._parts, self._scatter(flat[:, span]), self._exchange)
            scales = [weights[:, span].to(T.device) for T in blocks.own]
            totals = [w[0] * T for w, T in zip(scales, blocks.own, strict=True)]
            for k in range(1, C.shape[1]):
                blocks.advance(1.0 if k == 1 else 2.0, 0.0 if k == 1 else 1.0)
                for total, w, T in zip(totals, scales, blocks.own, strict=True):
                    total.addcmul_(w[k].expand_as(T), T)
            self._gather(Y[:, span], totals)
        return Y.view(n, bands, h)

    def expand(self, Z: Tensor, C: Tensor) -> Tensor:
        n, _, h = Z.shape
        Y, weights = Z.new_empty((n, C.shape[0], h)), C.T.tolist()
        for span in spans(h, self._columns // C.shape[0]):
            blocks = Blocks(self._parts, self._scatter(Z[:, 0, span]), self._exchange)
            totals = [T.new_zeros((T.shape[0], C.shape[0], T.shape[1])) for T in blocks.own]
            for k, of_bands in enumerate(weights):
                if k > 0:
                    blocks.advance(1.0 if k == 1 else 2.0, 0.0 if k == 1 else 1.0)
                for total, T in zip(totals, blocks.own, strict=True):
                    for m, w in enumerate(of_bands):
                        total[:, m].add_(T, alpha=w)
            self._gather(Y[:, :, span], totals)
        return Y

    def contract(self, G: Tensor, C: Tensor) -> Tensor:
        """By Clenshaw's recurrence on the sum over m."""
        n, _, h = G.shape
        Y, weights = G.new_empty((n, h)), C.T.tolist()
        for span in spans(h, self._columns // C.shape[0]):
            inputs = self._scatter(G[:, :, span])
            blocks = Blocks(self._parts, [torch.zeros_like(g[:, 0]) for g in inputs], self._exchange)
            for k in reversed(range(C.shape[1])):
                if k < C.shape[1] - 1:
                    blocks.advance(1.0 if k == 0 else 2.0, 1.0)
                for g, b in zip(inputs, blocks.own, strict=True):
                    for m, w in enumerate(weights[k]):
                        b.add_(g[:, m], alpha=w)
            self._gather(Y[:, span], blocks.own)
        return Y.unsqueeze(1)

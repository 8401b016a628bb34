"""One vector per graph: a gated sum over its nodes."""

from __future__ import annotations

from torch import Tensor, nn


class GatedPooling(nn.Module):
    r"""Equation 7 of Li et al. (ICLR 2016): what to tell, and how much each node has a say.

    .. math:: h_G = \tanh\Bigl(\sum_v \mathrm{sigmoid}(W_i h_v + b_i) \odot \tanh(W_j h_v + b_j)\Bigr)

    Shapes
    ------
    h (B, n, inputs) and places that hold a node (B, n), bool -> (B, outputs)
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.gate = nn.Linear(inputs, outputs)
        self.content = nn.Linear(inputs, outputs)

    def forward(self, h: Tensor, filled: Tensor) -> Tensor:
        said = self.gate(h).sigmoid() * self.content(h).tanh()
        return (said * filled.unsqueeze(-1)).sum(dim=1).tanh()

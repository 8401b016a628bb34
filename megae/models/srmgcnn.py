"""sRMGCNN: a factorised table, whose factors diffuse over the graphs of rows and of columns."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from megae.kernels import FilterOperator, apply


class Diffusion(nn.Module):
    r"""T steps by which a factor moves on its graph.

    .. math::
        \tilde W^{(t)} &= \mathrm{ReLU}\Big(\sum_{k=0}^{K} T_k(L - I) W^{(t)} \Theta_k + b\Big) \\
        s^{(t+1)} &= \mathrm{LSTM}(\tilde W^{(t)}, s^{(t)}), \qquad
        W^{(t+1)} = W^{(t)} + \tanh(V c^{(t+1)} + d)

    with :math:`c` the cell of the LSTM's state s. V and d start at zero: before training nothing moves.

    Parameters
    ----------
    rank : int
    order : int
        K.
    features : int
        Width of the convolution and of the LSTM.
    steps : int
        T.

    Shapes
    ------
    factor (n, rank) in and out, over the n nodes of the operator
    """

    def __init__(self, rank: int, *, order: int = 4, features: int = 32, steps: int = 10) -> None:
        super().__init__()
        self.steps = steps
        self.register_buffer("bands", torch.eye(order + 1))
        self.convolve = nn.Linear((order + 1) * rank, features)
        self.recur = nn.LSTMCell(features, features)
        self.move = nn.Linear(features, rank)
        nn.init.zeros_(self.move.weight)
        nn.init.zeros_(self.move.bias)

    def convolution(self, factor: Tensor, operator: FilterOperator) -> Tensor:
        """(n, rank) -> (n, features)."""
        filtered = apply(operator, factor.unsqueeze(1), self.get_buffer("bands"))  # (n, K + 1, rank)
        return F.relu(self.convolve(filtered.flatten(1)))

    def forward(self, factor: Tensor, operator: FilterOperator) -> Tensor:
        state = None
        for _ in range(self.steps):
            state = self.recur(self.convolution(factor, operator), state)
            factor = factor + torch.tanh(self.move(state[1]))
        return factor


class SeparableRecurrentNetwork(nn.Module):
    r"""Separable recurrent multi-graph CNN: :math:`\hat X = W^{(T)} H^{(T)\top}`.

    Parameters
    ----------
    columns : Tensor of shape (E, rank)
        :math:`H^{(0)}`.
    column_operator : FilterOperator over the E columns
    order, features, steps : see :class:`Diffusion`
    ridge : float
        Of the least squares that start the rows.

    Shapes
    ------
    values (N, E), bool visible (N, E), output (N, E)
    """

    start: Tensor

    def __init__(
        self,
        columns: Tensor,
        column_operator: FilterOperator,
        *,
        order: int = 4,
        features: int = 32,
        steps: int = 10,
        ridge: float = 1e-2,
    ) -> None:
        super().__init__()
        rank = columns.shape[1]
        self.ridge = ridge
        self.column_operator = column_operator
        self.register_buffer("start", columns)
        self.rows = Diffusion(rank, order=order, features=features, steps=steps)
        self.columns = Diffusion(rank, order=order, features=features, steps=steps)

    def factors(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> tuple[Tensor, Tensor]:
        """:math:`W^{(T)}` (N, rank) and :math:`H^{(T)}` (E, rank)."""
        W = self.rows(least_squares(values, visible, self.start, self.ridge), operator)
        return W, self.columns(self.start, self.column_operator)

    def forward(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> Tensor:
        W, H = self.factors(values, visible, operator)
        return W @ H.T


def least_squares(values: Tensor, visible: Tensor, columns: Tensor, ridge: float) -> Tensor:
    r"""Rows that fit what is visible: :math:`w_i = (H_O^\top H_O + \rho I)^{-1} H_O^\top x_{iO}`.

    Parameters
    ----------
    values : Tensor of shape (N, E)
    visible : bool Tensor of shape (N, E)
    columns : Tensor of shape (E, rank)

    Returns
    -------
    Tensor of shape (N, rank); zeros where a row shows nothing
    """
    shown = visible.to(values.dtype)
    rank = columns.shape[1]
    outer = (columns.unsqueeze(2) * columns.unsqueeze(1)).flatten(1)  # (E, rank^2)
    gram = (shown @ outer).view(-1, rank, rank) + ridge * torch.eye(rank, dtype=values.dtype, device=values.device)
    return torch.linalg.solve(gram, ((values * shown) @ columns).unsqueeze(2)).squeeze(2)


def dirichlet(x: Tensor, operator: FilterOperator) -> Tensor:
    r"""Smoothness of a table over a graph of its rows, :math:`\mathrm{tr}(X^\top L X)`."""
    return (x * apply(operator, x.unsqueeze(1), torch.tensor([[1.0, 1.0]])).squeeze(1)).sum()

"""GC-MC: cells as rating levels, messages along them, and a bilinear decoder of the level."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from megae.kernels import FilterOperator, apply

CHUNK_SCORES = 1 << 22
"""Scores (cells times levels) held at once where nothing is learnt: 16 MB for each of a few arrays."""


class Levels:
    """The levels of each column, by which values become ratings.

    A value that makes up at least 1/R of a column is a level of its own; the others are cut at quantiles into bins of
    equal mass. Thresholds lie half way between the means of neighbouring ones. A level stands for the mean of the
    training values it holds. Columns of up to R distinct values keep them all.

    Parameters
    ----------
    centres : ndarray of shape (E, R), ascending; unused ones repeat the last
    thresholds : ndarray of shape (E, R - 1)
        A value above r of them is of level r; infinite where a column has fewer levels.
    count : ndarray of shape (E,)
        How many levels each column has.
    """

    def __init__(self, centres: np.ndarray, thresholds: np.ndarray, count: np.ndarray) -> None:
        self.centres, self.thresholds, self.count = centres, thresholds, count

    @classmethod
    def learn(cls, values: np.ndarray, shown: np.ndarray, most: int) -> Levels:
        """At most ``most`` levels for each column of training values (N, E), where ``shown``."""
        found = [_levels(values[shown[:, j], j], most) for j in range(values.shape[1])]
        count = np.array([len(centres) for centres, _ in found])
        gaps = [(0, int(count.max()) - k) for k in count]
        return cls(
            np.stack([np.pad(centres, gap, mode="edge") for (centres, _), gap in zip(found, gaps, strict=True)]),
            np.stack([np.pad(t, gap, constant_values=np.inf) for (_, t), gap in zip(found, gaps, strict=True)]),
            count,
        )

    def shares(self, values: np.ndarray, shown: np.ndarray) -> np.ndarray:
        """Share of each level among the shown values of each column, (E, R)."""
        E, R = self.centres.shape
        counts = np.zeros((E, R))
        for j in range(E):
            counts[j] = np.bincount(np.searchsorted(self.thresholds[j], values[shown[:, j], j]), minlength=R)
        return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)


def _levels(values: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Centres (k,) and thresholds (k - 1,) of one column."""
    distinct, times = np.unique(values, return_counts=True)
    if len(distinct) <= most:
        return distinct, (distinct[1:] + distinct[:-1]) / 2
    heavy = times * most >= len(values)
    rest = np.repeat(distinct[~heavy], times[~heavy])
    bins = np.array_split(rest, max(1, most - int(heavy.sum())))
    first = np.unique(np.concatenate([distinct[heavy], [b.mean() for b in bins if len(b)]]))
    thresholds = (first[1:] + first[:-1]) / 2
    level = np.searchsorted(thresholds, values)
    total, count = np.bincount(level, values, len(first)), np.bincount(level, minlength=len(first))
    return np.where(count > 0, total / np.maximum(count, 1), first), thresholds


class MatrixCompletionNetwork(nn.Module):
    r"""Graph convolutional matrix completion, for rows that need not have been seen in training.

    .. math::
        h_i &= \mathrm{ReLU}\Big(\sum_r \sum_{j \in N_r(i)} \tfrac{\sqrt E}{|N(i)|} W_r e_j\Big), \qquad
        h_j = \mathrm{ReLU}\Big(\sum_r \sum_{i \in N_r(j)} \tfrac{1}{|N(j)|} w_r\Big) \\
        z_i &= W h_i + W_2\, \mathrm{ReLU}(W_1 f_i + b), \qquad
        p(x_{ij} = r) = \mathrm{softmax}_r\, z_i^\top \Big(\sum_s a_{rs} P_s\Big) z_j

    :math:`N_r(i)` are the columns in which row i shows level r; the factor :math:`\sqrt E` keeps the mean of many
    messages from vanishing in wide tables. :math:`W_r = \sum_{s \le r} T_s` (``sum``), or each
    level has its own block of the code (``stack``).

    Parameters
    ----------
    levels : Levels
    shares : ndarray of shape (E, R)
        Share of each level among the training cells of each column.
    hidden, code, side_hidden : int
        Widths of h, of z and of the side information.
    bases : int
        Number of matrices :math:`P_s`.
    dropout : float
        Node dropout on the columns' messages, and dropout on h.
    accumulation : "sum" or "stack"

    Shapes
    ------
    values (N, E), bool visible (N, E); scores (N, E, R)
    """

    thresholds: Tensor
    centres: Tensor
    unused: Tensor
    shares: Tensor

    def __init__(
        self,
        levels: Levels,
        shares: np.ndarray,
        *,
        hidden: int = 500,
        code: int = 75,
        side_hidden: int = 64,
        bases: int = 2,
        dropout: float = 0.7,
        accumulation: str = "stack",
    ) -> None:
        super().__init__()
        if accumulation not in ("sum", "stack"):
            raise ValueError(f"accumulation must be 'sum' or 'stack', got {accumulation!r}")
        E, R = levels.centres.shape
        self.accumulation, self.dropout, self.spread = accumulation, dropout, float(np.sqrt(E))
        width = hidden if accumulation == "sum" else max(1, hidden // R)
        out = hidden if accumulation == "sum" else width * R
        for name, array in (("thresholds", levels.thresholds), ("centres", levels.centres), ("shares", shares)):
            self.register_buffer(name, torch.as_tensor(array, dtype=torch.float32))
        self.register_buffer("unused", torch.from_numpy(np.arange(R) >= levels.count[:, None]))
        self.column_messages = nn.Parameter(_glorot(R, E, width))
        self.row_messages = nn.Parameter(_glorot(R, 1, width))
        self.side_row = nn.Linear(2 * E, side_hidden)
        self.side_column = nn.Parameter(_glorot(E, side_hidden))
        self.dense_row = nn.Linear(out + side_hidden, code)
        self.dense_column = nn.Linear(out + side_hidden, code)
        self.bases = nn.Parameter(torch.stack([nn.init.orthogonal_(torch.empty(code, code)) for _ in range(bases)]))
        self.mixture = nn.Parameter(_glorot(bases, R))

    def level(self, values: Tensor) -> Tensor:
        """(N, E) values -> (N, E) levels, int64."""
        return torch.searchsorted(self.thresholds, values.T.contiguous()).T

    def expectation(self, scores: Tensor) -> Tensor:
        """Mean of the levels' centres under softmax(scores): (N, E, R) -> (N, E)."""
        return (scores.softmax(dim=-1) * self.centres).sum(dim=-1)

    def rows(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> Tensor:
        """z_i, (N, code)."""
        shown = visible.to(values.dtype)
        rated = self._rated(self.level(values), shown) * (self.spread / shown.sum(dim=1).clamp_min(1.0))[None, :, None]
        messages = self._messages(self.column_messages)  # (R, E, width)
        if self.training and self.dropout > 0:
            messages = messages * F.dropout(messages.new_ones(messages.shape[1]), self.dropout)[:, None]
        h = F.relu(self._accumulate(torch.bmm(rated, messages)))
        side = F.relu(self.side_row(neighbours(values * shown, shown, operator)))
        return self.dense_row(torch.cat([F.dropout(h, self.dropout, self.training), side], dim=1))

    def columns(self) -> Tensor:
        """z_j, (E, code)."""
        heard = self.shares.T.unsqueeze(-1) * self._messages(self.row_messages)  # (R, E, width)
        h = F.relu(self._accumulate(heard))
        side = F.relu(self.side_column)
        return self.dense_column(torch.cat([F.dropout(h, self.dropout, self.training), side], dim=1))

    def pairs(self, rows: Tensor, columns: Tensor) -> Tensor:
        """z_i^T P_s z_j, (S, N, E)."""
        return rows @ self.bases @ columns.T

    def forward(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> Tensor:
        """Expected values (N, E)."""
        rows, columns = self.rows(values, visible, operator), self.columns()
        E, R = self.centres.shape
        parts = []
        for some in rows.split(max(1, CHUNK_SCORES // (E * R))):
            scores = torch.einsum("sne,sr->ner", self.pairs(some, columns), self.mixture)
            parts.append(self.expectation(scores.masked_fill(self.unused, -torch.inf)))
        return torch.cat(parts)

    def loss(self, values: Tensor, visible: Tensor, asked: Tensor, operator: FilterOperator) -> Tensor:
        """Mean cross-entropy of the levels of the asked cells."""
        pairs = self.pairs(self.rows(values, visible, operator), self.columns())
        scores = pairs[:, asked].T @ self.mixture  # (cells, R)
        column = asked.nonzero()[:, 1]
        return F.cross_entropy(scores.masked_fill(self.unused[column], -torch.inf), self.level(values)[asked])

    def _messages(self, weights: Tensor) -> Tensor:
        return weights.cumsum(dim=0) if self.accumulation == "sum" else weights

    def _accumulate(self, heard: Tensor) -> Tensor:
        """(R, n, width) -> (n, hidden)."""
        return heard.sum(dim=0) if self.accumulation == "sum" else heard.transpose(0, 1).flatten(1)

    def _rated(self, level: Tensor, shown: Tensor) -> Tensor:
        """(R, N, E): one where a shown cell has that level."""
        R = self.centres.shape[1]
        return torch.stack([(level == r) * shown for r in range(R)])


def neighbours(values: Tensor, shown: Tensor, operator: FilterOperator) -> Tensor:
    """Mean of what neighbours show of each column, and how much they show: (N, E) each -> (N, 2 E)."""
    E = values.shape[1]
    around = torch.tensor([[0.0, -1.0]])
    both = apply(operator, torch.cat([values, shown], dim=1).unsqueeze(1), around).squeeze(1)
    return torch.cat([both[:, :E] / both[:, E:].clamp_min(1e-6), both[:, E:]], dim=1)


def _glorot(*shape: int) -> Tensor:
    return (
        nn.init.xavier_uniform_(torch.empty(*shape[-2:]))
        if len(shape) == 2
        else torch.stack([nn.init.xavier_uniform_(torch.empty(*shape[1:])) for _ in range(shape[0])])
    )

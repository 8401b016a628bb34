"""Generator, discriminator, hints and losses of GAIN (Yoon, Jordon and van der Schaar, ICML 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

HINTS = ("code", "paper")


class Perceptron(nn.Module):
    """Values and a mask (or hints) side by side -> one logit per cell; generator and discriminator are both one.

    ``relu(relu([x, m] W1 + b1) W2 + b2) W3 + b3`` with normal weights of variance 2 / (number of inputs), zero biases.

    Parameters
    ----------
    width : int
        Columns E.
    hidden : int
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(2 * width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=(2 / layer.in_features) ** 0.5)
                nn.init.zeros_(layer.bias)

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """(N, E), (N, E) -> logits (N, E)."""
        return self.layers(torch.cat([values, mask], dim=-1))


def all_but_one(rows: int, column: Tensor) -> Tensor:
    """B of the paper: in each row one column, any with the same chance, is not told, and all others are.

    Parameters
    ----------
    rows : int
        N.
    column : int64 Tensor of shape (E,)
        Column of the table that each encoded one belongs to. Those of one category are told or not together: one
        would give the others away.

    Returns
    -------
    Tensor of shape (N, E), 0 in the column that is not told, else 1
    """
    which = torch.randint(int(column.max()) + 1, (rows, 1), device=column.device)
    return (column != which).float()


def hint_vector(mask: Tensor, told: Tensor, form: str = "code") -> Tensor:
    """What the discriminator is told of the mask M.

    Parameters
    ----------
    mask : Tensor of shape (N, E), 1 where observed
    told : Tensor of shape (N, E), 1 where the discriminator is told: B
        In the authors' code each cell with probability ``hint_rate``, in the paper :func:`all_but_one`.
    form : "code" or "paper"
        ``B * M`` of the authors' code, which never tells that a cell is missing, or the paper's
        ``B * M + (1 - B) / 2``, where one half means not told.
    """
    return told * mask if form == "code" else told * mask + 0.5 * (1 - told)


def _mean(values: Tensor, counted: Tensor | None) -> Tensor:
    return values.mean() if counted is None else (values * counted).sum() / counted.sum().clamp(min=1.0)


def discriminator_loss(logits: Tensor, mask: Tensor, counted: Tensor | None = None) -> Tensor:
    """``-mean(M log D + (1 - M) log(1 - D))``, over the cells ``counted`` (N, E) or all."""
    return _mean(binary_cross_entropy_with_logits(logits, mask, reduction="none"), counted)


def adversarial_loss(logits: Tensor, mask: Tensor, counted: Tensor | None = None) -> Tensor:
    """``-mean((1 - M) log D)``: the generator wants filled cells taken for observed ones."""
    return _mean((1 - mask) * softplus(-logits), counted)


def reconstruction_loss(made: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Mean squared error over the observed cells."""
    return (mask * (made - values)).square().sum() / mask.sum().clamp(min=1.0)

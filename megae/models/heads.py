"""From a network's raw outputs to values in range, and the loss that fits each kind of column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from megae.columns import Column

RAW_LIMIT = 30.0
"""Raw outputs of bounded columns are held within this, far outside what float32 can tell from 0 or 1."""


class OutputHead(nn.Module):
    r"""Links and losses, one rule per kind of column.

    =========== ================================== ========================================
    kind        value for raw output o             loss of a hidden cell x
    =========== ================================== ========================================
    continuous  mean + sd o                        ((x - value) / unit)^2
    binary      sigmoid(logit(mean) + o)           squared error, or cross-entropy
    categorical softmax(log prior + o)             cross-entropy
    count       positive, mean + sd o near the mean quasi-Poisson deviance
    =========== ================================== ========================================

    Values and truth are passed standardised, (value - mean) / sd, so that nothing is lost to float32. With o = 0 every
    value is the column's training mean. ``loss`` is the root of the mean over squared-error cells plus the mean over
    the others, each weighted by its share of the hidden cells.

    Parameters
    ----------
    columns : columns in encoded order, see :mod:`megae.columns`
    mean, scale, unit : ndarray of shape (E,)
        Training mean, standard deviation, and the unit errors count in.
    binary_loss : "brier" or "cross-entropy"
    """

    mean: Tensor
    scale: Tensor
    squared: Tensor
    is_binary: Tensor
    is_categorical: Tensor
    is_count: Tensor
    weight: Tensor
    logit: Tensor

    def __init__(
        self,
        columns: Sequence[Column],
        mean: np.ndarray,
        scale: np.ndarray,
        unit: np.ndarray,
        binary_loss: str = "brier",
    ) -> None:
        super().__init__()
        if binary_loss not in ("brier", "cross-entropy"):
            raise ValueError(f"binary_loss must be 'brier' or 'cross-entropy', got {binary_loss!r}")
        kinds = np.concatenate([np.repeat(c.kind, c.stop - c.start) for c in columns])
        self.kinds = kinds
        self.groups = [slice(c.start, c.stop) for c in columns if c.kind == "categorical"]
        self.binary_loss = binary_loss
        typical = np.sqrt(np.mean((scale / unit)[scale > 0] ** 2)) if (scale > 0).any() else 1.0
        moved = {"mean": mean, "logit": self._logits(mean)}
        for name, array in (moved | {"scale": scale, "weight": scale / (unit * typical)}).items():
            self.register_buffer(name, torch.as_tensor(array, dtype=torch.float32))
        for kind in ("binary", "categorical", "count"):
            self.register_buffer(f"is_{kind}", torch.from_numpy(kinds == kind), persistent=False)
        squared = (kinds == "continuous") | ((kinds == "binary") & (binary_loss == "brier"))
        self.register_buffer("squared", torch.from_numpy(squared), persistent=False)
        self.any_squared = bool(squared.any())
        self.plain = bool((kinds == "continuous").all())

    def _logits(self, mean: np.ndarray) -> np.ndarray:
        safe = np.clip(mean, 1e-4, 1 - 1e-4)
        logit = np.where(self.kinds == "binary", np.log(safe) - np.log1p(-safe), 0.0)
        return np.where(self.kinds == "categorical", np.log(safe), logit)

    def recentre(self, mean: np.ndarray) -> None:
        """Take other training means, (E,), and leave the scales."""
        self.mean.copy_(torch.as_tensor(mean))
        self.logit.copy_(torch.as_tensor(self._logits(mean)))

    def forward(self, raw: Tensor) -> Tensor:
        """(N, E) raw -> (N, E) standardised values."""
        if self.plain:
            return raw
        values = raw
        bounded = (raw + self.logit).clamp(-RAW_LIMIT, RAW_LIMIT)
        if (self.kinds == "binary").all():
            return self._standardise(bounded.sigmoid())
        if (self.kinds == "binary").any():
            values = torch.where(self.is_binary, self._standardise(bounded.sigmoid()), values)
        if (self.kinds == "count").any():
            values = torch.where(self.is_count, self._standardise(self._count(raw)), values)
        if self.groups:
            parts = torch.zeros_like(values)
            for group in self.groups:
                parts[:, group] = bounded[:, group].softmax(dim=1)
            values = torch.where(self.is_categorical, self._standardise(parts), values)
        return values

    def unlink(self, values: Tensor) -> Tensor:
        """(N, E) standardised values -> the raw outputs that give them.

        Bounded columns come no nearer to a bound than a tenth of the way that their mean is from it: no probability is
        ever 0 or 1, and no count 0.
        """
        if self.plain:
            return values
        raw, restored = values, self._restore(values)
        if (self.kinds == "binary").any() or self.groups:
            mean = self.mean.clamp(1e-4, 1 - 1e-4)
            inside = torch.minimum(torch.maximum(restored, mean / 10), 1 - (1 - mean) / 10)
            raw = torch.where(self.is_binary, inside.logit() - self.logit, raw)
            raw = torch.where(self.is_categorical, inside.log() - self.logit, raw)
        if (self.kinds == "count").any():
            mean = self.mean.clamp_min(1e-6)
            share = (restored / mean).clamp_min(0.1)
            raw = torch.where(self.is_count, torch.where(share > 1, share - 1, share.log()) * mean / self.scale, raw)
        return raw

    def _standardise(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.scale

    def _restore(self, values: Tensor) -> Tensor:
        return values * self.scale + self.mean

    def loss(
        self, values: Tensor, truth: Tensor, hidden: Tensor, total: Callable[[Tensor], Tensor] = lambda sums: sums
    ) -> Tensor:
        """Scalar loss over the hidden cells; zero where none is hidden.

        Parameters
        ----------
        values, truth : Tensor of shape (N, E), standardised
        hidden : bool Tensor of shape (N, E)
        total : callable
            Makes sums over the rows here, of shape (k,), sums over the rows of all processes; applied before the root
            and the divisions.
        """
        asked = hidden.to(values.dtype)
        sums = {"count": asked.sum()}
        if self.any_squared:
            on_squares = asked * self.squared
            squares = ((values - truth) * self.weight).square()
            sums |= {"rooted": on_squares.sum(), "squares": (squares * on_squares).sum()}
        if not self.plain:
            sums |= self._other_sums(self._restore(values), self._restore(truth), hidden, asked)
        sums = dict(zip(sums, total(torch.stack(list(sums.values()))), strict=True))
        count = sums.pop("count").clamp_min(1)
        loss = values.new_zeros(())
        if "rooted" in sums:
            rooted = sums.pop("rooted")
            loss = _root(sums.pop("squares") / rooted.clamp_min(1)) * (rooted / count)
        for cells in sums.values():
            loss = loss + cells / count
        return loss

    def _other_sums(self, values: Tensor, truth: Tensor, hidden: Tensor, asked: Tensor) -> dict[str, Tensor]:
        """Sums over the hidden cells of the losses that are not squared errors, by kind."""
        sums = {}
        if (self.kinds == "binary").any() and self.binary_loss == "cross-entropy":
            likelihood = (1 - (values - truth).abs()).clamp(1e-7, 1.0)
            sums["binary"] = -(likelihood.log() * (asked * self.is_binary)).sum()
        if self.groups:
            nll = -truth * values.clamp_min(1e-7).log()
            sums["categorical"] = (nll * (asked * self.is_categorical)).sum()
        if (self.kinds == "count").any():
            sums["counts"] = torch.where(hidden & self.is_count, self._deviance(values, truth), 0.0).sum()
        return sums

    def _count(self, raw: Tensor) -> Tensor:
        """mean * exp(o sd/mean) below the mean, linear above: positive, and mean + sd o to first order."""
        mean = self.mean.clamp_min(1e-6)
        step = raw * self.scale / mean
        return mean * torch.where(step > 0, 1 + step, step.clamp(-RAW_LIMIT, 0).exp())

    def _deviance(self, values: Tensor, truth: Tensor) -> Tensor:
        """Quasi-Poisson deviance, scaled so that near the mean it equals the standardised squared error."""
        mu = values.clamp_min(1e-6)
        x = truth.clamp_min(0)
        return (
            2
            * self.mean.clamp_min(1e-6)
            / self.scale.clamp_min(1e-6).square()
            * (torch.xlogy(x, x) - torch.xlogy(x, mu) - x + mu)
        )


def _root(mean_square: Tensor) -> Tensor:
    """Square root with a finite gradient at 0."""
    return (mean_square + 1e-12).sqrt()

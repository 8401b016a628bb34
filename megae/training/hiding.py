"""Hiding observed cells again: the only way a model here ever learns or is judged."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class HidingRates:
    """How often cells are hidden: by column, and whole rows at once.

    Parameters
    ----------
    columns : ndarray of shape (D,)
        Probability per cell of each column.
    rows : float
        Probability that a row loses every cell.
    """

    columns: np.ndarray
    rows: float = 0.0


def rates_like_holes(cells: Sequence[np.ndarray], hole_rate: float | str, default: float = 0.1) -> HidingRates:
    """Rates that look like the holes to be filled.

    With ``hole_rate="auto"`` each column is hidden as often as it has holes in those ``cells`` that have any at all
    (complete training graphs say nothing about holes), not less than a tenth of the mean over the columns that have
    any, and whole rows as often as whole rows are missing. Without any hole, every column is hidden at rate
    ``default``.

    Parameters
    ----------
    cells : arrays of shape (N_i, D), NaN in holes
    hole_rate : "auto", or a rate in (0, 1) for all columns
    """
    D = cells[0].shape[1]
    if hole_rate != "auto":
        rate = np.nan if isinstance(hole_rate, str) else float(hole_rate)
        if not 0 < rate < 1:
            raise ValueError(f"hole_rate must be 'auto' or lie strictly between 0 and 1, got {hole_rate!r}")
        return HidingRates(np.full(D, rate))
    holes = np.concatenate([np.isnan(c) for c in cells if np.isnan(c).any()] or [np.isnan(c) for c in cells])
    empty = holes.all(axis=1)
    rows = float(empty.mean()) if holes.size else 0.0
    share = holes[~empty].mean(axis=0) if (~empty).any() else np.zeros(D)
    if not (share > 0).any():
        return HidingRates(np.full(D, default), min(rows, 0.5))
    typical = share[share > 0].mean()
    return HidingRates(np.clip(np.maximum(share, typical / 10), 0.02, 0.8), min(rows, 0.5))


def hide(
    observed: Tensor, column: Tensor, rates: Tensor, rows: float, generator: torch.Generator, jitter: float = 1.0
) -> Tensor:
    """Choose cells to hide among the observed ones.

    Parameters
    ----------
    observed : bool Tensor of shape (N, E)
    column : int64 Tensor of shape (E,)
        Column of the table each encoded column belongs to; a one-hot group is hidden as one.
    rates : Tensor of shape (D,)
    rows : float
    jitter : float
        Factor on the rates.

    Returns
    -------
    bool Tensor of shape (N, E), a subset of ``observed``
    """
    n, D = observed.shape[0], rates.numel()
    draw = torch.rand((n, D), generator=generator, device=observed.device) < (rates * jitter).clamp(max=0.95)
    if rows > 0:
        draw |= torch.rand((n, 1), generator=generator, device=observed.device) < rows
    if column.numel() != D:
        draw = draw[:, column]
    return observed & draw


def step_generator(seed: int, step: int, device: torch.device) -> torch.Generator:
    """A generator that depends on the seed and the step alone, so that a resumed run draws what the first would."""
    mixed = np.random.SeedSequence([seed, step]).generate_state(2, np.uint32)
    return torch.Generator(device).manual_seed(int(mixed[0]) << 31 ^ int(mixed[1]))


@contextlib.contextmanager
def seeded_draws(seed: int, step: int, device: torch.device, rank: int = 0) -> Iterator[None]:
    """Give dropout its own draws, others in every process, and leave the global generators as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        drawn = int(np.random.SeedSequence([seed, step, 3, *([rank] if rank else [])]).generate_state(1)[0])
        torch.default_generator.manual_seed(drawn)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(drawn)
        yield

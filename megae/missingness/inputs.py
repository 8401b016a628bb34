"""What every mechanism checks and draws."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TypeAlias

import numpy as np

RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None


def check_rate(rate: float) -> float:
    """The rate as a float, refused unless it lies strictly between 0 and 1."""
    if not isinstance(rate, Real) or not 0 < rate < 1:
        raise ValueError(f"rate must be a number strictly between 0 and 1, got {rate!r}")
    return float(rate)


def check_slope(slope: float) -> float:
    """The slope as a float, refused where it is zero or out of proportion."""
    if not isinstance(slope, Real) or not 0 < abs(slope) <= 100:
        raise ValueError(
            f"slope must be a number between -100 and 100 other than 0, got {slope!r}; for holes that depend on "
            "nothing use mcar"
        )
    return float(slope)


def check_finite(cells: np.ndarray, names: list[str]) -> None:
    """Refuse infinite cells: no mean, no odds.

    Parameters
    ----------
    cells : ndarray of shape (N, D)
    names : D names for the message
    """
    infinite = np.isinf(cells)
    if infinite.any():
        i, j = np.argwhere(infinite)[0]
        raise ValueError(f"X holds {cells[i, j]} in row {i} of column {names[j]!r}; replace it by a number or NaN")


_OWN_STREAM = int.from_bytes(b"holes", "big")


class Uniforms:
    """Uniform numbers in [0, 1), multiples of 2^-53, the same on every platform for the same integer seed.

    An integer seeds a PCG64, whose stream numpy keeps fixed, rather than whatever ``default_rng`` takes at the time.
    The stream is not the one ``default_rng`` has for that integer: a table drawn from ``default_rng(0)`` and holes with
    ``random_state=0`` would share their randomness, and no mechanism would be what it says.
    """

    def __init__(self, random_state: RandomState) -> None:
        if isinstance(random_state, (np.random.Generator, np.random.RandomState)):
            self._source: np.random.Generator | np.random.RandomState = random_state
        elif random_state is None:
            self._source = np.random.Generator(np.random.PCG64())
        elif isinstance(random_state, Integral) and not isinstance(random_state, bool) and random_state >= 0:
            seeds = np.random.SeedSequence([_OWN_STREAM, int(random_state)])
            self._source = np.random.Generator(np.random.PCG64(seeds))
        else:
            raise ValueError(
                f"random_state must be an integer >= 0, a numpy Generator or RandomState, or None, got {random_state!r}"
            )

    def draw(self, *shape: int) -> np.ndarray:
        """Float64 ndarray of that shape."""
        return self._source.random(shape)

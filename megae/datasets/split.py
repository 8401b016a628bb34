"""Divide graphs into training, validation and test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def split_indices(
    n: int,
    fractions: Sequence[float] = (0.7, 0.1, 0.2),
    random_state: int | np.random.Generator | None = None,
) -> tuple[np.ndarray, ...]:
    """Shuffle ``range(n)`` and cut it into consecutive parts.

    Part ``i`` ends at ``round(n * (f_0 + ... + f_i))``, so the parts are disjoint and cover everything.

    Parameters
    ----------
    n : int
        How many graphs there are.
    fractions : sequence of float, shape (P,)
        Share of each part; they sum to 1.
    random_state : int, numpy Generator or None
        Where the shuffle comes from; None takes fresh entropy.

    Returns
    -------
    tuple of P int ndarrays
        Sorted indices of each part.

    Examples
    --------
    >>> [len(part) for part in split_indices(1797, random_state=0)]
    [1258, 180, 359]
    """
    shares = np.asarray(fractions, dtype=float)
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    if shares.ndim != 1 or shares.size == 0 or (shares < 0).any() or not np.isclose(shares.sum(), 1.0):
        raise ValueError(f"fractions must be non-negative and sum to 1, got {tuple(fractions)}")
    order = np.random.default_rng(random_state).permutation(n)
    cuts = np.rint(n * np.cumsum(shares)[:-1]).astype(int)
    return tuple(np.sort(part) for part in np.split(order, cuts))

"""Nodes about which nothing is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from megae.missingness.inputs import RandomState, Uniforms, check_rate
from megae.tables import read_table


def whole_node(X: Any, rate: float, random_state: RandomState = None) -> np.ndarray:
    """Hide whole rows: a row keeps all its observed cells or loses them all, whatever it holds.

    Parameters
    ----------
    X : ndarray, DataFrame, tensor or sparse matrix of shape (N, D)
        NaN are old holes.
    rate : float in (0, 1)
        Probability that a row goes missing, hence also that an observed cell does.
    random_state : int, numpy Generator or RandomState, or None

    Returns
    -------
    bool ndarray of shape (N, D)
        True where an observed cell goes missing.

    Examples
    --------
    >>> import numpy as np
    >>> from megae.missingness import whole_node
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> holes = whole_node(X, rate=0.5, random_state=0)
    >>> np.where(holes, np.nan, X)
    array([[nan, nan, nan],
           [ 3.,  4.,  5.],
           [ 6.,  7.,  8.],
           [nan, nan, nan]])
    """
    rate = check_rate(rate)
    cells = read_table(X).cells
    return ~np.isnan(cells) & (Uniforms(random_state).draw(cells.shape[0], 1) < rate)

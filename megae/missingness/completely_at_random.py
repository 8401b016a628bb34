"""Missing completely at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from megae.missingness.inputs import RandomState, Uniforms, check_rate
from megae.tables import read_table


def mcar(X: Any, rate: float, random_state: RandomState = None) -> np.ndarray:
    """Hide each observed cell with the same probability, whatever it or the others hold.

    Parameters
    ----------
    X : ndarray, DataFrame, tensor or sparse matrix of shape (N, D)
        NaN are old holes.
    rate : float in (0, 1)
        Probability that an observed cell goes missing.
    random_state : int, numpy Generator or RandomState, or None

    Returns
    -------
    bool ndarray of shape (N, D)
        True where an observed cell goes missing.

    Examples
    --------
    >>> import numpy as np
    >>> from megae.missingness import mcar
    >>> X = np.arange(12.0).reshape(4, 3)
    >>> holes = mcar(X, rate=0.3, random_state=1)
    >>> np.where(holes, np.nan, X)
    array([[ 0.,  1., nan],
           [ 3.,  4., nan],
           [nan,  7., nan],
           [ 9., 10., 11.]])
    """
    rate = check_rate(rate)
    cells = read_table(X).cells
    return ~np.isnan(cells) & (Uniforms(random_state).draw(*cells.shape) < rate)

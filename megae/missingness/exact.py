r"""A logistic model whose probabilities are the same bits on every platform.

A mask is decided by comparing uniform numbers with probabilities, so one differing bit may move a hole. ``exp`` differs
in the last bit between mathematics libraries; sums and matrix products differ with the order of their terms; rounding a
probability afterwards makes a difference rarer but larger, and moves as many holes. So only operations are used whose
result IEEE 754 fixes (addition, multiplication, division, square root, rounding, scaling by powers of two), one at a
time, and whatever is summed is rounded to multiples of a power of two first, so that its sum has no rounding error and
no order.
"""

from __future__ import annotations

from math import factorial

import numpy as np

GRAIN = 2.0**32
"""Probabilities are multiples of 1 / GRAIN; int64 then sums 2^31 of them exactly."""

_FLAT = 40.0
"""Log-odds beyond which a probability is 0 or 1 to within 1 / GRAIN by far."""

_LN2_HIGH, _LN2_LOW = 45426 / 65536, 1.4286068203094172e-06
_TAYLOR = [1 / factorial(n) for n in range(12)]
_BLOCK = 2**14
"""Cells worked on at once; columns are independent, so this changes speed alone."""


def sigmoid(t: np.ndarray) -> np.ndarray:
    r"""Logistic function :math:`1 / (1 + e^{-t})`, to a relative 1e-14; beyond \|t\| = 40 it is held.

    With :math:`e^{-|t|} = 2^k e^r`, :math:`|r| \le \ln 2 / 2`, the second factor by its Taylor polynomial.

    Parameters
    ----------
    t : ndarray, any shape

    Returns
    -------
    ndarray of the same shape
    """
    x = -np.minimum(np.abs(t), _FLAT)
    k = np.rint(x * 1.4426950408889634)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    power = np.full_like(r, _TAYLOR[-1])
    for coefficient in _TAYLOR[-2::-1]:
        power *= r
        power += coefficient
    power = np.ldexp(power, k.astype(np.int32))
    return np.where(t >= 0, 1.0, power) / (1.0 + power)


def grains(values: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Sum of each column of values in [0, 1], rounded to multiples of 1 / GRAIN: exact, in any order.

    Parameters
    ----------
    values : ndarray of shape (N, D)
    where : bool ndarray of shape (N, D)
        Cells that count.

    Returns
    -------
    int64 ndarray of shape (D,), in units of 1 / GRAIN
    """
    return np.where(where, np.rint(values * GRAIN), 0.0).astype(np.int64).sum(axis=0)


def standardize(cells: np.ndarray) -> np.ndarray:
    """Columns with mean 0 and variance 1 over their observed cells; holes count as the mean, constant columns as 0.

    Parameters
    ----------
    cells : ndarray of shape (N, D), NaN in holes, no infinity

    Returns
    -------
    ndarray of shape (N, D), finite
    """
    observed = ~np.isnan(cells)
    half = np.where(observed, cells, 0.0) * 0.5  # so that no difference overflows
    low = np.where(observed, half, np.inf).min(axis=0, initial=np.inf)
    high = np.where(observed, half, -np.inf).max(axis=0, initial=-np.inf)
    varies = high > low
    low, width = np.where(varies, low, 0.0), np.where(varies, high, 1.0) - np.where(varies, low, 0.0)
    unit = np.where(observed & varies, half - low, 0.0) / width
    unit = np.clip(unit, 0.0, 1.0)
    count = np.maximum(observed.sum(axis=0), 1) * GRAIN
    centred = np.where(observed & varies, unit - grains(unit, observed) / count, 0.0)
    spread = np.sqrt(grains(centred * centred, observed) / count)
    return centred / np.where(spread > 0, spread, 1.0)


def exact_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Matrix product without rounding error, so that no library's order of summation shows.

    Parameters
    ----------
    left : ndarray of shape (N, K)
        Standardised; rounded to multiples of 2^-16 and held within 64.
    right : ndarray of shape (K, D)
        Multiples of 2^-8 within 1. Partial sums are then multiples of 2^-24 below 64 K, which 53 bits hold.

    Returns
    -------
    ndarray of shape (N, D)
    """
    return (np.rint(np.clip(left, -64.0, 64.0) * 2.0**16) * 2.0**-16) @ right


def logistic_holes(score: np.ndarray, observed: np.ndarray, rate: float, uniforms: np.ndarray) -> np.ndarray:
    r"""Holes with probability :math:`\sigma(a_j + s_{ij})`, the intercept :math:`a_j` solved for the rate.

    .. math:: \frac{1}{n_j} \sum_{i \text{ observed}} \sigma(a_j + s_{ij}) = \text{rate} \pm 2^{-32}

    Parameters
    ----------
    score : ndarray of shape (N, D)
    observed : bool ndarray of shape (N, D)
    rate : float in (0, 1)
    uniforms : ndarray of shape (N, D)

    Returns
    -------
    bool ndarray of shape (N, D), a subset of ``observed``
    """
    n, D = score.shape
    holes = np.zeros((n, D), dtype=bool)
    width = max(1, _BLOCK // max(n, 1))
    for start in range(0, D, width):
        block = slice(start, start + width)
        p = probabilities(score[:, block], observed[:, block], rate)
        holes[:, block] = observed[:, block] & (uniforms[:, block] < p)
    return holes


def probabilities(score: np.ndarray, observed: np.ndarray, rate: float) -> np.ndarray:
    """Probabilities of :func:`logistic_holes`: Newton's method, by bisection where it leaves the bracket.

    Parameters
    ----------
    score : ndarray of shape (N, D)
    observed : bool ndarray of shape (N, D)
    rate : float in (0, 1)

    Returns
    -------
    ndarray of shape (N, D), multiples of 1 / GRAIN
    """
    count = observed.sum(axis=0)
    target = rate * count * GRAIN
    reach = np.abs(score).max(axis=0, initial=0.0) + _FLAT
    low, high, intercept = -reach, reach.copy(), np.zeros_like(reach)
    for step in range(200):
        p = sigmoid(intercept + score)
        excess = grains(p, observed) - target
        if (np.abs(excess) <= count).all():
            break
        low = np.where(excess < 0, intercept, low)
        high = np.where(excess < 0, high, intercept)
        slope = np.maximum(grains(p * (1 - p), observed), 1)
        newton = intercept - excess / slope
        inside = (newton > low) & (newton < high) & (step < 12 or step % 3 != 0)
        settled = np.abs(excess) <= count
        intercept = np.where(settled, intercept, np.where(inside, newton, (low + high) * 0.5))
    return np.rint(p * GRAIN) / GRAIN

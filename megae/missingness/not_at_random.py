"""Missing not at random: the hidden value is the reason it is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np

from megae.missingness.exact import logistic_holes, standardize
from megae.missingness.inputs import RandomState, Uniforms, check_finite, check_rate, check_slope
from megae.tables import read_table

FORMS = ("self-masking", "quantile")


def mnar(
    X: Any,
    rate: float,
    random_state: RandomState = None,
    *,
    form: str = "self-masking",
    slope: float = 2.0,
    quantile: float = 0.75,
) -> np.ndarray:
    r"""Hide each observed cell with a probability that depends on its own value.

    .. math:: P(\text{hole}_{ij}) = \sigma(a_j + \text{slope} \cdot s_{ij})

    with :math:`\sigma` the logistic function. In the self-masking form :math:`s_{ij}` is the value, standardised in its
    column. In the quantile form it is 1 for values above the quantile of their column and 0 for the others, so the odds
    of a hole are :math:`e^{\text{slope}}` times as high above. The intercept :math:`a_j` is solved so that every column
    loses the same expected share of its observed cells, the rate.

    Parameters
    ----------
    X : ndarray, DataFrame, tensor or sparse matrix of shape (N, D)
        NaN are old holes. A column whose observed values are all the same gives nothing to depend on: its cells go
        missing with probability ``rate``.
    rate : float in (0, 1)
        Expected share of the observed cells of each column that go missing.
    random_state : int, numpy Generator or RandomState, or None
    form : "self-masking" or "quantile"
    slope : float, not 0
        Log-odds per standard deviation, or between above and below the quantile. At 2 the odds grow 7.4-fold. Negative
        hides low values rather than high ones.
    quantile : float in (0, 1)
        Where the step of the quantile form lies: at the smallest observed value that has this share of its column at or
        below it. Where that is the largest value, as in a 0/1 column of mostly ones, the values equal to it count as
        above.

    Returns
    -------
    bool ndarray of shape (N, D)
        True where an observed cell goes missing.

    Examples
    --------
    >>> import numpy as np
    >>> from megae.missingness import mnar
    >>> X = np.linspace(-1, 1, 1000)[:, None]
    >>> holes = mnar(X, rate=0.3, random_state=0)
    >>> bool(X[holes].mean() > 0.3 and X[~holes].mean() < -0.1)
    True
    >>> holes = mnar(X, rate=0.3, random_state=0, form="quantile", quantile=0.5)
    >>> above, below = holes[500:].mean(), holes[:500].mean()  # 0.48 and 0.11 in expectation
    >>> bool(0.4 < above < 0.55 and 0.05 < below < 0.17)
    True
    """
    rate, slope = check_rate(rate), check_slope(slope)
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, FORMS))}, got {form!r}")
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie strictly between 0 and 1, got {quantile!r}")
    table = read_table(X)
    check_finite(table.cells, table.names)
    score = standardize(table.cells) if form == "self-masking" else above_quantile(table.cells, quantile)
    return logistic_holes(slope * score, ~table.holes, rate, Uniforms(random_state).draw(*table.cells.shape))


def above_quantile(cells: np.ndarray, quantile: float) -> np.ndarray:
    """1 for cells above the quantile of their column, else 0; the quantile is one of the values, never between two.

    Parameters
    ----------
    cells : ndarray of shape (N, D), NaN in holes
    quantile : float in (0, 1)

    Returns
    -------
    ndarray of shape (N, D)
    """
    above = np.zeros(cells.shape)
    for j, column in enumerate(cells.T):
        values = np.sort(column[~np.isnan(column)])
        if values.size and values[0] < values[-1]:
            at_or_below = np.arange(1, values.size + 1) / values.size  # 55 / 100 is 0.55, but 0.55 * 100 is above 55
            edge = values[np.searchsorted(at_or_below, quantile)]
            above[:, j] = column > edge if edge < values[-1] else column >= edge
    return above

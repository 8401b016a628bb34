"""Missing at random: what stays observed is the reason why the rest goes missing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from megae.graphs import adjacency
from megae.missingness.exact import exact_product, logistic_holes, standardize
from megae.missingness.inputs import RandomState, Uniforms, check_finite, check_rate, check_slope
from megae.tables import is_frame, read_table

SHARE = 0.3


def mar(
    X: Any,
    rate: float,
    random_state: RandomState = None,
    *,
    drivers: float | str | Iterable[Any] | None = None,
    graph: Any = None,
    slope: float = 2.0,
) -> np.ndarray:
    r"""Hide observed cells with a probability that depends on columns that stay observed.

    Some columns, the drivers, lose no cell. In every other column j

    .. math:: P(\text{hole}_{ij}) = \sigma(a_j + \text{slope} \cdot s_{ij}), \qquad
              s_{ij} \propto \sum_{k \text{ driver}} w_{jk} z_{ik}

    with :math:`\sigma` the logistic function, z the standardised drivers (their old holes count as the mean), weights
    :math:`w_{jk}` drawn from (-1, 1) for each column, and s scaled to mean 0 and variance 1. The intercept
    :math:`a_j` is solved so that every one of these columns loses the same expected share of its observed cells: more
    than ``rate``, since the drivers lose none. Given the drivers, a hole depends on nothing else.

    With a single column no column is left to drive it; then s is the number of neighbours of the node, standardised.

    Parameters
    ----------
    X : ndarray, DataFrame, tensor or sparse matrix of shape (N, D)
        NaN are old holes.
    rate : float in (0, 1)
        Expected share of all observed cells of the table, the drivers' included, that go missing. It must stay below
        the share of the observed cells that lie outside the drivers.
    random_state : int, numpy Generator or RandomState, or None
    drivers : None, float in (0, 1), list, or "degree"
        Which columns drive. A share: that many columns (rounded, at least one, never all), chosen at random, columns
        that vary before columns that do not. A list: labels of a DataFrame's columns, positions otherwise. "degree": no
        column, but the number of neighbours. None: a share of 0.3, or "degree" with a single column.
    graph : anything :func:`megae.graphs.adjacency` reads, over the N rows
        Needed, and looked at, only where degree drives.
    slope : float, not 0
        Log-odds per standard deviation of s; at 2 the odds grow 7.4-fold.

    Returns
    -------
    bool ndarray of shape (N, D)
        True where an observed cell goes missing.

    Examples
    --------
    >>> import numpy as np
    >>> from megae.missingness import mar
    >>> X = np.random.default_rng(0).normal(size=(1000, 4))
    >>> holes = mar(X, rate=0.3, random_state=0, drivers=[0])
    >>> holes[:, 0].any(), bool(0.35 < holes[:, 1:].mean() < 0.45)
    (np.False_, True)
    >>> mar(X, rate=0.8, random_state=0, drivers=[0])
    Traceback (most recent call last):
    ValueError: rate 0.8 cannot be reached: the columns that drive the holes lose no cell, so it must be below 0.75; ...
    """
    rate, slope = check_rate(rate), check_slope(slope)
    table = read_table(X)
    cells, observed, uniforms = table.cells, ~table.holes, Uniforms(random_state)
    check_finite(cells, table.names)
    n, D = cells.shape
    if drivers is None:
        drivers = "degree" if D == 1 else SHARE
    if isinstance(drivers, str):
        if drivers != "degree":
            raise ValueError(f"drivers must be a share, a list of columns, 'degree' or None, got {drivers!r}")
        if graph is None:
            why = "the table has a single column" if D == 1 else "drivers is 'degree'"
            raise ValueError(
                f"{why}, so the number of neighbours of a node drives its holes, which needs the edges; give them "
                "(graph in Python, --edges on the command line), or choose another mechanism"
            )
        driving = np.zeros(D, dtype=bool)
        score = np.repeat(_degree_score(graph, n, table.labels), D, axis=1)
    else:
        labels = list(X.columns) if is_frame(X) else list(range(D))
        driving = _chosen(drivers, cells, labels, uniforms)
        score = _column_score(cells[:, driving], D, uniforms)
    targets = observed & ~driving
    if n > 1 and targets.any() and not score.any():
        warnings.warn(
            "what drives the holes is the same in every row, so they depend on nothing; choose other drivers",
            stacklevel=2,
        )
    return logistic_holes(slope * score, targets, _share_of_targets(rate, observed, targets), uniforms.draw(n, D))


def _degree_score(graph: Any, n: int, labels: Any) -> np.ndarray:
    """(N, 1): the number of neighbours, standardised."""
    return standardize(np.diff(adjacency(graph, n, labels).indptr).astype(np.float64)[:, None])


def _column_score(drivers: np.ndarray, D: int, uniforms: Uniforms) -> np.ndarray:
    """(N, K) drivers -> (N, D): a random combination for each column, with odd multiples of 2^-8 as weights."""
    weights = (2 * np.floor(uniforms.draw(drivers.shape[1], D) * 256) - 255) / 256
    return standardize(exact_product(standardize(drivers), weights))


def _chosen(drivers: Any, cells: np.ndarray, labels: list[Any], uniforms: Uniforms) -> np.ndarray:
    """Boolean (D,): which columns drive."""
    D = len(labels)
    driving = np.zeros(D, dtype=bool)
    if isinstance(drivers, Real) and not isinstance(drivers, Integral):
        share = float(drivers)
        if not 0 < share < 1:
            raise ValueError(f"drivers, as a share of the columns, must lie strictly between 0 and 1, got {drivers!r}")
        if D < 2:
            raise ValueError(f"X has {D} column(s), of which none can drive another; pass drivers='degree' and graph")
        number = min(max(1, round(share * D)), D - 1)
        low = np.fmin.reduce(cells, axis=0, initial=np.inf)
        high = np.fmax.reduce(cells, axis=0, initial=-np.inf)
        driving[np.lexsort((uniforms.draw(D), low >= high))[:number]] = True
        return driving
    named = list(drivers) if isinstance(drivers, Iterable) else []
    if not named:
        raise ValueError(f"drivers must be a share, a list of columns, 'degree' or None, got {drivers!r}")
    for name in named:
        if name not in labels or isinstance(name, (bool, np.bool_)):
            raise ValueError(f"drivers names {name!r}, which is not a column; columns are {labels[:8]}")
        driving[labels.index(name)] = True
    if driving.all():
        raise ValueError("drivers names every column, so none is left to go missing; leave some out")
    return driving


def _share_of_targets(rate: float, observed: np.ndarray, targets: np.ndarray) -> float:
    """The rate at which targets must go missing for the whole table to reach its rate."""
    cells, reachable = int(observed.sum()), int(targets.sum())
    if cells == 0:
        return rate
    if rate * cells >= reachable:
        raise ValueError(
            f"rate {rate:g} cannot be reached: the columns that drive the holes lose no cell, so it must be below "
            f"{reachable / cells:.6g}; hide a smaller share, or in Python let fewer columns drive (drivers)"
        )
    return rate * cells / reachable

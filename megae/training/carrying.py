"""Holes of a nearly empty table may hold a share of what is propagated into them, where no network does better."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from megae.kernels import FilterOperator
from megae.training.features import propagate
from megae.training.hiding import HidingRates, hide, step_generator
from megae.training.pool import GraphPool
from megae.training.task import Exam, ImputationNetwork, exam_errors

BEFORE_TRAINING = 1 << 31
"""Number of the first draw, beyond those of all training steps."""

ENOUGH_CELLS = 50_000
MOST_DRAWS = 16

MOST_HIDDEN = 0.1
"""Share of the cells that one draw hides at most: the fewer are left to propagate, the larger the shares come out."""

TRUST_COLUMN = 50.0
"""Cells' worth of propagated energy from which a column's own share counts as much as that of all columns."""

TRUST_GRAPH = 5.0
"""The same for the share of all columns, against none."""


@torch.no_grad()
def carried_shares(
    pool: GraphPool,
    trainable: Tensor,
    column: Tensor,
    rates: HidingRates,
    weight: np.ndarray,
    iterations: int,
    seed: int,
    rewired: Callable[[Tensor], FilterOperator] | None = None,
) -> Tensor:
    r"""Shrunken least squares of hidden cells on what is propagated to them.

    Trainable cells are hidden again, the rest is propagated, p, and compared with the standardised truth z, both less
    the column means of the rest (means of all cells would know the hidden ones, which shows where few are observed).
    With sums over the cells of column j, each cell counting once, and over all columns, with :math:`v_j` the square of
    ``weight[j]``,

    .. math::
        w = \frac{\sum_j v_j \langle p_j, z_j \rangle}{\sum_j v_j (\langle p_j, p_j \rangle + \lambda_0 / E)}, \qquad
        w_j = \frac{\langle p_j, z_j \rangle + \lambda w}{\langle p_j, p_j \rangle + \lambda}.

    Parameters
    ----------
    pool : GraphPool
    trainable : bool Tensor of shape (N, E)
    column : int64 Tensor of shape (E,)
        Table column of each encoded column.
    weight : ndarray of shape (E,)
        Units of error per standardised unit.
    iterations : int
        Of propagation.
    rewired : callable, or None
        Visible cells (N, E) -> the operator of a graph that these alone shape, where values make the edges: a graph
        that knows the hidden cells joins them to rows like their own.

    Returns
    -------
    Tensor of shape (E,), on the device of the pool; the same on all processes
    """
    whole = pool.whole
    asked = 1 - (1 - float(rates.columns.mean())) * (1 - rates.rows)
    thinned = min(1.0, MOST_HIDDEN / asked)
    often = torch.as_tensor(rates.columns * thinned, dtype=torch.float32, device=pool.device)
    rows = rates.rows * thinned
    share_hidden = 1 - (1 - float(often.mean())) * (1 - rows)
    expected = share_hidden * max(int(trainable.sum()), 1)
    draws = int(np.clip(np.ceil(ENOUGH_CELLS / expected), 1, MOST_DRAWS))
    both, own = (torch.zeros(trainable.shape[1], dtype=torch.float64, device=pool.device) for _ in range(2))
    for draw in range(draws):
        generator = step_generator(seed, BEFORE_TRAINING + draw, pool.device)
        hidden = hide(trainable, column, often, rows, generator)
        visible = trainable & ~hidden
        shown = whole.values * visible
        centre = shown.sum(dim=0) / visible.sum(dim=0).clamp_min(1)
        operator = whole.operator if rewired is None else rewired(visible)
        p = propagate(operator, shown - centre * visible, visible, iterations) * hidden
        both += (p * (whole.values - centre)).sum(dim=0, dtype=torch.float64)
        own += (p * p).sum(dim=0, dtype=torch.float64)
    once = max(1.0, draws * share_hidden)
    both, own = both / once, own / once
    v = torch.as_tensor(weight, dtype=torch.float64, device=pool.device).square()
    of_all = (v * both).sum() / (v * (own + TRUST_GRAPH / v.numel())).sum()
    shares = (both + TRUST_COLUMN * of_all) / (own + TRUST_COLUMN)
    return pool.processes.of_first(shares.to(torch.float32))


def carry_unless_better(network: ImputationNetwork, shares: Tensor, exam: Exam | None, weight: np.ndarray) -> bool:
    """Let a network fill with carried shares unless it is better itself, by over one standard error on the exam.

    Few cells are held out where few are observed, and the shares have one degree of freedom in place of a million: what
    a network wins there by less than that is often luck. The error is that of the mean difference of the squared errors
    in the hidden cells. Without an exam nobody knows, and the shares fill.

    Parameters
    ----------
    shares : Tensor of shape (E,), see :func:`carried_shares`
    weight : ndarray of shape (E,)
        Units of error per standardised unit.

    Returns
    -------
    bool
        Whether the shares fill; the same on all processes.
    """

    if exam is None:
        network.carry(shares)
        return True

    def squares() -> np.ndarray:
        return exam.squares(exam_errors(network.predict(exam.pool, exam.visible), exam, weight))

    own = squares()
    network.carry(shares)
    lost = squares() - own
    carries = lost.size < 2 or bool(lost.mean() <= lost.std(ddof=1) / np.sqrt(lost.size))
    carries = bool(exam.pool.processes.number_of_first(carries))
    if not carries:
        network.carry(None)
    return carries

"""Setting observed cells aside: some to stop early by, others, never used in training, to calibrate with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.graphs import knn_adjacency, to_data
from megae.training.hiding import HidingRates, hide

MANY_GRAPHS = 20
"""From this many graphs on, whole graphs are set aside; below, single cells."""

MOST_CELLS = 50_000
"""More held-out cells than this sharpen no estimate worth the training data."""


@dataclass(frozen=True)
class HeldOut:
    """Graphs with cells to predict.

    Parameters
    ----------
    graphs : list of Data
    visible, hidden : bool Tensor of shape (N, E) over the nodes of all graphs, disjoint
    copies : int
        How often the same graphs stand in ``graphs``, one after the other, each time with other cells hidden.
    """

    graphs: list[Data]
    visible: Tensor
    hidden: Tensor
    copies: int = 1


@dataclass(frozen=True)
class Division:
    """What each cell is used for.

    Parameters
    ----------
    train : list of Data
    trainable : bool Tensor of shape (N, E) over the nodes of ``train``
    validation, calibration : HeldOut, or None where there is too little to set aside
    by_graph : bool
        Whether whole graphs were set aside.
    """

    train: list[Data]
    trainable: Tensor
    validation: HeldOut | None
    calibration: HeldOut | None
    by_graph: bool


def divide(
    graphs: Sequence[Data],
    validation: Sequence[Data],
    rates: HidingRates,
    column: Tensor,
    fractions: tuple[float, float],
    seed: int,
) -> Division:
    """Divide observed cells into those to train on, to stop early by and to calibrate with.

    Many graphs: whole graphs are set aside; of ten or more ``validation`` graphs every other one calibrates. Few
    graphs: single cells, drawn the way holes fall. ``validation`` graphs are never trained on.

    Parameters
    ----------
    graphs, validation : lists of Data
    column : int64 Tensor of shape (E,)
        Table column of each encoded column.
    fractions : shares of graphs or cells for validation and calibration
    """
    generator = torch.Generator().manual_seed(seed)
    if len(graphs) >= MANY_GRAPHS:
        return _by_graph(list(graphs), list(validation), rates, column, fractions, seed, generator)
    train = list(graphs)
    observed = torch.isfinite(torch.cat([g.x for g in train]))
    calibrate = _some_cells(observed, rates, column, fractions[1], generator)
    judge = _some_cells(observed & ~calibrate, rates, column, 0.0 if validation else fractions[0], generator)
    kept = observed & ~calibrate & ~judge
    x = torch.cat([g.x for g in train])
    lost = (_has_range(x, observed, column) & ~_has_range(x, kept, column))[column] | ~kept.any(dim=0)
    if lost.any():
        judge[:, lost], calibrate[:, lost] = False, False
        kept = observed & ~calibrate & ~judge
    return Division(
        train,
        kept,
        _repeatedly_hidden(list(validation), rates, column, generator, at_most=4)
        or (HeldOut(train, kept, judge) if judge.any() else None),
        HeldOut(train, kept | judge, calibrate) if calibrate.any() else None,
        by_graph=False,
    )


def _has_range(x: Tensor, seen: Tensor, column: Tensor) -> Tensor:
    """Whether the ``seen`` cells of a column of the table lend it a unit of error, (D,): their range.

    Columns of flags, and all others within 0 and 1, have one without it. They are left as drawn: were rare ones given
    back to training, hardly any would be left to judge by.
    """
    low, high = x.masked_fill(~seen, torch.inf).amin(dim=0), x.masked_fill(~seen, -torch.inf).amax(dim=0)
    within = x.masked_fill(~seen, 0.0).amin(dim=0).ge(0) & x.masked_fill(~seen, 0.0).amax(dim=0).le(1)
    ranged = ((low < high) & ~within).float()
    return torch.zeros(int(column[-1]) + 1).index_add_(0, column, ranged) > 0


def _by_graph(
    graphs: list[Data],
    validation: list[Data],
    rates: HidingRates,
    column: Tensor,
    fractions: tuple[float, float],
    seed: int,
    generator: torch.Generator,
) -> Division:
    order = np.random.default_rng(seed).permutation(len(graphs))
    n_judge = max(1, round(fractions[0] * len(graphs))) if fractions[0] > 0 and not validation else 0
    n_calibrate = max(1, round(fractions[1] * len(graphs))) if fractions[1] > 0 else 0
    judges = validation
    calibrators: list[Data] = []
    if len(validation) >= 10 and fractions[1] > 0:
        judges, calibrators, n_calibrate = validation[0::2], validation[1::2], 0
    aside, kept = _keeping_columns(graphs, order[: n_judge + n_calibrate], order[n_judge + n_calibrate :])
    judges = judges or [graphs[i] for i in aside[:n_judge]]
    calibrators = calibrators or [graphs[i] for i in aside[n_judge:]]
    train = [graphs[i] for i in sorted(kept)]
    return Division(
        train,
        torch.isfinite(torch.cat([g.x for g in train])),
        _repeatedly_hidden(judges, rates, column, generator, at_most=4),
        _repeatedly_hidden(calibrators, _on_top(calibrators, rates, column), column, generator, at_most=8),
        by_graph=True,
    )


def _keeping_columns(graphs: list[Data], aside: np.ndarray, kept: np.ndarray) -> tuple[list[int], list[int]]:
    """Move graphs from ``aside`` to ``kept`` until those show every column, and two values of those that need a range.

    See :func:`_has_range`; only what shows two values anywhere can.
    """
    out, rest = list(aside), list(kept)
    low = np.stack([np.nanmin(g.x.numpy(), axis=0, initial=np.inf) for g in graphs])
    high = np.stack([np.nanmax(g.x.numpy(), axis=0, initial=-np.inf) for g in graphs])
    for e in range(low.shape[1]):
        flags = low[:, e].min() >= 0 and high[:, e].max() <= 1
        while (bottom := low[rest, e].min()) >= (top := high[rest, e].max()):
            if flags and bottom == top:
                break
            witnesses = [i for i in out if low[i, e] < bottom or high[i, e] > top]
            if not witnesses:
                break
            out.remove(witnesses[0])
            rest.append(witnesses[0])
    return out, rest


def _on_top(graphs: list[Data], rates: HidingRates, column: Tensor) -> HidingRates:
    """``rates`` thinned out, in the same proportion throughout, where the graphs have such holes already.

    Cells are then predicted from about as much as is seen when real holes are filled, so that errors are as large.
    """
    if not graphs:
        return rates
    holes = ~torch.isfinite(torch.cat([g.x for g in graphs])).numpy()
    there = holes[:, np.unique(column.numpy(), return_index=True)[1]].mean(axis=0)
    wanted = 1 - (1 - rates.columns) * (1 - rates.rows)
    missing = (wanted - there) / np.maximum(1 - there, 1e-9) / wanted
    share = float(np.clip(missing.min(), 0.1, 1.0))
    return HidingRates(rates.columns * share, rates.rows * share)


def _repeatedly_hidden(
    graphs: list[Data], rates: HidingRates, column: Tensor, generator: torch.Generator, at_most: int
) -> HeldOut | None:
    """The graphs, hidden afresh as often as it takes for a few thousand cells."""
    if not graphs:
        return None
    once = torch.isfinite(torch.cat([g.x for g in graphs]))
    expected = float(once.sum()) * float(rates.columns.mean())
    times = int(np.clip(np.ceil(4_000 / max(expected, 1.0)), 1, at_most))
    observed = once.repeat(times, 1)
    hidden = hide(observed, column, torch.as_tensor(rates.columns, dtype=torch.float32), rates.rows, generator)
    return HeldOut(graphs * times, observed & ~hidden, hidden, times) if hidden.any() else None


def _some_cells(
    observed: Tensor, rates: HidingRates, column: Tensor, fraction: float, generator: torch.Generator
) -> Tensor:
    """About ``fraction`` of the observed cells, columns and rows in the proportion in which holes fall."""
    total = int(observed.sum())
    if fraction <= 0 or total < 20:
        return torch.zeros_like(observed)
    fraction = min(fraction, MOST_CELLS / total)
    typical = float(rates.columns.mean())
    whole_rows = rates.rows / (rates.rows + typical) if rates.rows > 0 else 0.0
    columns = torch.as_tensor(rates.columns / typical * fraction * (1 - whole_rows), dtype=torch.float32)
    return hide(observed, column, columns.clamp(max=0.5), fraction * whole_rows, generator)


def rebuilt_knn(division: Division, k: int) -> Division:
    """Neighbours by the cells that may be seen, so that no held-out cell shapes the graph it is judged on."""

    def blind(held: HeldOut | None) -> HeldOut | None:
        return None if held is None else replace(held, graphs=neighbours(held.graphs, held.visible, k))

    return replace(
        division,
        train=neighbours(division.train, division.trainable, k),
        validation=blind(division.validation),
        calibration=blind(division.calibration),
    )


def neighbours(graphs: list[Data], visible: Tensor, k: int) -> list[Data]:
    """Each table with a kNN graph over its rows, by its visible cells alone."""
    seen = visible.split([g.x.shape[0] for g in graphs])
    return [
        to_data(g.x.numpy(), knn_adjacency(g.x.masked_fill(~v, torch.nan).numpy(), k))
        for g, v in zip(graphs, seen, strict=True)
    ]

"""The two ways of OT imputation: values moved one by one (Algorithm 1), and models of the columns (Algorithm 3).

Algorithm 1 takes long to fill new rows, so there is :func:`filled_in_time`, which any slow method may be judged by.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from megae.imputers.rows import Fill, blinded, rows_of
from megae.models.sinkhorn import half_squared_distances, sinkhorn_divergence
from megae.training.holdout import HeldOut
from megae.training.schedule import Clock

LEAST = 1e-3
"""Seconds that are always left, so that every part of a fit takes at least one step."""

Divergence = Callable[[Tensor, Tensor], Tensor]
"""Two clouds (..., n, D) -> (...,)."""

SOLVERS = ("own", "geomloss")


def make_divergence(solver: str, blur: float, scaling: float) -> Divergence:
    """The Sinkhorn divergence, by our own code or by geomloss; both agree to rounding."""
    if solver == "own":
        return lambda x, y: sinkhorn_divergence(x, y, blur, scaling)
    try:
        from geomloss import SamplesLoss
    except ImportError as error:
        raise ImportError(
            "solver='geomloss' needs geomloss; pip install 'megae[peers]', or take solver='own'"
        ) from error
    return SamplesLoss("sinkhorn", p=2, blur=blur, scaling=scaling, backend="tensorized")


def typical_cost(rows: Tensor, generator: torch.Generator, most: int = 2000) -> float:
    """Median of half the squared distances between rows (N, D) that differ, over at most ``most`` random rows."""
    some = rows[torch.randperm(len(rows), generator=generator)[:most].to(rows.device)]
    cost = half_squared_distances(some, some).flatten()
    cost = cost[cost > 1e-6 * cost.max()]
    return float(cost.median()) if cost.numel() else 1.0


def batch_size_for(rows: int, wanted: int) -> int:
    """``wanted``, or the largest power of two in half of the rows where those are fewer, as in the authors' code."""
    return wanted if wanted <= rows // 2 else 2 ** int(math.log2(max(1, rows // 2)))


class Table(nn.Module):
    """Rows whose holes are parameters.

    Parameters
    ----------
    rows : Tensor of shape (N, E), NaN in holes
    start : Tensor of shape (N, E), where the holes start
    """

    def __init__(self, rows: Tensor, start: Tensor) -> None:
        super().__init__()
        self.holes = rows.isnan()
        self.known = rows.nan_to_num()
        self.values = nn.Parameter(start.clone())

    def forward(self, which: Tensor | slice = slice(None)) -> Tensor:
        """The filled rows ``which``."""
        return torch.where(self.holes[which], self.values[which], self.known[which])


def draw(n: int, size: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """``size`` different numbers below n."""
    if size * 4 > n:
        return torch.randperm(n, generator=generator)[:size].to(device)
    drawn = torch.randint(n, (size + size // 2 + 8,), generator=generator)
    unique = drawn.unique()
    if len(unique) < size:
        return draw(n, size, generator, device)
    return unique[torch.randperm(len(unique), generator=generator)[:size]].to(device)


def fill_beside(
    rows: Tensor,
    donors: Tensor,
    centre: Tensor,
    divergence: Divergence,
    *,
    size: int,
    visits: int,
    learning_rate: float,
    noise: float,
    seed: int,
    time_budget: float | None = None,
) -> Tensor:
    """Algorithm 1 for new rows beside complete ones, which stay as they are.

    One batch holds new rows, at most a quarter of it, among donors; the other holds donors alone. The learning rate
    falls to zero, so that values settle.

    Parameters
    ----------
    rows : Tensor of shape (n, E), NaN in holes
    donors : Tensor of shape (N, E)
    centre : Tensor of shape (E,)
        Where holes start, up to noise.
    visits : int
        How often each row stands in a batch, about.
    time_budget : float or None
        Seconds after which to stop; the learning rate then falls with the time.

    Returns
    -------
    Tensor of shape (n, E)
    """
    some = rows.isnan().any(dim=1)
    if not some.any():
        return rows
    generator, device = torch.Generator().manual_seed(seed), rows.device
    open_rows = rows[some]
    start = centre + noise * torch.randn(open_rows.shape, generator=generator).to(device)
    table = Table(open_rows, start)
    size = min(size, len(donors))
    guests = max(1, min(len(open_rows), size // 4))
    steps = math.ceil(visits * len(open_rows) / guests)
    optimiser = torch.optim.RMSprop(table.parameters(), learning_rate)
    clock = Clock(steps, time_budget)
    with torch.enable_grad():
        for k in range(steps):
            if k and time_budget is not None and clock.elapsed() >= time_budget:
                break
            mine = draw(len(open_rows), guests, generator, device)
            hosts, others = (donors[draw(len(donors), m, generator, device)] for m in (size - guests, size))
            loss = divergence(torch.cat([table(mine), hosts]), others)
            for group in optimiser.param_groups:
                group["lr"] = learning_rate * (1 - clock.progress(k))
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
    out = rows.clone()
    out[some] = table().detach()
    return out


class Deadline:
    """So many seconds from now.

    Parameters
    ----------
    seconds : float
    """

    def __init__(self, seconds: float) -> None:
        self.seconds, self.clock = seconds, Clock(1, seconds)

    def left(self) -> float:
        """Seconds until then, at least ``LEAST``."""
        return max(LEAST, self.seconds - self.clock.elapsed())


def filled_in_time(
    held: HeldOut, most: int, fill: Callable[[list[Data], float | None], Tensor], deadline: Deadline | None
) -> Tensor:
    """The first held-out graphs filled, scaled, (n, E): as many as ``most`` rows hold and as come out in time.

    Without a deadline all are filled at once, else one after the other. The graph at which time runs out is left out,
    since its fill was cut short, unless nothing was asked for in those before it.

    Parameters
    ----------
    fill : graphs and the seconds left for them -> Tensor of shape (n, E)
    """
    graphs = blinded(held.graphs, held.visible)
    asked = [bool(part.any()) for part in held.hidden.split([len(g.x) for g in graphs])]
    chosen, n = 0, 0
    while chosen < len(graphs) and (n + len(graphs[chosen].x) <= most or not any(asked[:chosen])):
        n += len(graphs[chosen].x)
        chosen += 1
    if deadline is None:
        return fill(graphs[:chosen], None)
    parts: list[Tensor] = []
    for k in range(chosen):
        part = fill([graphs[k]], deadline.left())
        late = deadline.left() <= LEAST
        if not late or not any(asked[:k]):
            parts.append(part)
        if late and any(asked[: k + 1]):
            break
    return torch.cat(parts)


def leading_rows(rows: Tensor) -> Fill:
    """As a method that fills graphs: the first of these rows (n, E), which are its fills of the first graphs."""
    return lambda graphs: rows[: len(rows_of(graphs))]


class ColumnModels(nn.Module):
    """One model for each column, of all others but those of the same category.

    Parameters
    ----------
    column : int64 Tensor of shape (E,)
        Column of the table that each encoded one belongs to.
    kind : "linear" or "mlp"
        An affine map, or the authors' perceptron with hidden layers of 2 (E - 1) and E - 1 units.
    """

    def __init__(self, column: Tensor, kind: str) -> None:
        super().__init__()
        width = len(column)
        others = max(1, width - 1)
        self.own = [(column == c).nonzero().flatten().tolist() for c in column]

        def one() -> nn.Sequential:
            if kind == "linear":
                return nn.Sequential(nn.Linear(width, 1))
            return nn.Sequential(
                nn.Linear(width, 2 * others), nn.ReLU(), nn.Linear(2 * others, others), nn.ReLU(), nn.Linear(others, 1)
            )

        self.models = nn.ModuleList(one() for _ in range(width))

    def column(self, rows: Tensor, j: int) -> Tensor:
        """Column j of filled rows (n, E) out of the others, (n,)."""
        first, *rest = cast(nn.Sequential, self.models[j])
        out = first(rows)
        for k in self.own[j]:
            out = out - rows[:, k : k + 1] * cast(nn.Linear, first).weight[:, k]
        for layer in rest:
            out = layer(out)
        return out.squeeze(-1)

    def sweep(self, rows: Tensor, holes: Sequence[Tensor], order: Sequence[int]) -> None:
        """Fill column after column of ``rows`` (n, E), in place; ``holes[j]`` are the rows that lack column j."""
        for j in order:
            if len(holes[j]):
                rows[holes[j], j] = self.column(rows[holes[j]], j)

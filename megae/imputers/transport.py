"""The two ways of OT imputation: values moved one by one (Algorithm 1), and models of the columns (Algorithm 3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from megae.models.sinkhorn import half_squared_distances, sinkhorn_divergence

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
    with torch.enable_grad():
        for k in range(steps):
            mine = draw(len(open_rows), guests, generator, device)
            hosts, others = (donors[draw(len(donors), m, generator, device)] for m in (size - guests, size))
            loss = divergence(torch.cat([table(mine), hosts]), others)
            for group in optimiser.param_groups:
                group["lr"] = learning_rate * (1 - k / steps)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
    out = rows.clone()
    out[some] = table().detach()
    return out


class ColumnModels(nn.Module):
    """One model for each column, of all others.

    Parameters
    ----------
    width : int
        Columns E.
    kind : "linear" or "mlp"
        An affine map, or the authors' perceptron with hidden layers of 2 (E - 1) and E - 1 units.
    """

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        others = max(1, width - 1)

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
        out = first(rows) - rows[:, j : j + 1] * cast(nn.Linear, first).weight[:, j]
        for layer in rest:
            out = layer(out)
        return out.squeeze(-1)

    def sweep(self, rows: Tensor, holes: Sequence[Tensor], order: Sequence[int]) -> None:
        """Fill column after column of ``rows`` (n, E), in place; ``holes[j]`` are the rows that lack column j."""
        for j in order:
            if len(holes[j]):
                rows[holes[j], j] = self.column(rows[holes[j]], j)

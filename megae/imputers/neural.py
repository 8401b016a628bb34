"""What the learnt peers share: scaling, held-out cells, device, seed and the arguments for them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from megae.columns import Column, usable_columns
from megae.imputers.base import GraphImputer
from megae.imputers.build import column_of, seed_from, standardisation
from megae.training.hiding import HidingRates, hide, rates_like_holes, step_generator
from megae.training.holdout import Division, divide, rebuilt_knn
from megae.training.resources import pick_device, threads


@dataclass(frozen=True)
class Scaler:
    """Columns to and from the numbers a network sees: ``z = (x - shift) / scale``.

    Parameters
    ----------
    shift, scale : ndarray of shape (E,)
    """

    shift: np.ndarray
    scale: np.ndarray

    def forward(self, x: Tensor, device: torch.device | str = "cpu") -> Tensor:
        """(N, E) float64 with NaN -> float32 with NaN, on the device."""
        z = (x - torch.from_numpy(self.shift)) / torch.from_numpy(self.scale)
        return z.to(device, torch.float32)

    def backward(self, z: Tensor) -> np.ndarray:
        """(N, E) float32 -> float64 in the units of the data."""
        return z.detach().double().cpu().numpy() * self.scale + self.shift


@dataclass(frozen=True)
class Ground:
    """All that a peer trains on.

    Parameters
    ----------
    division : Division
        ``train`` graphs and ``trainable`` (N, E), the cells training may see; ``validation`` cells to stop early by,
        or None. Nothing else of the data may shape the weights.
    scaler : Scaler, from trainable cells alone
    columns : columns that have any data, renumbered
    rates : how often holes fall in each column
    seed : int
    device : torch.device
    """

    division: Division
    scaler: Scaler
    columns: Sequence[Column]
    rates: HidingRates
    seed: int
    device: torch.device

    def hide(self, observed: Tensor, step: int) -> Tensor:
        """Some of the observed cells (N, E), chosen the way holes fall; depends on the seed and the step alone."""
        rates = torch.as_tensor(self.rates.columns, dtype=torch.float32, device=observed.device)
        column = column_of(self.columns).to(observed.device)
        return hide(observed, column, rates, self.rates.rows, step_generator(self.seed, step, observed.device))


class NeuralImputer(GraphImputer):
    """Base of the learnt peers.

    A subclass implements ``_train(ground)`` and ``_predict(graphs)``: the latter returns scaled float32 (N, E) over the
    nodes of all graphs, one after the other. It trains with :func:`megae.training.descent.descend`, which keeps to
    ``time_budget`` and tells its progress. A pickled imputer holds its tensors and networks as those of the CPU, so
    that a machine without a GPU can load it; ``device`` is read anew where it predicts.

    Parameters
    ----------
    max_steps : int
    learning_rate : float
    patience : int or None
        Evaluations on held-out cells without improvement after which training stops.
    time_budget : float or None
        Seconds that ``fit`` may train.
    validation_fraction : float
        Share of graphs (many) or observed cells (few) set aside to stop early by, where no validation graphs are given.
    device : {"auto", "cpu", "cuda", ...}
    n_jobs : int or None
        Threads for torch.
    random_state : int, RandomState or None
    verbose : int
    """

    _scaling = "range"

    def __init__(
        self,
        *,
        max_steps: int = 1000,
        learning_rate: float = 1e-3,
        patience: int | None = None,
        time_budget: float | None = None,
        validation_fraction: float = 0.1,
        device: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        column_types: Any = "auto",
        clip: bool = False,
        fallback: float = 0.0,
        n_neighbors: int = 10,
        unknown_nodes: str = "error",
    ) -> None:
        super().__init__(
            column_types=column_types,
            clip=clip,
            fallback=fallback,
            n_neighbors=n_neighbors,
            unknown_nodes=unknown_nodes,
        )
        self.max_steps = max_steps
        self.learning_rate = learning_rate
        self.patience = patience
        self.time_budget = time_budget
        self.validation_fraction = validation_fraction
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _train(self, ground: Ground) -> None:
        raise TypeError(f"{type(self).__name__} does not say how it trains")

    def _predict(self, graphs: list[Data]) -> Tensor:
        raise TypeError(f"{type(self).__name__} does not say how it predicts")

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        if not isinstance(self.max_steps, (int, np.integer)) or self.max_steps < 1:
            raise ValueError(f"max_steps must be an integer and at least 1, got {self.max_steps!r}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}")
        seed = seed_from(self.random_state)
        columns = usable_columns(self.columns_, self.usable_)
        cells = [g.x.numpy()[:, [c.start for c in columns]] for g in [*graphs, *validation]]
        rates = rates_like_holes(cells, "auto")
        division = divide(graphs, validation, rates, column_of(columns), (self.validation_fraction, 0.0), seed)
        if self._built_knn and self._uses_graph:
            division = rebuilt_knn(division, self.n_neighbors)
        _, shift, scale, _ = standardisation(division.train, division.trainable, self._scaling, "range")
        self.scaler_ = Scaler(shift, scale)
        device = pick_device(self.device)
        cards = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
        with threads(self.n_jobs, sum(len(g.x) for g in graphs) * 64), torch.random.fork_rng(cards):
            (torch.manual_seed if cards else torch.default_generator.manual_seed)(seed)
            self._train(Ground(division, self.scaler_, columns, rates, seed, device))

    def __getstate__(self) -> dict[str, Any]:
        return {name: _on_cpu(value) for name, value in super().__getstate__().items()}

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        with threads(self.n_jobs, sum(len(g.x) for g in graphs) * 64), torch.no_grad():
            values = self.scaler_.backward(self._predict(graphs))
        return np.split(values, np.cumsum([len(g.x) for g in graphs])[:-1])


def _on_cpu(value: Any) -> Any:
    """A tensor or a network of the CPU, itself where it is there already; anything else as it is."""
    if isinstance(value, Tensor):
        return value.cpu()
    if isinstance(value, nn.Module) and any(t.device.type != "cpu" for t in value.state_dict().values()):
        return copy.deepcopy(value).cpu()
    return value

"""What the peers that learn over graphs share: steps over some of the graphs, judged on held-out cells."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from megae.imputers.graphwise import judge, tempered
from megae.imputers.neural import Ground, NeuralImputer, Scaler
from megae.kernels import FilterOperator, warm_up
from megae.training.descent import descend
from megae.training.loop import Outcome
from megae.training.pool import GraphPool
from megae.training.resources import pick_device
from megae.training.schedule import one_cycle

CHUNK_NODES = 32_768
LOSSES = ("hidden", "observed")


class PooledNetwork(nn.Module, ABC):
    """A network that fills the rows of graphs; scaled values, which count only where ``visible`` or ``asked``."""

    @abstractmethod
    def forward(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> Tensor:
        """(N, E) values and bool (N, E) -> (N, E) filled values."""

    def loss(self, values: Tensor, visible: Tensor, asked: Tensor, operator: FilterOperator) -> Tensor:
        """What to descend: the mean squared error on the ``asked`` cells, made of the ``visible`` ones."""
        counted = asked.to(values.dtype)
        errors = (self(values, visible, operator) - values) * counted
        return errors.square().sum() / counted.sum().clamp_min(1.0)


class PooledImputer(NeuralImputer, ABC):
    """Base of the peers that see graphs: hide observed cells again, predict them, step.

    A subclass implements ``_build`` and has the parameters ``batch_fraction`` and ``loss_on`` beside those of
    :class:`~megae.imputers.neural.NeuralImputer`. Each step takes ``batch_fraction`` of the graphs where there are
    many, hides observed cells as holes fall (on few graphs, at most three tenths of them), and asks for those
    (``loss_on="hidden"``) or for every observed cell (``"observed"``). The learning rate makes one cycle, gradients are
    clipped at norm 1, and the weights of the evaluation with the lowest error on held-out cells are kept.
    """

    kind: ClassVar[str] = "graph"
    _scaling = "standard"

    batch_fraction: float
    loss_on: str
    weight_decay: float = 0.0

    @abstractmethod
    def _build(self, ground: Ground, pool: GraphPool) -> PooledNetwork:
        """A fresh network for the training graphs."""

    def _units(self, ground: Ground) -> Scaler:
        """What the network sees a column in: standard deviations from its mean."""
        return ground.scaler

    def _pool(self, graphs: Sequence[Data], device: torch.device) -> GraphPool:
        return GraphPool(graphs, self.scaler_.shift, self.scaler_.scale, device)

    def _train(self, ground: Ground) -> None:
        if not 0 < self.batch_fraction <= 1:
            raise ValueError(f"batch_fraction must lie in (0, 1], got {self.batch_fraction!r}")
        if self.loss_on not in LOSSES:
            raise ValueError(f"loss_on must be one of {', '.join(LOSSES)}, got {self.loss_on!r}")
        self.scaler_ = self._units(ground)
        ground = replace(tempered(ground), scaler=self.scaler_)
        division, device = ground.division, ground.device
        pool = self._pool(division.train, device)
        trainable = division.trainable.to(device)
        network = self._build(ground, pool).to(device)
        optimizer = torch.optim.Adam(network.parameters(), self.learning_rate, weight_decay=self.weight_decay)
        share = self.batch_fraction if division.by_graph else 1.0

        def step(k: int, progress: float) -> Tensor:
            for group in optimizer.param_groups:
                group["lr"] = one_cycle(progress, self.learning_rate)
            batch = pool.take(some_graphs(pool.n_graphs, share, ground.seed, k))
            allowed = trainable if batch.nodes is None else trainable[torch.from_numpy(batch.nodes).to(device)]
            hidden = ground.hide(allowed, k)
            optimizer.zero_grad()
            asked = allowed if self.loss_on == "observed" or not hidden.any() else hidden
            loss = network.loss(batch.values, allowed & ~hidden, asked, batch.operator)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        held = division.validation
        seen = None if held is None else (self._pool(held.graphs, device), held.visible.to(device))
        if self.time_budget is not None:
            warm_up(device.type)
        self.outcome_: Outcome = descend(
            step,
            [network],
            max_steps=self.max_steps,
            validate=judge(held, lambda: fill(network, *seen), ground) if seen else None,
            eval_every=max(1, min(100 if division.by_graph else 25, self.max_steps // 10)),
            patience=self.patience,
            time_budget=self.time_budget,
            verbose=self.verbose,
            what=type(self).__name__,
        )
        self.network_ = network

    def _predict(self, graphs: list[Data]) -> Tensor:
        device = pick_device(self.device)
        pool = self._pool(graphs, device)
        return fill(self.network_.to(device), pool, pool.whole.observed)


def some_graphs(n: int, share: float, seed: int, step: int) -> np.ndarray:
    """Positions of the graphs of one step, ascending; they depend on the seed and the step alone."""
    if share >= 1:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, step]).permutation(n)[: max(1, round(share * n))])


def fill(network: PooledNetwork, pool: GraphPool, visible: Tensor) -> Tensor:
    """Scaled values (N, E) for all nodes of a pool, a few graphs at a time."""
    parts = []
    for chosen in pool.chunks(CHUNK_NODES):
        batch = pool.take(chosen)
        rows = slice(int(pool.ptr[chosen[0]]), int(pool.ptr[chosen[-1] + 1]))
        parts.append(network(batch.values, visible[rows], batch.operator))
    return torch.cat(parts)

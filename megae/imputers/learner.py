"""Training one network out of a division of the observed cells: MEGAE itself, or its graph-free twin."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.columns import Column
from megae.graphs import to_adjacency
from megae.imputers.build import build_network, column_of
from megae.kernels import FilterOperator
from megae.models import FilterBank
from megae.models.filters import make_frame, polynomial_quality
from megae.spectral import Frame
from megae.training.carrying import carried_shares, carry_unless_better
from megae.training.checkpoint import fingerprint
from megae.training.distributed import ALONE, Processes, reaching_others
from megae.training.hiding import HidingRates
from megae.training.holdout import Division, HeldOut, neighbours
from megae.training.loop import Outcome, Settings, Trainer
from megae.training.parts import PartPool
from megae.training.pool import GraphPool
from megae.training.task import Exam, ImputationNetwork, first_entries


@dataclass(frozen=True)
class Learner:
    """All that training depends on, fixed.

    Parameters
    ----------
    config : resolved preset
    division : Division
    columns : columns that have any data, in encoded order
    rates : HidingRates
    shift, scale, unit : ndarray of shape (E,)
        See :func:`megae.imputers.build.standardisation`.
    processes : those that train the same network on the same data, each its share
    knn : neighbours of each row, where the graph was built from the rows; None where it was given
    """

    config: Mapping[str, Any]
    division: Division
    columns: Sequence[Column]
    rates: HidingRates
    shift: np.ndarray
    scale: np.ndarray
    unit: np.ndarray
    gamma: float
    binary_loss: str
    seed: int
    device: torch.device
    verbose: int
    resume: bool
    processes: Processes = ALONE
    knn: int | None = None

    @cached_property
    def _frame(self) -> Frame:
        c = self.config
        spectrum = None
        if c["frame"] == "adapted":
            spectrum = sp.csr_array(sp.block_diag([to_adjacency(g) for g in self.division.train], format="csr"))
        return make_frame(c["frame"], c["bands"], c["warp_constant"], spectrum)

    @cached_property
    def _filters(self) -> FilterBank:
        c = self.config
        return FilterBank.from_frame(self._frame, c["order"], c["decoder"], c["inverse_eps"])

    @property
    def quality(self) -> dict[str, float]:
        """How well the polynomials follow the frame."""
        return polynomial_quality(self._frame, self._filters)

    def exam(self, held: HeldOut | None, use_graph: bool) -> Exam | None:
        """Held-out cells on the device, ready to be predicted."""
        if held is None:
            return None
        pool = self._pool(held.graphs, use_graph)
        cells = (held.visible.to(self.device), held.hidden.to(self.device))
        return Exam(pool, *cells, held.copies, first_entries(self.columns))

    def _pool(self, graphs: Sequence[Data], use_graph: bool) -> GraphPool:
        return GraphPool(graphs, self.shift, self.scale, self.device, use_graph, self.processes)

    def train(
        self, use_graph: bool, time_budget: float | None, checkpoint: str | os.PathLike[str] | None, what: str
    ) -> tuple[ImputationNetwork, Outcome]:
        """Train a fresh network; the best weights are in it afterwards."""
        c = self.config
        pool = self._pool(self.division.train, use_graph)
        trainable = self.division.trainable
        if c.get("partitions") is not None:
            pool = parts = PartPool(pool, c["partitions"], self.seed)
            trainable = trainable[torch.from_numpy(parts.order)]
        network = build_network(
            c,
            self.columns,
            self.shift,
            self.scale,
            self.unit,
            self.binary_loss,
            self.division.by_graph,
            use_graph,
            self._filters,
            self.seed,
        ).to(self.device)
        exam = self.exam(self.division.validation, use_graph)
        settings = Settings(
            max_steps=c["max_steps"],
            learning_rate=c["learning_rate"],
            weight_decay=c["weight_decay"],
            gamma=self.gamma,
            batch_fraction=c["batch_fraction"],
            decay=c["average_decay"],
            jitter=c["jitter"],
            gradient_clip=1.0,
            eval_every=max(1, min(100, c["max_steps"] // 20)),
            patience=c["patience"],
            time_budget=time_budget,
            seed=self.seed,
            verbose=self.verbose,
            what=what,
            checkpoint=checkpoint,
            resume=self.resume,
            fingerprint="" if checkpoint is None else self._fingerprint(pool, exam, use_graph),
        )
        column, weight = column_of(self.columns).to(self.device), self.scale / self.unit
        trainer = Trainer(network, pool, trainable.to(self.device), column, self.rates, exam, weight, settings)
        with reaching_others():
            outcome = trainer.run()
            if c["nearly_empty"] and use_graph:
                shares = self.shares(self.division.trainable, self.shift)
                outcome.carried = carry_unless_better(network, shares, exam, weight)
        return network, outcome

    def shares(self, known: Tensor, shift: np.ndarray) -> Tensor:
        """See :func:`megae.training.carrying.carried_shares`; by the ``known`` cells (N, E), around ``shift``."""
        graphs, k = self.division.train, self.knn
        pool = GraphPool(graphs, shift, self.scale, self.device, True, self.processes)

        def rewired(visible: Tensor) -> FilterOperator:
            joined = neighbours(graphs, visible.cpu(), k or 0)
            return GraphPool(joined, shift, self.scale, self.device).whole.operator

        return carried_shares(
            pool,
            known.to(self.device),
            column_of(self.columns).to(self.device),
            self.rates,
            self.scale / self.unit,
            self.config["propagation"],
            self.seed,
            None if k is None else rewired,
        )

    def _fingerprint(self, pool: GraphPool, exam: Exam | None, use_graph: bool) -> str:
        """A digest of all that the weights depend on."""
        settings = [self.config, self.seed, use_graph, self.gamma, self.binary_loss, self.rates.rows]
        arrays = [self.rates.columns, self.shift, self.scale, self.unit, self.division.trainable]
        arrays += [pool.whole.values, *pool.csr]
        if exam is not None:
            arrays += [exam.visible, exam.hidden, exam.pool.whole.values, *exam.pool.csr]
        return fingerprint(settings, [column.to_dict() for column in self.columns], *arrays)

"""What the classifiers of nodes that are two-layer networks share: their settings and how they are trained."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from megae.downstream.base import NodeClassifier
from megae.downstream.dropout import InputDropout
from megae.downstream.early import check_training, seeded, train_until
from megae.imputers.build import seed_from
from megae.training.resources import pick_device


class NetworkClassifier(NodeClassifier):
    """Base of the classifiers that train one network on one graph by Adam, with decay on what ``_build`` names.

    A subclass has two hooks, and a third where dropout of the input is something else than that of its first operand:

    - ``_operands(graph)`` returns what the network is called with;
    - ``_build(graph, seed)`` returns a fresh network and the parameters that decay;
    - ``_dropping(operands)`` returns the matrix (N, D) under dropout, and what the network is called with in training
      once that is drawn.

    Parameters are those of :class:`~megae.downstream.GCNClassifier`.
    """

    network_: torch.nn.Module

    def __init__(
        self,
        *,
        features: str,
        hidden: int,
        dropout: float,
        learning_rate: float,
        weight_decay: float,
        max_epochs: int,
        patience: int | None,
        time_budget: float | None,
        random_state: Any,
        device: str,
        verbose: int,
    ) -> None:
        super().__init__(features=features)
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.max_epochs = max_epochs
        self.patience = patience
        self.time_budget = time_budget
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _operands(self, graph: Data) -> tuple[Tensor, ...]:
        raise TypeError(f"{type(self).__name__} does not say what its network reads")

    def _build(self, graph: Data, seed: int) -> tuple[torch.nn.Module, list[torch.nn.Parameter]]:
        raise TypeError(f"{type(self).__name__} does not say what its network is")

    def _dropping(self, operands: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
        return operands[0], lambda dropped: (dropped, *operands[1:])

    def _check(self) -> None:
        """Refuse settings no training can have."""
        check_training(self.max_epochs, self.patience, self.time_budget)
        if self.hidden < 1:
            raise ValueError(f"hidden must be at least 1, got {self.hidden}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")

    def _fit(self, graph: Data, labels: Tensor, train: Tensor, validation: Tensor) -> None:
        self._check()
        device, seed = pick_device(self.device), seed_from(self.random_state)
        operands = tuple(part.to(device) for part in self._operands(graph))
        labels, train, validation = labels.to(device), train.to(device), validation.to(device)
        with seeded(seed, device):
            network, decayed = self._build(graph, seed)
            network = network.to(device)
            others = [p for p in network.parameters() if all(p is not d for d in decayed)]
            groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": self.weight_decay}, {"params": others}]
            optimizer = torch.optim.Adam(groups, lr=self.learning_rate)
            matrix, given = self._dropping(operands)
            dropped = InputDropout(matrix, self.dropout, seed)

            def epoch() -> Tensor:
                optimizer.zero_grad(set_to_none=True)
                loss = F.cross_entropy(network(*given(dropped()))[train], labels[train])
                loss.backward()
                optimizer.step()
                return loss.detach()

            def judge() -> tuple[float, float]:
                z, truth = network(*operands)[validation], labels[validation]
                return float(F.cross_entropy(z, truth)), float((z.argmax(dim=1) == truth).float().mean())

            self.outcome_ = train_until(
                network,
                epoch,
                judge,
                max_epochs=self.max_epochs,
                patience=self.patience,
                time_budget=self.time_budget,
                verbose=self.verbose,
                what=type(self).__name__.removesuffix("Classifier").lower(),
            )
        self.network_ = network

    @torch.no_grad()
    def _predict(self, graph: Data) -> Tensor:
        device = next(self.network_.parameters()).device
        return self.network_(*(part.to(device) for part in self._operands(graph))).argmax(dim=1)

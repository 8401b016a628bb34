"""Two graph convolutions and a readout: classes of whole graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_max_pool, global_mean_pool

from megae.downstream.early import Outcome, check_training, seeded, train_until
from megae.downstream.features import Preparation
from megae.downstream.reading import normalised_adjacency, read_edges, read_features, read_labels
from megae.downstream.stack import GraphBatch, GraphStack
from megae.graphs import is_graph_collection
from megae.imputers.build import seed_from
from megae.training.resources import pick_device


class GraphGCN(torch.nn.Module):
    r"""Two convolutions with batch norm, mean and maximum over the nodes of each graph, a linear map.

    .. math::
        H^{(1)} = \mathrm{ReLU}(\mathrm{norm}(\hat A X W^{(0)})), \quad
        H^{(2)} = \mathrm{ReLU}(\mathrm{norm}(\hat A\, \mathrm{drop}(H^{(1)}) W^{(1)})), \quad
        z_g = \mathrm{drop}\big(\big[\mathrm{mean}_{i \in g} H^{(2)}_i, \max_{i \in g} H^{(2)}_i\big]\big) W^{(2)}

    Parameters
    ----------
    columns, hidden, classes : int
        D, H, C.
    dropout : float

    Shapes
    ------
    batch of G graphs, N nodes in all -> (G, C)
    """

    def __init__(self, columns: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first = GCNConv(columns, hidden, normalize=False)
        self.first_norm = torch.nn.BatchNorm1d(hidden)
        self.second = GCNConv(hidden, hidden, normalize=False)
        self.second_norm = torch.nn.BatchNorm1d(hidden)
        self.last = torch.nn.Linear(2 * hidden, classes)
        self.dropout = dropout

    def forward(self, batch: GraphBatch) -> Tensor:
        h = F.relu(self.first_norm(self.first(batch.x, batch.A_hat)))  # (N, H)
        h = F.dropout(h, self.dropout, self.training)
        h = F.relu(self.second_norm(self.second(h, batch.A_hat)))  # (N, H)
        pools = [pool(h, batch.graph_of, batch.size) for pool in (global_mean_pool, global_max_pool)]
        return self.last(F.dropout(torch.cat(pools, dim=1), self.dropout, self.training))  # (G, C)


class GraphClassifier(BaseEstimator):
    """Classify graphs by two graph convolutions, mean and maximum pooling and a linear map.

    Cross-entropy with smoothed labels, Adam, a shuffled pass over the training graphs in each epoch. The weights kept
    are those of the epoch with the highest validation accuracy and, among equals, the lowest loss. Features are
    prepared by means and deviations of the training graphs alone.

    Parameters
    ----------
    features : "standardised", "centred" or "row-normalised"
        See :func:`megae.downstream.features.prepare_features`.
    hidden : int
    dropout : float in [0, 1)
    label_smoothing : float in [0, 1]
    learning_rate, weight_decay : float
        Of Adam.
    batch_size : int
        Graphs in a step, about: the batches of an epoch are equally large.
    max_epochs : int
    patience : int or None
        Epochs without a new best before stopping; None runs them all.
    time_budget : float, optional
        Seconds of training.
    random_state : int, RandomState, Generator or None
        The same seed gives the same bits on the same CPU and thread count.
    device : str
        "auto" is the GPU where there is one.
    verbose : int

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
    network_ : GraphGCN
    outcome_ : Outcome
        Best epoch, its loss and accuracy on validation, epochs run, why it stopped, seconds.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> edge = torch.tensor([[0], [1]])
    >>> values = torch.arange(12.0)
    >>> graphs = [Data(x=v.repeat(2, 1), edge_index=edge, y=torch.tensor([int(v > 5)])) for v in values]
    >>> classifier = GraphClassifier(hidden=8, max_epochs=40, random_state=0, device="cpu")
    >>> classifier.fit(graphs[::2], graphs[1::2]).predict(graphs[:1] + graphs[-1:])
    array([0, 1])
    """

    classes_: np.ndarray
    preparation_: Preparation
    network_: GraphGCN
    outcome_: Outcome

    def __init__(
        self,
        *,
        features: str = "standardised",
        hidden: int = 128,
        dropout: float = 0.3,
        label_smoothing: float = 0.1,
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        batch_size: int = 64,
        max_epochs: int = 300,
        patience: int | None = 100,
        time_budget: float | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        self.features = features
        self.hidden = hidden
        self.dropout = dropout
        self.label_smoothing = label_smoothing
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.time_budget = time_budget
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, train: Sequence[Data], validation: Sequence[Data]) -> Self:
        """Learn from some graphs, choose on others.

        Parameters
        ----------
        train, validation : lists of Data with ``x`` (N_i, D), ``edge_index`` (2, E_i) and integer ``y`` (1,)
            Complete features.

        Returns
        -------
        self
        """
        self._check()
        graphs, judged = _members(train, "train"), _members(validation, "validation")
        y, y_judged = _classes(graphs, "train"), _classes(judged, "validation")
        self.classes_ = np.unique(np.concatenate([y, y_judged]))
        self.preparation_ = Preparation.learn(_features(graphs, "train"), self.features)
        device, seed = pick_device(self.device), seed_from(self.random_state)
        stack, exam = self._stack(graphs, "train"), _to(self._stack(judged, "validation").all(), device)
        labels = torch.from_numpy(np.searchsorted(self.classes_, y)).to(device)
        truth = torch.from_numpy(np.searchsorted(self.classes_, y_judged)).to(device)
        with seeded(seed, device):
            network = GraphGCN(exam.x.shape[1], self.hidden, len(self.classes_), self.dropout).to(device)
            optimizer = torch.optim.Adam(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
            decks = self._decks(len(stack), seed)

            def epoch() -> Tensor:
                total = torch.zeros((), device=device)
                for chosen in next(decks):
                    optimizer.zero_grad(set_to_none=True)
                    z = network(_to(stack.take(chosen), device))
                    loss = F.cross_entropy(z, labels[torch.from_numpy(chosen)], label_smoothing=self.label_smoothing)
                    loss.backward()
                    optimizer.step()
                    total += loss.detach() * len(chosen)
                return total / len(stack)

            def judge() -> tuple[float, float]:
                z = network(exam)
                return float(F.cross_entropy(z, truth)), float((z.argmax(dim=1) == truth).float().mean())

            self.outcome_ = train_until(
                network,
                epoch,
                judge,
                by="accuracy",
                max_epochs=self.max_epochs,
                patience=self.patience,
                time_budget=self.time_budget,
                verbose=self.verbose,
                what="graph classifier",
            )
        self.network_ = network
        return self

    @torch.no_grad()
    def predict(self, graphs: Sequence[Data]) -> np.ndarray:
        """Class of every graph; their ``y`` is not read.

        Returns
        -------
        ndarray of shape (G,), values among ``classes_``
        """
        check_is_fitted(self)
        device = self.network_.last.weight.device
        z = self.network_(_to(self._stack(_members(graphs, "graphs"), "graphs").all(), device))
        return self.classes_[z.argmax(dim=1).cpu().numpy()]

    def accuracy(self, graphs: Sequence[Data]) -> float:
        """Share of these graphs whose predicted class is their ``y``."""
        return float(np.mean(self.predict(graphs) == _classes(_members(graphs, "graphs"), "graphs")))

    def _check(self) -> None:
        check_training(self.max_epochs, self.patience, self.time_budget)
        for name in ("hidden", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")
        if not 0.0 <= self.label_smoothing <= 1.0:
            raise ValueError(f"label_smoothing must be from 0 to 1, got {self.label_smoothing}")

    def _decks(self, n: int, seed: int) -> Iterator[list[np.ndarray]]:
        rng = np.random.default_rng([seed, 2])
        while True:
            yield np.array_split(rng.permutation(n), max(1, round(n / self.batch_size)))

    def _stack(self, graphs: Sequence[Data], name: str) -> GraphStack:
        prepared = self.preparation_(_features(graphs, name, len(self.preparation_.mean))).float()
        operators = [normalised_adjacency(read_edges(g)) for g in graphs]
        return GraphStack(prepared.split([len(g.x) for g in graphs]), operators)


def _members(graphs: Any, name: str) -> list[Data]:
    if not is_graph_collection(graphs):
        raise ValueError(f"{name} must be a list of PyG Data, at least one, or a PyG dataset; got {graphs!r:.80}")
    return list(graphs)


def _classes(graphs: Sequence[Data], name: str) -> np.ndarray:
    """One integer class for each graph, (G,)."""
    labels = []
    for k, g in enumerate(graphs):
        if g.get("y") is None:
            raise ValueError(f"{name}: graph {k} has no y; put its class there")
        label = read_labels(torch.as_tensor(g.y).reshape(-1), 1, f"{name}: y of graph {k}")
        if label[0] < 0:
            raise ValueError(f"{name}: graph {k} has no label (its y is negative); leave it out")
        labels.append(int(label[0]))
    return np.array(labels)


def _features(graphs: Sequence[Data], name: str, width: int | None = None) -> Tensor:
    """The features of all nodes, float64 (N, D)."""
    rows = [read_features(g, False, "GraphClassifier", f"{name}: graph {k}") for k, g in enumerate(graphs)]
    width = rows[0].shape[1] if width is None else width
    for k, x in enumerate(rows):
        if x.shape[1] != width:
            raise ValueError(f"{name}: graph {k} has {x.shape[1]} features, but {width} were expected")
    return torch.cat([x.detach().cpu().double() for x in rows])


def _to(batch: GraphBatch, device: torch.device) -> GraphBatch:
    if device.type == "cpu":
        return batch
    return GraphBatch(batch.x.to(device), batch.A_hat.to(device), batch.graph_of.to(device), batch.size)

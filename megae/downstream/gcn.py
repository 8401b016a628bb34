"""Two graph convolutions over complete features."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from megae.downstream.network import NetworkClassifier
from megae.downstream.reading import normalised_adjacency, sparse_tensor
from megae.graphs import to_adjacency

GCN_SETTINGS: dict[str, dict[str, Any]] = {
    "AmaPhoto": {"hidden": 64, "learning_rate": 0.03, "weight_decay": 5e-5},
}
"""Where Kipf & Welling's settings, the defaults, serve ill; chosen by validation accuracy (docs/downstream.md)."""


class GCN(torch.nn.Module):
    r"""Two layers on a normalised adjacency.

    .. math:: Z = \hat A \, \mathrm{drop}\big(\mathrm{ReLU}(\hat A X W^{(0)} + b^{(0)})\big) W^{(1)} + b^{(1)}

    Parameters
    ----------
    columns, hidden, classes : int
        D, H, C.
    dropout : float

    Shapes
    ------
    x (N, D), A_hat sparse (N, N) -> (N, C)
    """

    def __init__(self, columns: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first = GCNConv(columns, hidden, normalize=False)
        self.second = GCNConv(hidden, classes, normalize=False)
        self.dropout = dropout

    def forward(self, x: Tensor, A_hat: Tensor) -> Tensor:
        z = F.relu(self.first(x, A_hat))  # (N, H)
        return self.second(F.dropout(z, self.dropout, self.training), A_hat)  # (N, C)


class GCNClassifier(NetworkClassifier):
    r"""Classify nodes by a graph convolutional network of two layers.

    .. math::
        Z = \hat A \, \mathrm{ReLU}(\hat A X W^{(0)}) W^{(1)}, \qquad
        \hat A = (D + I)^{-1/2} (A + I) (D + I)^{-1/2}

    with softmax cross-entropy on the training nodes, dropout on X and between the layers, and weight decay on the
    first (Kipf & Welling, ICLR 2017, whose hidden width, rates and decay are the defaults; PyG's ``GCNConv``). The
    weights kept are those of the epoch with the lowest validation loss.

    Parameters
    ----------
    features : "centred", "row-normalised" or "standardised"
        See :func:`megae.downstream.features.prepare_features`.
    hidden : int
    dropout : float in [0, 1)
    learning_rate, weight_decay : float
        Of Adam; the decay is on the first layer.
    max_epochs : int
    patience : int or None
        Epochs without a lower validation loss before stopping; None runs them all.
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
    network_ : GCN
    outcome_ : Outcome
        Best epoch, its loss and accuracy on validation, epochs run, why it stopped, seconds.

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    >>> x = torch.tensor([[1.0, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    >>> graph = Data(x=x, edge_index=edges, y=torch.tensor([0, 0, -1, 1, 1, -1]))
    >>> GCNClassifier(random_state=0, device="cpu").fit(graph, train=[0, 3], validation=[1, 4]).predict(graph)
    array([0, 0, 0, 1, 1, 1])
    """

    network_: GCN

    def __init__(
        self,
        *,
        features: str = "centred",
        hidden: int = 16,
        dropout: float = 0.5,
        learning_rate: float = 0.01,
        weight_decay: float = 5e-4,
        max_epochs: int = 400,
        patience: int | None = 50,
        time_budget: float | None = None,
        random_state: Any = None,
        device: str = "auto",
        verbose: int = 0,
    ) -> None:
        super().__init__(
            features=features,
            hidden=hidden,
            dropout=dropout,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            max_epochs=max_epochs,
            patience=patience,
            time_budget=time_budget,
            random_state=random_state,
            device=device,
            verbose=verbose,
        )

    def _operands(self, graph: Data) -> tuple[Tensor, ...]:
        return graph.x, sparse_tensor(normalised_adjacency(to_adjacency(graph)))

    def _build(self, graph: Data, seed: int) -> tuple[GCN, list[torch.nn.Parameter]]:
        network = GCN(graph.x.shape[1], self.hidden, len(self.classes_), self.dropout)
        return network, list(network.first.parameters())

"""Graph convolutions over features with holes: sums over those neighbours that show a feature."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from megae.downstream.network import NetworkClassifier
from megae.downstream.reading import normalised_adjacency, sparse_tensor
from megae.graphs import to_adjacency

AGGREGATIONS = ("normalised", "mean")


class PaGNN(torch.nn.Module):
    r"""A linear layer over partially aggregated features, then a graph convolution.

    .. math:: Z = \hat A\, \mathrm{drop}\big(\mathrm{ReLU}(P W^{(0)} + b^{(0)})\big) W^{(1)} + b^{(1)}

    with P as in :func:`partial_aggregation`, which has no parameters and is computed once.

    Parameters
    ----------
    columns, hidden, classes : int
        D, H, C.
    dropout : float

    Shapes
    ------
    P (N, D), A_hat sparse (N, N) -> (N, C)
    """

    def __init__(self, columns: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.first = torch.nn.Linear(columns, hidden)
        torch.nn.init.xavier_uniform_(self.first.weight)
        torch.nn.init.zeros_(self.first.bias)
        self.second = GCNConv(hidden, classes, normalize=False)
        self.dropout = dropout

    def forward(self, P: Tensor, A_hat: Tensor) -> Tensor:
        z = F.relu(self.first(P))  # (N, H)
        return self.second(F.dropout(z, self.dropout, self.training), A_hat)  # (N, C)


class PaGNNClassifier(NetworkClassifier):
    r"""Classify nodes by a partial graph neural network, which takes features with holes.

    The first layer sums each feature over those neighbours that show it, and makes up for the weight of the others
    (Jiang & Zhang 2020, arXiv:2003.10130),

    .. math::
        H = \mathrm{ReLU}(P W^{(0)} + b), \qquad
        P = \hat A (M \odot X) \odot (\hat A \mathbf 1) \oslash (\hat A M), \qquad
        Z = \hat A H W^{(1)} + b',

    where M is 1 where a feature is observed and :math:`\hat A = (D + I)^{-1/2} (A + I) (D + I)^{-1/2}`. Without holes
    this is a graph convolutional network. ``aggregation="mean"`` is the paper's other form, on the plain adjacency,
    :math:`P = A (M \odot X) \oslash (A M)` with self-loops in A. A feature that neither the node nor any neighbour
    shows counts as 0, the column mean of centred features.

    Deviations
    ----------
    - Dropout on the first layer's input falls on P, not on X, so that P is computed once.
    - Only the first layer is partial: what it passes on has no holes.
    - Settings are those of :class:`~megae.downstream.GCNClassifier` (Kipf & Welling, ICLR 2017).

    Parameters
    ----------
    features : "centred", "row-normalised" or "standardised"
        See :func:`megae.downstream.features.prepare_features`.
    aggregation : "normalised" or "mean"
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
    network_ : PaGNN
    outcome_ : Outcome

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    >>> x = torch.tensor([[1.0, 0], [1, 0], [torch.nan, 0], [0, 1], [0, 1], [torch.nan, torch.nan]])
    >>> graph = Data(x=x, edge_index=edges, y=torch.tensor([0, 0, -1, 1, 1, -1]))
    >>> PaGNNClassifier(random_state=0, device="cpu").fit(graph, train=[0, 3], validation=[1, 4]).predict(graph)
    array([0, 0, 0, 1, 1, 1])
    """

    takes_holes: ClassVar[bool] = True

    network_: PaGNN

    def __init__(
        self,
        *,
        features: str = "centred",
        aggregation: str = "normalised",
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
        self.aggregation = aggregation

    def _check(self) -> None:
        super()._check()
        if self.aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation must be one of {', '.join(AGGREGATIONS)}, got {self.aggregation!r}")

    def _build(self, graph: Data, seed: int) -> tuple[PaGNN, list[torch.nn.Parameter]]:
        network = PaGNN(graph.x.shape[1], self.hidden, len(self.classes_), self.dropout)
        return network, list(network.first.parameters())

    def _operands(self, graph: Data) -> tuple[Tensor, ...]:
        A = to_adjacency(graph)
        A_hat = normalised_adjacency(A)
        B = A_hat
        if self.aggregation == "mean":
            with_loops = sp.csr_array(A + sp.eye_array(A.shape[0]))
            B = sp.csr_array(sp.diags_array(1.0 / with_loops.sum(axis=1)) @ with_loops)
        return torch.from_numpy(partial_aggregation(graph.x.numpy(), B)), sparse_tensor(A_hat)


def partial_aggregation(x: np.ndarray, B: sp.csr_array) -> np.ndarray:
    r"""Sum each feature over the neighbours that show it, scaled up to the weight of all of them.

    .. math:: P = B (M \odot X) \odot (B \mathbf 1) \oslash (B M)

    Parameters
    ----------
    x : ndarray of shape (N, D), NaN in holes
    B : csr_array of shape (N, N), not negative

    Returns
    -------
    ndarray of shape (N, D), of the dtype of x
        0 where no neighbour shows the feature.
    """
    observed = ~np.isnan(x)
    total = B @ np.where(observed, x, 0)
    shown = B @ observed.astype(B.dtype)
    full = np.broadcast_to(B.sum(axis=1)[:, None], shown.shape)
    scale = np.divide(full, shown, out=np.zeros_like(shown), where=shown > 0)
    scale[B @ (~observed).astype(B.dtype) == 0] = 1.0
    return (total * scale).astype(x.dtype)

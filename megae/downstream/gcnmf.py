"""Graph convolutions over features with holes, which a Gaussian mixture stands in for."""

from __future__ import annotations

import math
import warnings
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

from megae.downstream.network import NetworkClassifier
from megae.downstream.reading import normalised_adjacency, sparse_tensor
from megae.graphs import to_adjacency

NO_VARIANCE = 1e-12
"""Below this, a sum of Gaussians counts as a number."""


class GCNMF(torch.nn.Module):
    r"""Two graph convolutions; the first takes the expectation over what is missing.

    Holes of node i follow component k of a mixture of diagonal Gaussians with weight :math:`\gamma_{ik}`. With
    :math:`M^{[k]}` the features, :math:`\mu^{[k]}` in holes, and :math:`S^{[k]}` zero, :math:`\sigma^{2[k]}` in holes,
    the input of the first activation is Gaussian, with mean and variance

    .. math::
        \hat M^{[k]} = \hat A M^{[k]} W + b, \qquad \hat S^{[k]} = (\hat A \odot \hat A) S^{[k]} (W \odot W),

    .. math::
        H_i = \sum_k \gamma_{ik} \, \mathbb E[\mathrm{ReLU}(N(\hat M^{[k]}_i, \hat S^{[k]}_i))], \qquad
        \gamma_{ik} \propto \pi_k N(x_i^{\text{observed}}; \mu^{[k]}, \sigma^{2[k]}) .

    Since all components share the observed cells, :math:`M^{[k]} W = X_0 W + N \mathrm{diag}(\mu^{[k]}) W` with N one
    in holes: the tensors of shape (K, N, D) are never made.

    Parameters
    ----------
    weights, means, variances : ndarrays of shape (K,), (K, D), (K, D)
        The mixture to start from; all three are learnt, as logarithms where they must be positive.
    hidden, classes : int
        H, C.
    dropout : float

    Shapes
    ------
    values with zeros in holes, holes, kept (N, D), A_hat, A_hat * A_hat sparse (N, N) -> (N, C); ``kept`` is a dropout
    mask, already scaled.
    """

    centre: Tensor
    unit: Tensor

    def __init__(
        self, weights: np.ndarray, means: np.ndarray, variances: np.ndarray, hidden: int, classes: int, dropout: float
    ) -> None:
        super().__init__()
        D = means.shape[1]
        centre = weights @ means
        unit = np.sqrt(weights @ (variances + (means - centre) ** 2))
        self.register_buffer("centre", torch.as_tensor(centre, dtype=torch.float32))
        self.register_buffer("unit", torch.as_tensor(unit, dtype=torch.float32))
        self.log_weights = torch.nn.Parameter(torch.as_tensor(np.log(weights), dtype=torch.float32))
        self.offsets = torch.nn.Parameter(torch.as_tensor((means - centre) / unit, dtype=torch.float32))
        self.log_variances = torch.nn.Parameter(torch.as_tensor(np.log(variances), dtype=torch.float32))
        self.weight = torch.nn.Parameter(torch.empty(D, hidden))
        self.bias = torch.nn.Parameter(torch.zeros(hidden))
        torch.nn.init.xavier_uniform_(self.weight, gain=math.sqrt(2.0))
        self.second = GCNConv(hidden, classes, normalize=False)
        self.dropout = dropout

    @property
    def means(self) -> Tensor:
        """(K, D)"""
        return self.centre + self.unit * self.offsets

    def responsibilities(self, values: Tensor, holes: Tensor) -> Tensor:
        """(N, D) features with zeros in holes, one in holes -> (N, K), by the observed features alone."""
        observed = 1.0 - holes
        y = values - self.centre * observed
        means, precision = self.unit * self.offsets, torch.exp(-self.log_variances)  # (K, D)
        square = (y * y) @ precision.T - 2.0 * y @ (means * precision).T
        log_likelihood = -0.5 * (square + observed @ (means**2 * precision + self.log_variances).T)  # up to a constant
        return torch.softmax(F.log_softmax(self.log_weights, dim=0) + log_likelihood, dim=1)

    def first(self, values: Tensor, holes: Tensor, gamma: Tensor, A_hat: Tensor, A_hat2: Tensor) -> Tensor:
        """Values and holes (N, D), both perhaps under dropout, and responsibilities (N, K) -> (N, H)."""
        K, (D, H) = len(self.log_weights), self.weight.shape
        shifts = self.means.T[:, :, None] * self.weight[:, None, :]  # (D, K, H)
        spreads = self.log_variances.exp().T[:, :, None] * self.weight[:, None, :] ** 2  # (D, K, H)
        missing = holes @ torch.cat([shifts, spreads], dim=1).view(D, 2 * K * H)
        mean = A_hat @ ((values @ self.weight).repeat(1, K) + missing[:, : K * H])  # (N, K * H)
        variance = A_hat2 @ missing[:, K * H :].contiguous()  # (N, K * H)
        expected = expected_relu(mean.view(-1, K, H) + self.bias, variance.view(-1, K, H))
        return (gamma[:, :, None] * expected).sum(dim=1)

    def forward(
        self, values: Tensor, holes: Tensor, A_hat: Tensor, A_hat2: Tensor, kept: Tensor | None = None
    ) -> Tensor:
        gamma = self.responsibilities(values, holes)
        if kept is not None:
            values, holes = values * kept, holes * kept
        z = self.first(values, holes, gamma, A_hat, A_hat2)
        return self.second(F.dropout(z, self.dropout, self.training), A_hat)


class GCNMFClassifier(NetworkClassifier):
    r"""Classify nodes by a graph convolutional network that takes features with holes (GCNmf).

    Missing features are a mixture of Gaussians whose means, variances and weights are learnt with the network, for the
    classes; the first layer passes on the expected activation (Taguchi, Liu & Murata, Future Generation Computer
    Systems 2021, arXiv:2007.04583),

    .. math::
        \mathbb E[\mathrm{ReLU}(N(\mu, \sigma^2))] = \sigma\, \mathrm{NR}(\mu / \sigma), \qquad
        \mathrm{NR}(w) = \frac{e^{-w^2/2}}{\sqrt{2 \pi}} + \frac{w}{2} \Big(1 + \mathrm{erf}\frac{w}{\sqrt 2}\Big) .

    See :class:`GCNMF` for the layers. The mixture starts from EM on features whose holes hold the column mean. All
    settings but the number of epochs are those of the authors' program (github.com/marblet/GCNmf): features as they
    are, width, number of components, dropout, learning rate, decay of every parameter, and patience.

    Deviations
    ----------
    - Responsibilities are those of the observed features as they are; the authors' program takes them from features
      under dropout, with holes counting as each component's own mean, and its normalisation is the same for every
      component.
    - A cell dropped is dropped for all components at once.
    - The bias comes after the sum over neighbours, not before it.
    - Means are learnt as offsets from the mean of the whole mixture, in units of each column's deviation, so that the
      rate suits features of any size; decay draws them towards that mean, in the authors' program towards 0.
    - The weights kept are those of the lowest validation loss, and patience counts from there; the authors' program
      asks for accuracy too. 2,000 epochs at most; theirs has 10,000.

    Parameters
    ----------
    features : "as-is", "centred", "row-normalised" or "standardised"
        See :func:`megae.downstream.features.prepare_features`. Rows divided by their sum are far smaller than binary
        ones, and the decay outweighs them; set it lower there.
    components : int
        K; less where there are fewer nodes.
    hidden : int
    dropout : float in [0, 1)
    learning_rate, weight_decay : float
        Of Adam; the decay is on everything learnt.
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
    network_ : GCNMF
    outcome_ : Outcome

    Examples
    --------
    >>> import torch
    >>> from torch_geometric.data import Data
    >>> edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 0, 4, 5, 3]])
    >>> x = torch.tensor([[1.0, 0], [1, 0], [torch.nan, 0], [0, 1], [0, 1], [torch.nan, torch.nan]])
    >>> graph = Data(x=x, edge_index=edges, y=torch.tensor([0, 0, -1, 1, 1, -1]))
    >>> classifier = GCNMFClassifier(components=2, max_epochs=100, random_state=0, device="cpu")
    >>> classifier.fit(graph, train=[0, 3], validation=[1, 4]).predict(graph)
    array([0, 0, 0, 1, 1, 1])
    """

    takes_holes: ClassVar[bool] = True

    network_: GCNMF

    def __init__(
        self,
        *,
        features: str = "as-is",
        components: int = 5,
        hidden: int = 16,
        dropout: float = 0.5,
        learning_rate: float = 0.005,
        weight_decay: float = 1e-2,
        max_epochs: int = 2000,
        patience: int | None = 100,
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
        self.components = components

    def _check(self) -> None:
        super()._check()
        if self.components < 1:
            raise ValueError(f"components must be at least 1, got {self.components}")

    def _operands(self, graph: Data) -> tuple[Tensor, ...]:
        A_hat = normalised_adjacency(to_adjacency(graph))
        holes = torch.isnan(graph.x)
        values = graph.x.masked_fill(holes, 0.0)
        return values, holes.to(graph.x.dtype), sparse_tensor(A_hat), sparse_tensor(A_hat.power(2))

    def _build(self, graph: Data, seed: int) -> tuple[GCNMF, list[torch.nn.Parameter]]:
        start = fitted_mixture(graph.x.numpy(), self.components, seed)
        network = GCNMF(*start, self.hidden, len(self.classes_), self.dropout)
        return network, list(network.parameters())

    def _dropping(self, operands: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
        return torch.ones_like(operands[0]), lambda kept: (*operands, kept)


def expected_relu(mean: Tensor, variance: Tensor) -> Tensor:
    r"""Expectation of the positive part of a Gaussian, elementwise.

    .. math:: \sigma\, \phi(\mu / \sigma) + \mu\, \Phi(\mu / \sigma)

    Parameters
    ----------
    mean, variance : Tensors of one shape
        Where the variance vanishes, the result is the positive part of the mean.
    """
    vanishes = variance <= NO_VARIANCE
    deviation = torch.where(vanishes, 1.0, variance).sqrt()
    w = mean / deviation
    density = torch.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi)
    return torch.where(vanishes, F.relu(mean), deviation * density + mean * torch.special.ndtr(w))


def fitted_mixture(x: np.ndarray, components: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (K,), means (K, D) and variances (K, D) by EM on x (N, D), NaN replaced by the column mean."""
    rows = np.asarray(x, dtype=np.float64)
    observed = ~np.isnan(rows)
    mean = np.where(observed, rows, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    rows = np.where(observed, rows, mean)
    mixture = GaussianMixture(min(components, len(rows)), covariance_type="diag", random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(rows)
    return np.maximum(mixture.weights_, 1e-8), mixture.means_, mixture.covariances_

"""sRMGCNN: the two factors of a table, diffused over the graphs of its rows and of its columns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from scipy.sparse.linalg import ArpackError, svds
from torch import Tensor

from megae.graphs import knn_adjacency
from megae.imputers.neural import Ground
from megae.imputers.pooled import PooledImputer, PooledNetwork
from megae.kernels import FilterOperator
from megae.models.srmgcnn import SeparableRecurrentNetwork, dirichlet
from megae.spectral import normalized_laplacian
from megae.training.pool import GraphPool


class SRMGCNNImputer(PooledImputer):
    r"""Fill holes with the separable recurrent multi-graph convolutional network.

    Monti, Bronstein, Bresson: "Geometric Matrix Completion with Recurrent Multi-Graph Neural Networks", NeurIPS 2017,
    arXiv:1704.06803.

    .. math::
        \hat X &= W^{(T)} H^{(T)\top}, \qquad
        W^{(t+1)} = W^{(t)} + \mathrm{LSTM}\Big(\sum_{k=0}^{K} T_k(L_r - I) W^{(t)} \Theta_k\Big) \\
        \mathcal{L} &= \frac{1}{|\Omega|} \|\hat X - X\|_\Omega^2
        + \frac{\gamma}{2} \big(\|\hat X\|_{L_r}^2 + \|\hat X\|_{L_c}^2\big), \qquad
        \|\hat X\|_{L_r}^2 = \mathrm{tr}(\hat X^\top L_r \hat X) / |X|

    and likewise for H on the graph of the columns, which joins each column with its nearest ones by the observed
    training cells. H starts as the right factor of a truncated SVD of the training table with means in its holes. See
    :class:`megae.models.srmgcnn.SeparableRecurrentNetwork`. By its paper the method completes one table; new rows start
    as the ridge regression of what they show on the learnt H, and diffuse over their own graph with the same weights.

    Parameters
    ----------
    rank : int
        Columns of W and H; 10 in the authors' code.
    order : int
        K; filters of five coefficients, order 4, in the authors' code.
    features, diffusion_steps : int
        Width of convolution and LSTM, and T; 32 and 10 in the authors' code.
    smoothness : float
        :math:`\gamma`; 1e-10 in the authors' code for sums over the table, that is 1e-10 |X| for means.
    ridge : float
        Of the regression that starts W.
    column_neighbors : int
        Of the graph of the columns; 10 in the authors' data.
    loss_on, batch_fraction : see :class:`megae.imputers.pooled.PooledImputer`
    max_steps, learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`. The authors' learning rate is 1e-3.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    network_ : the trained network
    outcome_ : what training came to

    Notes
    -----
    Deviations from the paper and the authors' code (github.com/fmonti/mgcnn):

    - W starts by ridge regression on the visible cells, for training rows too, where the authors take the left factor
      of the SVD, which a new row does not have.
    - The graph of the columns comes out of the training cells; the authors' data bring one.
    - The authors draw once which half of the cells starts the factors, and fit all of them; here cells are hidden
      afresh in each step (on few graphs at most three tenths of a column) and asked for (``loss_on="observed"`` asks
      for all).
    - The Dirichlet energies are weighed by :math:`\gamma / 2`, as in the authors' code; their paper gives them weight
      1 and the error :math:`\mu / 2`.
    - Rank 15 in place of 10, :math:`\gamma` 1e-4 on means, and the singular values that H starts with are divided by
      :math:`\sqrt N`, so that they do not grow with the table.
    - The LSTM is the usual one (the authors' has a sigmoid in place of each tanh). The layer that moves the factors
      starts at zero, so that training starts at the factorisation; columns are standardised, in place of mapping the
      output to the range of the ratings.
    - Several graphs make one step; the learning rate makes one cycle over at most 1,000 steps, where the authors take
      10,000 and more at a constant one; training ends where 20 evaluations in a row bring nothing (``patience=20``);
      gradients are clipped at norm 1.
    - The weights of the evaluation with the lowest error on held-out cells are kept; the authors keep those of the
      lowest training loss.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.stack([np.arange(40), np.roll(np.arange(40), -1)])
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> filled = SRMGCNNImputer(max_steps=10, random_state=0).fit_transform(X, graph=ring)
    >>> bool(np.isnan(filled).any())
    False
    """

    inductive: ClassVar[bool] = False

    def __init__(
        self,
        *,
        rank: int = 15,
        order: int = 4,
        features: int = 32,
        diffusion_steps: int = 10,
        smoothness: float = 1e-4,
        ridge: float = 0.1,
        column_neighbors: int = 10,
        loss_on: str = "hidden",
        batch_fraction: float = 1 / 6,
        max_steps: int = 1000,
        learning_rate: float = 1e-3,
        patience: int | None = 20,
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
            max_steps=max_steps,
            learning_rate=learning_rate,
            patience=patience,
            time_budget=time_budget,
            validation_fraction=validation_fraction,
            device=device,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            column_types=column_types,
            clip=clip,
            fallback=fallback,
            n_neighbors=n_neighbors,
            unknown_nodes=unknown_nodes,
        )
        self.rank = rank
        self.order = order
        self.features = features
        self.diffusion_steps = diffusion_steps
        self.smoothness = smoothness
        self.ridge = ridge
        self.column_neighbors = column_neighbors
        self.loss_on = loss_on
        self.batch_fraction = batch_fraction

    def _build(self, ground: Ground, pool: GraphPool) -> PooledNetwork:
        for name in ("rank", "features", "diffusion_steps", "column_neighbors"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if self.order < 0 or self.smoothness < 0 or not self.ridge > 0:
            raise ValueError("order and smoothness must not be negative, and ridge must be above 0")
        cells = torch.where(ground.division.trainable, pool.whole.values.cpu(), torch.nan).numpy()
        L = normalized_laplacian(knn_adjacency(cells.T, self.column_neighbors))
        body = SeparableRecurrentNetwork(
            torch.from_numpy(right_factor(np.nan_to_num(cells), self.rank)),
            FilterOperator.from_laplacian(L, device=ground.device),
            order=self.order,
            features=self.features,
            steps=self.diffusion_steps,
            ridge=self.ridge,
        )
        return _Network(body, self.smoothness)


class _Network(PooledNetwork):
    def __init__(self, body: SeparableRecurrentNetwork, smoothness: float) -> None:
        super().__init__()
        self.body, self.smoothness = body, smoothness

    def forward(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> Tensor:
        return self.body(values, visible, operator)

    def loss(self, values: Tensor, visible: Tensor, asked: Tensor, operator: FilterOperator) -> Tensor:
        x = self(values, visible, operator)
        counted = asked.to(values.dtype)
        fit = ((x - values) * counted).square().sum() / counted.sum().clamp_min(1.0)
        if self.smoothness == 0:
            return fit
        rough = dirichlet(x, operator) + dirichlet(x.T.contiguous(), self.body.column_operator)
        return fit + self.smoothness / 2 * rough / x.numel()


def right_factor(x: np.ndarray, rank: int) -> np.ndarray:
    r"""H of the best approximation :math:`X \approx W H^\top` of that rank, singular values shared by both factors.

    Parameters
    ----------
    x : ndarray of shape (N, E)

    Returns
    -------
    ndarray of shape (E, min(rank, N, E)), float32
        :math:`V (S / \sqrt N)^{1/2}`, whose size does not grow with N.
    """
    rank, cells = min(rank, *x.shape), x.astype(np.float64)
    s, V = _leading(cells, rank) if min(x.shape) > 200 and rank < min(x.shape) else _all_singular(cells)
    return (V[:rank].T * np.sqrt(s[:rank] / np.sqrt(len(x)))).astype(np.float32)


def _leading(x: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest singular values, descending, and their right vectors, by Lanczos from a vector of ones.

    A table that this vector tells nothing of, of constant columns or of columns that sum to zero exactly, is decomposed
    in full.
    """
    try:
        _, s, V = svds(x, k=rank, v0=np.ones(min(x.shape)))
    except ArpackError:
        return _all_singular(x)
    return s[::-1], V[::-1]


def _all_singular(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, s, V = np.linalg.svd(x, full_matrices=False)
    return s, V

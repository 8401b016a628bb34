"""GDN: what a graph convolution has smoothed is sharpened again, and denoised by wavelets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.graphs import collate, to_adjacency
from megae.imputers.build import standardisation
from megae.imputers.neural import Ground, Scaler
from megae.imputers.pooled import PooledImputer, PooledNetwork
from megae.kernels import FilterOperator
from megae.models.gdn import GraphDeconvolution
from megae.training.pool import GraphPool


class GDNImputer(PooledImputer):
    r"""Fill holes with a graph convolutional encoder and a graph deconvolutional decoder.

    Li, Li, Liu, Yu, Li, Cheng: "Deconvolutional Networks on Graph Data", NeurIPS 2021, arXiv:2110.15528.

    .. math::
        H &= \mathrm{GCN}(X \odot R), \qquad M = \phi(g_c^{-1}(L) H W), \\
        \hat X &= \Psi_s\, \phi(\Psi_s^{-1} M W')\, W'', \qquad \Psi_s = \exp(-s L)

    The encoder smooths with :math:`g_c(L)`; the decoder applies the inverse filter, and takes the noise that this
    amplifies out again by a perceptron on coefficients of heat wavelets. All filters are truncated Maclaurin series.
    See :class:`megae.models.gdn.GraphDeconvolution` for every layer. Graphs never seen are filled without refitting.

    Parameters
    ----------
    hidden : int
        Width; the second code has half of it. 256 and 128 in the authors' code.
    kernel : {"heat", "gcn"}
        What the encoder smooths with: :math:`e^{-\lambda}`, undone by :math:`e^{\lambda}`, as in the authors' code; or
        :math:`1 - \lambda`, undone by :math:`\sum_n \lambda^n \approx 1 / (1 - \lambda)`, as in the paper's text.
    order : int
        Of the Maclaurin series; 4 in the authors' code.
    wavelet_scale : float
        s.
    loss_on : {"hidden", "observed"}
        Learn from the cells hidden in a step alone, or from every observed cell.
    batch_fraction : float
        Share of the graphs in one step, where there are many.
    weight_decay : float
    max_steps, learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`. The authors' learning rate is 5e-3 too.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    network_ : the trained network
    outcome_ : what training came to

    Notes
    -----
    Deviations from the paper and from the authors' code (github.com/yliukj/GDN):

    - In each step some observed cells are hidden and asked for (on few graphs at most three tenths of a column), so
      that the network learns to fill rather than to copy. The authors reconstruct the very cells they put in;
      ``loss_on="observed"`` asks for those as well. For Douban they leave out the 200 cells with the largest errors.
    - The self-looped adjacency is normalised symmetrically (the paper's :math:`L_{sym}`); their code divides by the
      degree. Their 0.1 I on top of the filters for Douban is left out.
    - Two convolutions whose codes stand side by side, as in their code for Ciao (for Douban it has one).
    - Their code sharpens and smooths once; the denoising between two wavelet transforms is that of the paper.
    - Both convolutions and the inverse filter their input before their perceptron; the layers of the authors' code for
      Ciao filter after it. The second convolution ends in a ReLU, not a SELU.
    - The perceptron of the inverse is 256 wide inside (``hidden``), that of the authors' code 384, as wide as both
      codes together.
    - Layers have biases; columns are centred, so that a hole, which is 0, reads as the mean, and in units of their
      ranges, so that squared errors count as they are judged.
    - No edge is dropped, and weights do not decay (``weight_decay``; theirs 5e-4 or 1e-3).
    - The learning rate makes one cycle over at most 1,500 steps instead of decaying every ten of 200 epochs; training
      ends where 20 evaluations in a row bring nothing (``patience=20``). Gradients are clipped at norm 1, as in their
      code for Douban (for Ciao at 0.5).
    - The weights of the evaluation with the lowest error on held-out cells are kept; the authors report the lowest
      error on test cells over all epochs.
    - Several graphs make one step. Discrete columns are fitted by squared error, as the authors fit ratings.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.stack([np.arange(40), np.roll(np.arange(40), -1)])
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> filled = GDNImputer(max_steps=20, hidden=16, random_state=0).fit_transform(X, graph=ring)
    >>> bool(np.isnan(filled).any())
    False
    """

    def __init__(
        self,
        *,
        hidden: int = 256,
        kernel: str = "heat",
        order: int = 4,
        wavelet_scale: float = 1.0,
        loss_on: str = "hidden",
        batch_fraction: float = 1 / 6,
        weight_decay: float = 0.0,
        max_steps: int = 1500,
        learning_rate: float = 5e-3,
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
        self.hidden = hidden
        self.kernel = kernel
        self.order = order
        self.wavelet_scale = wavelet_scale
        self.loss_on = loss_on
        self.batch_fraction = batch_fraction
        self.weight_decay = weight_decay

    def _build(self, ground: Ground, pool: GraphPool) -> PooledNetwork:
        for name in ("hidden", "order"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if not self.wavelet_scale > 0:
            raise ValueError(f"wavelet_scale must be above 0, got {self.wavelet_scale!r}")
        E = pool.whole.values.shape[1]
        return _Network(
            GraphDeconvolution(E, E, width=self.hidden, kernel=self.kernel, order=self.order, scale=self.wavelet_scale)
        )

    def _units(self, ground: Ground) -> Scaler:
        return in_ranges(ground)

    def _pool(self, graphs: Sequence[Data], device: torch.device) -> GraphPool:
        return LoopedPool(graphs, self.scaler_.shift, self.scaler_.scale, device)


def in_ranges(ground: Ground) -> Scaler:
    """Columns without their means, in units of their ranges, all times the number that makes a typical deviation one.

    So a squared error counts as it does where methods are judged, whichever column it falls in.
    """
    mean, _, deviation, span = standardisation(ground.division.train, ground.division.trainable, "standard", "range")
    varies = deviation < span
    typical = np.sqrt(np.mean((deviation / span)[varies] ** 2)) if varies.any() else 1.0
    return Scaler(mean, span * typical)


class _Network(PooledNetwork):
    def __init__(self, body: GraphDeconvolution) -> None:
        super().__init__()
        self.body = body

    def forward(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> Tensor:
        return self.body(values * visible, operator)


class LoopedPool(GraphPool):
    """Graphs whose every node has an edge of weight 1 to itself."""

    def __init__(self, graphs: Sequence[Data], mean: np.ndarray, scale: np.ndarray, device: torch.device) -> None:
        super().__init__(graphs, mean, scale, device)
        operator = FilterOperator.from_laplacian(looped_laplacian(to_adjacency(collate(graphs))))
        self.csr = tuple(t.numpy() for t in (operator.indptr, operator.indices, operator.values))
        self.whole = replace(self.whole, operator=operator.to(device))


def looped_laplacian(A: sp.csr_array) -> sp.csr_array:
    r"""Normalised Laplacian :math:`I - \tilde D^{-1/2} (A + I) \tilde D^{-1/2}`, (N, N), spectrum in [0, 2)."""
    eye = sp.eye_array(A.shape[0], format="csr")
    root = sp.diags_array(1.0 / np.sqrt(np.asarray(A.sum(axis=1)).ravel() + 1.0))
    return sp.csr_array(eye - root @ (A + eye) @ root)

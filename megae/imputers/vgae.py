"""VGAE: the variational graph autoencoder, its latent codes decoded into attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch_geometric.data import Data

from megae.graphs import collate
from megae.imputers.graphwise import judge, per_range, tempered
from megae.imputers.neural import Ground, NeuralImputer, Scaler
from megae.models.vgae import (
    PairsWithoutEdge,
    VariationalGraphAutoencoder,
    edge_loss,
    kl_to_standard_normal,
    normalised_edges,
)
from megae.training.descent import descend
from megae.training.hiding import step_generator
from megae.training.loop import Outcome
from megae.training.resources import pick_device


@dataclass(frozen=True)
class GraphUnion:
    """Graphs as one disconnected graph.

    Parameters
    ----------
    values : Tensor of shape (N, E), scaled, 0 in holes
    observed : bool Tensor of shape (N, E)
    edge_index : int64 Tensor of shape (2, M), both directions
    ptr : int64 Tensor of shape (G + 1,)
    normalised : edges with loops (2, M + N) and their weights, see :func:`megae.models.vgae.normalised_edges`
    """

    values: Tensor
    observed: Tensor
    edge_index: Tensor
    ptr: Tensor
    normalised: tuple[Tensor, Tensor]

    @classmethod
    def of(cls, graphs: Sequence[Data], scaler: Scaler, device: torch.device) -> Self:
        batch = collate(graphs)
        values = scaler.forward(batch.x, device)
        edges, weight = batch.edge_index.to(device), batch.edge_weight.to(device, torch.float32)
        normalised = normalised_edges(edges, weight, len(values))
        return cls(torch.nan_to_num(values), torch.isfinite(values), edges, batch.ptr.to(device), normalised)


class VGAEImputer(NeuralImputer):
    r"""Fill holes with a variational graph autoencoder (Kipf & Welling, NeurIPS workshop 2016, arXiv:1611.07308).

    A two-layer graph convolution maps every node to a Gaussian :math:`q(z_i | X, A) = N(\mu_i, \sigma_i^2)`, inner
    products of the codes give edges and a perceptron attributes, see
    :class:`megae.models.vgae.VariationalGraphAutoencoder`. Every step hides some observed cells H again and descends

    .. math::
        \frac{1}{|H|} \sum_{(i,j) \in H} w_j^2 (\hat x_{ij} - x_{ij})^2
        - \lambda_A \, \overline{\log p(A \mid Z)}
        + \frac{\lambda_{KL}}{E} \, \overline{\mathrm{KL}\bigl(q(z_i) \,\|\, N(0, I)\bigr)}

    where bars are means over pairs and over nodes. Columns are standardised; :math:`w_j`, the deviation of a column
    over its range, brought to a mean square of 1, makes errors count in ranges. Holes are filled with what the mean
    :math:`\mu_i` decodes to. New graphs go through the same encoder: it is inductive.

    Deviations
    ----------
    - The attribute decoder and its loss: the paper decodes edges alone.
    - Input cells that are missing or hidden are 0, the column's mean after standardisation. On few graphs at most three
      tenths of a column are hidden.
    - Errors are weighted by the ranges of the columns, :math:`w_j` above.
    - Edge likelihood on the edges and as many pairs without one, drawn anew in every step from the same graph; the
      paper takes all pairs, those of a node with itself too, edges weighted up to the same total.
    - The weights :math:`\lambda_A = 0.1` and :math:`\lambda_{KL} = 0.01` beside the attributes, which the paper does
      not have. Convolutions have biases, and the attribute decoder starts at the column means. :math:`\log \sigma` is
      clamped at 10.
    - Edge weights count in the convolutions; the likelihood asks whether there is an edge.
    - 600 steps where the paper has 200, the best of them by held-out cells. Widths (32, 16) and the learning rate
      (0.01) are the paper's.

    Parameters
    ----------
    hidden, latent, decoder_hidden : int
        Width of the first convolution, of the codes, and of the attribute decoder.
    edge_weight, kl_weight : float
        :math:`\lambda_A`, 0 drops the edge decoder, and :math:`\lambda_{KL}`, 0 drops the prior.
    loss_on : {"hidden", "all"}
        Attribute loss on the cells hidden again, or on all training cells.
    dropout : float
    max_steps, learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> filled = VGAEImputer(max_steps=30, random_state=0).fit_transform(X, graph=sp.eye_array(40, k=1))
    >>> filled.shape, bool(np.isnan(filled).any())
    ((40, 2), False)
    """

    kind: ClassVar[str] = "graph"
    inductive: ClassVar[bool] = True
    _scaling = "standard"

    def __init__(
        self,
        *,
        hidden: int = 32,
        latent: int = 16,
        decoder_hidden: int = 32,
        edge_weight: float = 0.1,
        kl_weight: float = 0.01,
        loss_on: str = "hidden",
        dropout: float = 0.0,
        max_steps: int = 600,
        learning_rate: float = 0.01,
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
        self.latent = latent
        self.decoder_hidden = decoder_hidden
        self.edge_weight = edge_weight
        self.kl_weight = kl_weight
        self.loss_on = loss_on
        self.dropout = dropout

    def _train(self, ground: Ground) -> None:
        self._check_parameters()
        ground = tempered(ground)
        division, device = ground.division, ground.device
        union = GraphUnion.of(division.train, ground.scaler, device)
        trainable = division.trainable.to(device)
        E = union.values.shape[1]
        network = VariationalGraphAutoencoder(
            E, E, hidden=self.hidden, latent=self.latent, decoder_hidden=self.decoder_hidden, dropout=self.dropout
        ).to(device)
        self.network_ = network
        optimizer = torch.optim.Adam(network.parameters(), self.learning_rate)
        weight = per_range(ground)
        weight = weight / weight.square().mean().sqrt()
        without_edge = PairsWithoutEdge(union.edge_index, union.ptr)

        def step(k: int, progress: float) -> Tensor:
            hidden = ground.hide(trainable, k)
            asked = hidden if self.loss_on == "hidden" else trainable
            filled, z, mean, log_deviation = network(union.values * (trainable & ~hidden), *union.normalised)
            errors = ((filled - union.values) * weight * asked).square()
            loss = errors.sum() / asked.sum().clamp_min(1)
            if self.kl_weight:
                loss = loss + self.kl_weight / E * kl_to_standard_normal(mean, log_deviation).mean()
            if self.edge_weight:
                pairs = without_edge.draw(step_generator(ground.seed + 1, k, device))
                loss = loss + self.edge_weight * edge_loss(z, union.edge_index, pairs)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        validate = None
        if (held := division.validation) is not None:
            exam, visible = GraphUnion.of(held.graphs, ground.scaler, device), held.visible.to(device)
            validate = judge(held, lambda: self._fill_union(exam, visible), ground)
        self.outcome_: Outcome = descend(
            step,
            [network],
            max_steps=self.max_steps,
            validate=validate,
            eval_every=max(1, min(20, self.max_steps // 10)),
            patience=self.patience,
            time_budget=self.time_budget,
            verbose=self.verbose,
            what="vgae",
        )

    def _predict(self, graphs: list[Data]) -> Tensor:
        device = pick_device(self.device)
        union = GraphUnion.of(graphs, self.scaler_, device)
        return self._fill_union(union, union.observed)

    def latent_codes(self, X: Any, *, graph: Any = None) -> list[np.ndarray]:
        """Mean of the latent code of every node.

        Parameters
        ----------
        X, graph : as in :meth:`transform`

        Returns
        -------
        list of ndarrays of shape (N_i, latent), one per graph; one for a table
        """
        check_is_fitted(self)
        graphs, _ = self._read(X, graph, reset=False)
        union = GraphUnion.of(self._usable(graphs), self.scaler_, pick_device(self.device))
        with torch.no_grad():
            mean, _ = self.network_.to(union.values.device).encode(union.values * union.observed, *union.normalised)
        return np.split(mean.cpu().numpy(), np.cumsum([len(g.x) for g in graphs])[:-1])

    def _fill_union(self, union: GraphUnion, visible: Tensor) -> Tensor:
        network = self.network_.to(union.values.device)
        return network(union.values * visible, *union.normalised)[0]

    def _check_parameters(self) -> None:
        for name in ("hidden", "latent", "decoder_hidden"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be an integer and at least 1, got {getattr(self, name)!r}")
        for name in ("edge_weight", "kl_weight"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)!r}")
        if self.loss_on not in ("hidden", "all"):
            raise ValueError(f"loss_on must be 'hidden' or 'all', got {self.loss_on!r}")

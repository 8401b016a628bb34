"""GraphVAE: one code per graph, decoded to a whole graph and matched with the one that has holes."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from megae.imputers.graphwise import judge, largest, mean_weight, per_range, tempered
from megae.imputers.neural import Ground, NeuralImputer
from megae.models.graphvae import GraphVAE, NodeGaussian, in_decoded_order, structure_loss
from megae.models.matching import attribute_similarity, hungarian, max_pooling_matching
from megae.models.vgae import kl_to_standard_normal
from megae.training.descent import descend
from megae.training.loop import Outcome
from megae.training.patches import PatchPool
from megae.training.resources import pick_device

CHUNK = 64


class GraphVAEImputer(NeuralImputer):
    r"""Fill holes with GraphVAE (Simonovsky & Komodakis, ICANN 2018, arXiv:1802.03480).

    A graph on at most k nodes is encoded into one Gaussian code :math:`q(z|G) = N(\mu, \sigma^2)`; a perceptron decodes
    z at once into a probabilistic graph :math:`(\tilde A, \tilde F)` on k nodes; max-pooling matching and the Hungarian
    algorithm find the decoded node :math:`\pi(i)` that stands for node i. A hole gets the attribute of its decoded
    node. Every step hides some observed cells H again, encodes and matches by the visible ones, and descends

    .. math::
        \lambda_F \overline{w_j^2 (\tilde f_{\pi(i)j} - x_{ij})^2}
        + \overline{w_j^2 (\hat x_{ij} - x_{ij})^2}_{(i,j) \in H}
        - \lambda_A \log p(A' \mid z)
        + \frac{\lambda_{KL}}{\bar n E} \, \mathrm{KL}\bigl(q(z|G) \,\|\, N(0, I)\bigr)

    with :math:`A' = X A X^\top` the input's edges in decoded order (equations 1 to 3 of the paper), bars for means, and
    :math:`\hat x_i = E[x_i \mid x_{i,O}, z]`, see :class:`megae.models.graphvae.NodeGaussian`. Columns are
    standardised; :math:`w_j`, the deviation of a column over its range, brought to a mean square of 1, makes errors
    count in ranges. Gradients do not go through the matching. In filling, z is :math:`\mu`. New graphs need no refit.

    Graphs of more than k nodes, in training and in filling alike, are cut into patches of at most k along a
    breadth-first search (:func:`megae.training.patches.cut`); each patch is a graph of its own, and edges between
    patches are lost. k is the largest training graph, ``max_nodes`` at most.

    Deviations
    ----------
    - Attributes are Gaussian, as the paper suggests for continuous ones, with means from the decoder. They share a
      covariance of ``factors`` factors, through which the visible attributes of a node tell of its holes; the paper has
      all variables independent, which is ``factors=0``.
    - The encoder sees holes as zeros (the column mean) beside a mask. In each step cells are hidden (on few graphs at
      most three tenths of a column), and the squared error on them is part of the loss, which the paper does not have.
    - Errors are weighted by the ranges of the columns, :math:`w_j` above. :math:`\lambda_A = 0.1` and
      :math:`\lambda_{KL} = 0.01`, per cell, are ours; the paper has the KL in full.
    - Similarity of attributes in the matching is that of Gaussians, relative to the best fit of each node, in place of
      the product of class probabilities; that of edges is weighted by their ends, since edges have no types; 5
      iterations where the paper has 75.
    - Edge weights are read by the encoder but not decoded (:math:`\lambda_E = 0`).
    - Layer norm in place of batch norm: one table is a batch of one graph. :math:`\log \sigma` is clamped at 10.
    - Graphs of more than k nodes are cut into patches, as above; the paper has small graphs alone.
    - Gradients are clipped at norm 1, and the weights of the evaluation with the lowest error on held-out cells are
      kept; 1,500 steps in place of 25 epochs. Batches of 32 and Adam at 1e-3 with a first moment of 0.5 are the
      paper's.
    - The graph baseline code that the MEGAE paper names computes the matching but compares in input order;
      ``align="order"`` does that.

    Parameters
    ----------
    max_nodes : int
        The most nodes k of a decoded graph; parameters grow with its square.
    latent : int
        Length c of the code.
    factors : int
        Of the covariance, at most as many as columns; 0 for independent attributes.
    align : {"matching", "order"}
        Which decoded node stands for which: by matching, or by the order of nodes in the input.
    iterations : int
        Of max-pooling matching; 0 matches by attributes alone.
    temperature : float
        Of the similarity of attributes.
    attribute_weight, edge_weight, kl_weight : float
        :math:`\lambda_F, \lambda_A, \lambda_{KL}`.
    batch_size : int
        Patches in a step.
    max_steps, learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> filled = GraphVAEImputer(max_steps=10, random_state=0).fit_transform(X, graph=sp.eye_array(40, k=1))
    >>> filled.shape, bool(np.isnan(filled).any())
    ((40, 2), False)
    """

    kind: ClassVar[str] = "graph"
    inductive: ClassVar[bool] = True
    _scaling = "standard"

    def __init__(
        self,
        *,
        max_nodes: int = 64,
        latent: int = 40,
        factors: int = 16,
        align: str = "matching",
        iterations: int = 5,
        temperature: float = 0.05,
        attribute_weight: float = 1.0,
        edge_weight: float = 0.1,
        kl_weight: float = 0.01,
        batch_size: int = 32,
        max_steps: int = 1500,
        learning_rate: float = 1e-3,
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
        self.max_nodes = max_nodes
        self.latent = latent
        self.factors = factors
        self.align = align
        self.iterations = iterations
        self.temperature = temperature
        self.attribute_weight = attribute_weight
        self.edge_weight = edge_weight
        self.kl_weight = kl_weight
        self.batch_size = batch_size

    def _check_parameters(self) -> None:
        for name, least in (("max_nodes", 1), ("latent", 1), ("batch_size", 1), ("factors", 0), ("iterations", 0)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name} must be an integer and at least {least}, got {value!r}")
        if self.align not in ("matching", "order"):
            raise ValueError(f"align must be 'matching' or 'order', got {self.align!r}")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature!r}")

    def _train(self, ground: Ground) -> None:
        self._check_parameters()
        ground = tempered(ground)
        division, device = ground.division, ground.device
        self.k_ = largest(division.train, self.max_nodes)
        self.edge_unit_ = mean_weight(division.train)
        pool = PatchPool(division.train, self.k_, device)
        values = torch.nan_to_num(ground.scaler.forward(torch.cat([g.x for g in division.train]), device))
        trainable = division.trainable.to(device)
        values = values * trainable
        E = values.shape[1]
        weight = per_range(ground)
        self.weight_ = weight / weight.square().mean().sqrt()
        self.network_ = nn.ModuleDict(
            {"vae": GraphVAE(E, self.k_, latent=self.latent), "gaussian": NodeGaussian(E, min(self.factors, E))}
        ).to(device)
        optimizer = torch.optim.Adam(self.network_.parameters(), self.learning_rate, betas=(0.5, 0.999))
        shuffle = np.random.default_rng(ground.seed)
        queue: list[np.ndarray] = []

        def step(k: int, progress: float) -> Tensor:
            if not queue:
                queue.extend(pool.batches(self.batch_size, shuffle))
            chosen = queue.pop()
            at = torch.from_numpy(chosen).to(device)
            x, seen = pool.lay(values, at), pool.lay(trainable, at)
            hidden = ground.hide(seen.flatten(0, 1), k).view_as(seen)
            loss = self._loss(x, seen, hidden, pool.adjacency[at], pool.filled[at], pool.sizes[chosen])
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network_.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        validate = None
        if (held := division.validation) is not None:
            exam = PatchPool(held.graphs, self.k_, device)
            truth = torch.nan_to_num(ground.scaler.forward(torch.cat([g.x for g in held.graphs]), device))
            visible = held.visible.to(device)
            validate = judge(held, lambda: self._fill_pool(exam, truth, visible), ground)
        self.outcome_: Outcome = descend(
            step,
            [self.network_],
            max_steps=self.max_steps,
            validate=validate,
            eval_every=max(1, min(100, self.max_steps // 10)),
            patience=self.patience,
            time_budget=self.time_budget,
            verbose=self.verbose,
            what="graphvae",
        )

    @staticmethod
    def _parts(network: nn.ModuleDict) -> tuple[GraphVAE, NodeGaussian]:
        return cast(GraphVAE, network["vae"]), cast(NodeGaussian, network["gaussian"])

    def _loss(self, x: Tensor, seen: Tensor, hidden: Tensor, A: Tensor, filled: Tensor, sizes: np.ndarray) -> Tensor:
        vae, gaussian = self._parts(self.network_)
        visible = seen & ~hidden
        mean, log_deviation = vae.encode(x, visible, A / self.edge_unit_, filled)
        z = mean + log_deviation.exp() * torch.randn_like(mean)
        logits, decoded = vae.decode(z)
        match = self._match(x, visible, A, filled, logits, decoded, sizes)
        m = match.shape[1]
        x, seen, hidden, visible = (t[:, :m] for t in (x, seen, hidden, visible))
        own = decoded.gather(1, match.unsqueeze(2).expand(-1, -1, x.shape[2]))
        target = in_decoded_order(A[:, :m, :m], filled[:, :m], match, self.k_)
        loss = self.attribute_weight * self._squares(own, x, seen)
        loss = loss + self._squares(gaussian(own, x, visible), x, hidden)
        loss = loss + self.edge_weight * structure_loss(logits, target)
        per_cell = self.kl_weight / (float(sizes.mean()) * x.shape[2])
        return loss + per_cell * kl_to_standard_normal(mean, log_deviation).mean()

    def _squares(self, values: Tensor, truth: Tensor, asked: Tensor) -> Tensor:
        return ((values - truth) * self.weight_ * asked).square().sum() / asked.sum().clamp_min(1)

    @torch.no_grad()
    def _match(
        self, x: Tensor, visible: Tensor, A: Tensor, filled: Tensor, logits: Tensor, decoded: Tensor, sizes: np.ndarray
    ) -> Tensor:
        """Decoded node of each input node, (B, m) with m the largest graph here."""
        m = int(sizes.max())
        if self.align == "order":
            return torch.arange(m, device=x.device).expand(len(x), m)
        weight = self.weight_.to(x.device).square()
        fit = attribute_similarity(x[:, :m], visible[:, :m], decoded, weight, self.temperature)
        fit = fit * filled[:, :m].unsqueeze(2)
        soft = max_pooling_matching((A[:, :m, :m] > 0).to(x.dtype), logits.sigmoid(), fit, self.iterations)
        return hungarian(soft, sizes)

    def _fill_pool(self, pool: PatchPool, values: Tensor, visible: Tensor) -> Tensor:
        """Scaled values (N, E) of the nodes of a pool, out of the visible ones."""
        network = self.network_.to(values.device)
        vae, gaussian = self._parts(network)
        parts = []
        for chosen in pool.batches(CHUNK):
            at = torch.from_numpy(chosen).to(values.device)
            x, shown, A, filled = pool.lay(values, at), pool.lay(visible, at), pool.adjacency[at], pool.filled[at]
            mean, _ = vae.encode(x, shown, A / self.edge_unit_, filled)
            logits, decoded = vae.decode(mean)
            match = self._match(x, shown, A, filled, logits, decoded, pool.sizes[chosen])
            m = match.shape[1]
            own = decoded.gather(1, match.unsqueeze(2).expand(-1, -1, x.shape[2]))
            filled_in = torch.zeros_like(x)
            filled_in[:, :m] = gaussian(own, x[:, :m], shown[:, :m])
            parts.append(filled_in)
        return pool.collect(torch.cat(parts))

    def _predict(self, graphs: list[Data]) -> Tensor:
        device = pick_device(self.device)
        values = self.scaler_.forward(torch.cat([g.x for g in graphs]), device)
        pool = PatchPool(graphs, self.k_, device)
        return self._fill_pool(pool, torch.nan_to_num(values), torch.isfinite(values))

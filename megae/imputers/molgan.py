"""MolGAN: a generator of whole graphs, taught by a critic and by the cells it was not shown."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data

from megae.imputers.graphwise import judge, largest, per_range, tempered
from megae.imputers.neural import Ground, NeuralImputer
from megae.models.molgan import Critic, Generator, drawn_edges, gradient_penalty
from megae.training.descent import descend
from megae.training.loop import Outcome
from megae.training.patches import PatchBatch, PatchPool
from megae.training.resources import pick_device

CHUNK = 64
DRAWS = 8


class MolGANImputer(NeuralImputer):
    r"""Fill holes with MolGAN (De Cao & Kipf, ICML workshop 2018, arXiv:1805.11973), conditioned on what is seen.

    A perceptron turns noise z and a summary of the visible graph into the edges and attributes of all nodes at once; a
    critic D of relational graph convolutions tells generated graphs from real ones. Each step hides some observed cells
    H of some graphs; the critic descends, ``n_critic`` times, on other graphs each time,

    .. math::
        \overline{D(\tilde G)} - \overline{D(G)} + 10\, \overline{(\|\nabla_{\hat G} D(\hat G)\| - 1)^2},

    then the generator descends once

    .. math::
        -\lambda\, \overline{D(\tilde G)} + (1 - \lambda) \Bigl(
        \overline{w_j^2 (\hat x_{ij} - x_{ij})^2}_{(i,j) \in H} - \lambda_A \overline{\log p(A \mid z)} \Bigr)

    where :math:`\tilde G` has generated edges, its visible cells as they are and generated ones in all others. Columns
    are standardised; :math:`w_j`, the deviation of a column over its range, brought to a mean square of 1, makes errors
    count in ranges, and the critic sees cells times it. Holes are filled with the mean over a few fixed draws of z. New
    graphs need no refit. See :class:`megae.models.molgan.Generator` for the equations of the generator.

    Graphs of more than k nodes, in training and in filling alike, are cut into patches of at most k along a
    breadth-first search (:func:`megae.training.patches.cut`); each patch is a graph of its own. k is the largest
    training graph, ``max_nodes`` at most.

    Deviations
    ----------
    - The generator is conditioned, which MolGAN's is not and which imputation needs: on a summary of the visible graph,
      and node by node, through a perceptron all nodes share, on the visible attributes and the mask of the node and
      on what two relational convolutions gather from those of its neighbours, so that a node that shows nothing is
      filled from around it (``node_width=0`` leaves the perceptron out).
    - Where there are too few graphs to set some aside, the nodes of a patch take other places in each step: the
      generator has weights of its own for every place and would learn the cells by heart.
    - In place of the reward network: the paper weighs the GAN's loss against an expected reward by :math:`\lambda`, and
      a network learns the reward because it has no gradient. Here the reward is minus the error on cells the generator
      was not shown (on few graphs at most three tenths of a column) and on the known edges. It has a gradient, so no
      network is needed. The error is weighted by the ranges of the columns, :math:`w_j` above. The authors' program
      scales the reward to the size of the GAN's loss and leaves it out in the first epoch; here neither.
    - Node attributes are numbers, not classes: no softmax on them. Which places hold a node is known, not generated.
    - Two edge types, none and one; node i of the output is node i of the input.
    - Real graphs with holes of their own are shown to the critic with generated values there.
    - Graphs of more than k nodes are cut into patches, as above.
    - The gradient penalty takes the norm over a whole graph, as WGAN-GP defines it; the authors' code takes norms
      entry by entry. Gradients of either network are clipped at norm 1.
    - The weights of the evaluation with the lowest error on held-out cells are kept; the paper stops by the share of
      unique molecules.
    - 500 steps of the generator, each after five of the critic; the authors' program takes 10 epochs, in which every
      fifth step is the generator's. :math:`\lambda` is 0.01.

    Widths of the generator, the learning rate 1e-3, batches of 32 and noise of length 32 are the paper's; the authors'
    program has batches of 128 and noise of length 8. The critic is as wide as in that program, convolutions of (128,
    64), a sum of 128 and a perceptron of (128, 64); the paper has (64, 32), 128 and 128.

    Parameters
    ----------
    max_nodes : int
        The most nodes k of a generated graph; parameters grow with its square.
    noise : int
        Length of z.
    node_width : int
        Width of the perceptron that conditions node by node; 0 for none.
    trade_off : float in [0, 1]
        :math:`\lambda`; 0 trains without a critic.
    edge_weight : float
        :math:`\lambda_A`.
    n_critic : int
        Steps of the critic for one of the generator.
    discretise : {"soft", "gumbel", "hard"}
        How generated edges reach the critic, see :func:`megae.models.molgan.drawn_edges`.
    minibatch : bool
        Show the critic a summary of its batch.
    batch_size : int
        Patches in a step.
    max_steps, learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`; steps are those of the generator.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> filled = MolGANImputer(max_steps=5, random_state=0).fit_transform(X, graph=sp.eye_array(40, k=1))
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
        noise: int = 32,
        node_width: int = 128,
        trade_off: float = 0.01,
        edge_weight: float = 0.1,
        n_critic: int = 5,
        discretise: str = "soft",
        minibatch: bool = True,
        batch_size: int = 32,
        max_steps: int = 500,
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
        self.noise = noise
        self.node_width = node_width
        self.trade_off = trade_off
        self.edge_weight = edge_weight
        self.n_critic = n_critic
        self.discretise = discretise
        self.minibatch = minibatch
        self.batch_size = batch_size

    def _check_parameters(self) -> None:
        for name, least in (("max_nodes", 1), ("noise", 1), ("batch_size", 1), ("n_critic", 1), ("node_width", 0)):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < least:
                raise ValueError(f"{name} must be an integer and at least {least}, got {value!r}")
        if not 0 <= self.trade_off <= 1:
            raise ValueError(f"trade_off must lie in [0, 1], got {self.trade_off!r}")
        if self.discretise not in ("soft", "gumbel", "hard"):
            raise ValueError(f"discretise must be 'soft', 'gumbel' or 'hard', got {self.discretise!r}")

    def _train(self, ground: Ground) -> None:
        self._check_parameters()
        ground = tempered(ground)
        division, device = ground.division, ground.device
        self.k_ = largest(division.train, self.max_nodes)
        pool = PatchPool(division.train, self.k_, device)
        values = torch.nan_to_num(ground.scaler.forward(torch.cat([g.x for g in division.train]), device))
        trainable = division.trainable.to(device)
        values = values * trainable
        weight = per_range(ground)
        self._weight = weight / weight.square().mean().sqrt()
        self.generator_ = Generator(values.shape[1], self.k_, noise=self.noise, node_width=self.node_width).to(device)
        self.critic_ = Critic(values.shape[1], minibatch=self.minibatch).to(device)
        self.draws_ = torch.randn(DRAWS, self.noise)
        descents = [torch.optim.Adam(m.parameters(), self.learning_rate) for m in (self.generator_, self.critic_)]
        shuffle, drawn = np.random.default_rng(ground.seed), 0
        queue: list[np.ndarray] = []

        def some() -> tuple[PatchBatch, Tensor]:
            """The next patches, and which of their cells are hidden."""
            nonlocal drawn
            if not queue:
                queue.extend(pool.batches(self.batch_size, shuffle))
            patches = PatchBatch.of(pool, queue.pop(), values, trainable)
            if not division.by_graph:
                patches = patches.reordered(torch.from_numpy(shuffle.permutation(patches.x.shape[1])).to(device))
            hidden = ground.hide(patches.seen.flatten(0, 1), drawn).view_as(patches.seen)
            drawn += 1
            return patches, hidden

        def step(k: int, progress: float) -> Tensor:
            for _ in range(self.n_critic if self.trade_off > 0 else 0):
                _take(descents[1], self._critic_loss(*some()), self.critic_)
            loss = self._generator_loss(*some())
            _take(descents[0], loss, self.generator_)
            return loss.detach()

        validate = None
        if (held := division.validation) is not None:
            exam, visible = PatchPool(held.graphs, self.k_, device), held.visible.to(device)
            truth = torch.nan_to_num(ground.scaler.forward(torch.cat([g.x for g in held.graphs]), device))
            validate = judge(held, lambda: self._fill_pool(exam, truth * visible, visible), ground)
        self.outcome_: Outcome = descend(
            step,
            [self.generator_, self.critic_],
            max_steps=self.max_steps,
            validate=validate,
            eval_every=max(1, min(50, self.max_steps // 10)),
            patience=self.patience,
            time_budget=self.time_budget,
            verbose=self.verbose,
            what="molgan",
        )
        del self._weight

    def _generate(self, patches: PatchBatch, hidden: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.randn(len(patches.x), self.noise, device=patches.x.device)
        return self.generator_(z, patches.x, patches.seen & ~hidden, patches.A, patches.filled)

    def _fake(self, patches: PatchBatch, hidden: Tensor, logits: Tensor, attributes: Tensor) -> tuple[Tensor, Tensor]:
        """The graph the critic is shown: generated edges, and generated cells where none is visible."""
        cells = torch.where(patches.seen & ~hidden, patches.x, attributes) * self._weight
        return drawn_edges(logits, self.discretise) * patches.pairs, cells * patches.filled.unsqueeze(2)

    def _critic_loss(self, patches: PatchBatch, hidden: Tensor) -> Tensor:
        with torch.no_grad():
            logits, attributes = self._generate(patches, hidden)
            fake = self._fake(patches, hidden, logits, attributes)
            cells = torch.where(patches.seen, patches.x, attributes) * self._weight
            real = patches.A, cells * patches.filled.unsqueeze(2)
            share = torch.rand(len(patches.x), device=patches.x.device)
        penalty = gradient_penalty(lambda A, x: self.critic_(A, x, patches.filled), real, fake, share)
        filled = patches.filled
        return self.critic_(*fake, filled).mean() - self.critic_(*real, filled).mean() + 10 * penalty

    def _generator_loss(self, patches: PatchBatch, hidden: Tensor) -> Tensor:
        logits, attributes = self._generate(patches, hidden)
        squares = ((attributes - patches.x) * self._weight * hidden).square()
        loss = squares.sum() / hidden.sum().clamp_min(1)
        pairs = patches.pairs
        if self.edge_weight and pairs.any():
            loss = loss + self.edge_weight * F.cross_entropy(logits[pairs], patches.A[pairs].long())
        if self.trade_off == 0:
            return loss
        fooled = self.critic_(*self._fake(patches, hidden, logits, attributes), patches.filled).mean()
        return (1 - self.trade_off) * loss - self.trade_off * fooled

    def _fill_pool(self, pool: PatchPool, values: Tensor, visible: Tensor) -> Tensor:
        """Scaled values (N, E) of the nodes of a pool, out of the visible ones: the mean over the fixed draws."""
        generator, draws = self.generator_.to(values.device), self.draws_.to(values.device)
        parts = []
        for chosen in pool.batches(CHUNK):
            p = PatchBatch.of(pool, chosen, values, visible)
            each = [generator(z.expand(len(p.x), -1), p.x, p.seen, p.A, p.filled)[1] for z in draws]
            parts.append(F.pad(torch.stack(each).mean(dim=0), (0, 0, 0, self.k_ - p.x.shape[1])))
        return pool.collect(torch.cat(parts))

    def _predict(self, graphs: list[Data]) -> Tensor:
        values = self.scaler_.forward(torch.cat([g.x for g in graphs]), pick_device(self.device))
        pool = PatchPool(graphs, self.k_, values.device)
        return self._fill_pool(pool, torch.nan_to_num(values), torch.isfinite(values))


def _take(optimizer: torch.optim.Optimizer, loss: Tensor, module: nn.Module) -> None:
    """One step down, gradients clipped to norm 1."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    optimizer.step()

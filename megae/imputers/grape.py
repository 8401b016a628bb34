"""GRAPE: filling holes as predicting edges between the rows and the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.imputers.build import column_of
from megae.imputers.graphwise import judge
from megae.imputers.neural import Ground, NeuralImputer
from megae.models.grape import BipartiteNetwork
from megae.training.descent import descend
from megae.training.hiding import hide, step_generator
from megae.training.loop import Outcome
from megae.training.resources import pick_device
from megae.training.schedule import one_cycle

LEAST_ROWS = 32
"""Rows of one step on the widest tables."""

CHUNK_EDGES = 1 << 16
"""Cells embedded at once where nothing is learnt: 16 MB for each of a few arrays at width 64."""

REFERENCE_EDGES = 1 << 20
"""Training cells out of which columns are embedded for rows to be filled; their means move no more with others."""

JUDGING_EDGES = 1 << 17
"""The same while training goes on."""

Parts = list[tuple[Tensor, Tensor]]


class GRAPEImputer(NeuralImputer):
    r"""Fill holes by message passing between rows and columns, and prediction of the edges between them.

    You, Ma, Ding, Kochenderfer, Leskovec: "Handling Missing Data with Graph Representation Learning", NeurIPS 2020,
    arXiv:2010.16418.

    .. math::
        n_v &= \mathrm{mean}_{u \in N(v)} \mathrm{ReLU}(P [h_u, e_{uv}]), \qquad
        h_v \leftarrow \mathrm{ReLU}(Q [h_v, n_v]) \\
        e_{uv} &\leftarrow \mathrm{ReLU}(W [e_{uv}, h_u, h_v]), \qquad \hat x_{ij} = \mathrm{MLP}([h_i, h_j])

    Rows start as ones, columns as one-hot, the edge of an observed cell as its value (a zero is a value, and an edge).
    In training edges are dropped, and the squared error counts on all of them, dropped or not. New rows are added with
    the edges of their observed cells, as the paper does for unseen observations.

    Parameters
    ----------
    hidden, layers : int
        Width of all embeddings and number of layers; 64 and 3 in the authors' code.
    edge_dropout : float
        Share of the observed cells that a step does not show; 0.3 in the authors' code.
    batch_edges : int
        About how many cells there are in one step: so many rows are drawn, but at least 32. Where those hold more
        cells, in wide tables, there are as many steps fewer.
    max_steps, learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`. The authors take 20,000 steps of the whole table at 1e-3.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    network_ : the trained network
    column_states_ : list of Tensors of shape (E, width)
        Embeddings of the columns, before the first and after each layer, out of the training rows.
    outcome_ : what training came to

    Notes
    -----
    The graph over the rows is not used: GRAPE's graph is the bipartite one. A row without any observed cell gets what
    the columns alone tell. Deviations from the paper and the authors' code (github.com/maxiaoba/GRAPE):

    - A step takes some of the rows, with all columns, instead of the whole table, which keeps memory below that of
      ``batch_edges`` cells; columns then hear from these rows. For filling, columns hear from the training rows alone,
      at most 2^20 cells of them, so that what is filled in a row does not depend on the rows beside it.
    - Embeddings of nodes are scaled to length 1 after each layer, and go through a perceptron after the last, as in the
      authors' code; the paper's equations have neither. P, Q and W have biases.
    - An edge has one embedding; in the authors' code it has one for each direction.
    - Beside single edges all edges of a row are dropped, as often as whole rows are missing.
    - 5,000 steps, as many fewer on wide tables as a step has more than ``batch_edges`` cells, at a learning rate that
      makes one cycle with a peak of 3e-3; the authors take 20,000 at a constant 1e-3.
    - The weights of the evaluation with the lowest error on held-out cells are kept; the authors keep the last.
    - Discrete columns are fitted by squared error on zeros and ones, and the cells of one category are dropped
      together. The paper speaks of cross-entropy for them; the authors' imputation code fits squared error.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.linspace(0, 1, 60)
    >>> X = np.stack([t, 1 - t, 2 * t], axis=1)
    >>> X[::7, 1] = np.nan
    >>> filled = GRAPEImputer(max_steps=20, hidden=8, random_state=0).fit_transform(X)
    >>> bool(np.isnan(filled).any())
    False
    """

    kind: ClassVar[str] = "learning"
    _uses_graph = False

    def __init__(
        self,
        *,
        hidden: int = 64,
        layers: int = 3,
        edge_dropout: float = 0.3,
        batch_edges: int = 4096,
        max_steps: int = 5000,
        learning_rate: float = 3e-3,
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
        self.layers = layers
        self.edge_dropout = edge_dropout
        self.batch_edges = batch_edges

    def _train(self, ground: Ground) -> None:
        self._check()
        division, device = ground.division, ground.device
        values, _ = self._cells(division.train, device)
        trainable = division.trainable.to(device)
        n, E = values.shape
        network = BipartiteNetwork(E, width=self.hidden, layers=self.layers).to(device)
        optimizer = torch.optim.Adam(network.parameters(), self.learning_rate)
        size = min(n, max(LEAST_ROWS, self.batch_edges // E))
        column = column_of(ground.columns).to(device)
        rates = torch.full((len(ground.columns),), self.edge_dropout, device=device)
        steps = max(1, round(self.max_steps * min(1.0, self.batch_edges / (size * E))))

        def step(k: int, progress: float) -> Tensor:
            for group in optimizer.param_groups:
                group["lr"] = one_cycle(progress, self.learning_rate)
            generator = step_generator(ground.seed, k, device)
            rows = torch.randperm(n, generator=generator, device=device)[:size]
            truth, allowed = values[rows], trainable[rows]
            dropped = hide(allowed, column, rates, ground.rates.rows, generator)
            shown, asked = (allowed & ~dropped).to(truth.dtype), allowed.to(truth.dtype)
            optimizer.zero_grad()
            errors = (network(truth * shown, shown) - truth) * asked
            loss = errors.square().sum() / asked.sum().clamp_min(1.0)
            loss.backward()
            optimizer.step()
            return loss.detach()

        held = division.validation
        few = _some_rows(values, trainable, JUDGING_EDGES, ground.seed)
        seen = None if held is None else _parts(self._cells(held.graphs, device)[0], held.visible.to(device))
        self.outcome_: Outcome = descend(
            step,
            [network],
            max_steps=steps,
            validate=judge(held, lambda: _attach(network, seen, network.column_states(few)), ground) if seen else None,
            eval_every=max(1, min(200, steps // 10)),
            patience=self.patience,
            time_budget=self.time_budget,
            verbose=self.verbose,
            what=type(self).__name__,
        )
        self.network_ = network
        with torch.no_grad():
            reference = _some_rows(values, trainable, REFERENCE_EDGES, ground.seed)
            self.column_states_ = network.column_states(reference)

    def _check(self) -> None:
        for name in ("hidden", "layers", "batch_edges"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if not 0 <= self.edge_dropout < 1:
            raise ValueError(f"edge_dropout must lie in [0, 1), got {self.edge_dropout!r}")

    def _cells(self, graphs: Sequence[Data], device: torch.device) -> tuple[Tensor, Tensor]:
        """Scaled values (N, E), zero in holes, and what is observed."""
        z = self.scaler_.forward(torch.cat([g.x for g in graphs]), device)
        return torch.nan_to_num(z), z.isfinite()

    def _predict(self, graphs: list[Data]) -> Tensor:
        device = pick_device(self.device)
        states = [s.to(device) for s in self.column_states_]
        return _attach(self.network_.to(device), _parts(*self._cells(graphs, device)), states)


def _parts(values: Tensor, visible: Tensor) -> Parts:
    """Rows a few at a time: values, zero where not visible, and what is."""
    shown = visible.to(values.dtype)
    size = max(1, CHUNK_EDGES // values.shape[1])
    return list(zip((values * shown).split(size), shown.split(size), strict=True))


def _some_rows(values: Tensor, visible: Tensor, edges: int, seed: int) -> Parts:
    n, most = values.shape[0], max(1, edges // values.shape[1])
    if n > most:
        chosen = torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(n)[:most])).to(values.device)
        values, visible = values[chosen], visible[chosen]
    return _parts(values, visible)


def _attach(network: BipartiteNetwork, parts: Parts, states: list[Tensor]) -> Tensor:
    return torch.cat([network.attach(values, shown, states) for values, shown in parts])

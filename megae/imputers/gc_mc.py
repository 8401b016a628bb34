"""GC-MC: cells as ratings that columns give rows, completed by graph convolution."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from megae.imputers.neural import Ground
from megae.imputers.pooled import PooledImputer, PooledNetwork
from megae.kernels import FilterOperator
from megae.models.gc_mc import Levels, MatrixCompletionNetwork
from megae.training.pool import GraphPool


class GCMCImputer(PooledImputer):
    r"""Fill holes by graph convolutional matrix completion, the graph over the rows being side information.

    van den Berg, Kipf, Welling: "Graph Convolutional Matrix Completion", 2017, arXiv:1706.02263.

    .. math::
        h_i &= \sigma\Big[\mathrm{accum}_r \sum_{j \in N_r(i)} \tfrac{1}{c_{ij}} W_r x_j\Big], \qquad
        z_i = W h_i + W_2\, \sigma(W_1 f_i + b) \\
        p(x_{ij} = r) &= \mathrm{softmax}_r\big(z_i^\top Q_r z_j\big), \quad Q_r = \sum_s a_{rs} P_s, \qquad
        \hat x_{ij} = \sum_r p(x_{ij} = r)\, v_{jr}

    Rows and columns of the table are the two sides of a bipartite graph; an observed cell is an edge of the type of its
    level r, and :math:`v_{jr}` is what the level stands for in column j. The loss is the cross-entropy of the levels.
    See :class:`megae.models.gc_mc.MatrixCompletionNetwork` for every layer. New rows hang on the learnt columns.

    Parameters
    ----------
    levels : int
        Most levels of a column. Binary columns have their two.
    hidden, code, side_hidden : int
        Widths of h, z and of the side information; 500, 75 and 64 in the authors' code.
    bases : int
        Matrices :math:`P_s` that the levels share; 2 to 4 in the authors' code.
    dropout : float
        Of columns' messages (node dropout) and of h; 0.7 in the authors' code.
    accumulation : {"sum", "stack"}
        Levels add up, each on top of the ones below it, or stand side by side; the authors use either.
    loss_on, batch_fraction : see :class:`megae.imputers.pooled.PooledImputer`
    max_steps, learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`. The authors' learning rate is 0.01 too.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    network_ : the trained network
    outcome_ : what training came to

    Notes
    -----
    Deviations from the paper and the authors' code (github.com/riannevdberg/gc-mc):

    - Attributes are not ratings: continuous columns are cut at quantiles of their training values into at most 20
      levels of equal mass (``levels=20``), and a level stands for the mean of its values. Level r is another interval
      in each column.
    - Rows have no one-hot identity, since rows to be filled later cannot have one: :math:`x_i = 1`, and what a row
      tells a column is its level. The identity of a column enters both as :math:`x_j` and as its side information.
    - The authors feed a row of the adjacency matrix as side information, which fits one graph only. Here
      :math:`f_i` is that row times what the neighbours show: their mean of each column, and how much they show of it.
    - In each step some observed cells (on few graphs at most three tenths of a column) are taken out of the graph and
      asked for; the authors pass messages over the very edges they predict (``loss_on="observed"`` asks for those as
      well). With cells hidden, their node dropout of 0.7 is off.
    - What a row hears is divided by :math:`|N(i)| / \sqrt E`, not by :math:`|N(i)|` or
      :math:`\sqrt{|N(i)| |N(j)|}`: the mean of many messages vanishes.
    - What a column hears is fixed, the share of each level among all its training cells.
    - z has no activation, as in the code; the paper has one. Dense layers have biases.
    - At most 1,000 steps, and fewer where 20 evaluations in a row bring nothing (``patience=20``); the authors take
      2,500 epochs. The learning rate makes one cycle, and gradients are clipped at norm 1.
    - The weights of the evaluation with the lowest error on held-out cells are kept; the authors keep a running average
      of the weights at the end.
    - Several graphs make one step.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.stack([np.arange(40), np.roll(np.arange(40), -1)])
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> filled = GCMCImputer(max_steps=20, hidden=16, random_state=0).fit_transform(X, graph=ring)
    >>> bool(np.isnan(filled).any())
    False
    """

    def __init__(
        self,
        *,
        levels: int = 20,
        hidden: int = 500,
        code: int = 75,
        side_hidden: int = 64,
        bases: int = 4,
        dropout: float = 0.0,
        accumulation: str = "sum",
        loss_on: str = "hidden",
        batch_fraction: float = 1 / 6,
        max_steps: int = 1000,
        learning_rate: float = 1e-2,
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
        self.levels = levels
        self.hidden = hidden
        self.code = code
        self.side_hidden = side_hidden
        self.bases = bases
        self.dropout = dropout
        self.accumulation = accumulation
        self.loss_on = loss_on
        self.batch_fraction = batch_fraction

    def _build(self, ground: Ground, pool: GraphPool) -> PooledNetwork:
        if self.levels < 2:
            raise ValueError(f"levels must be at least 2, got {self.levels!r}")
        for name in ("hidden", "code", "side_hidden", "bases"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout!r}")
        values = pool.whole.values.cpu().numpy()
        shown = ground.division.trainable.numpy()
        levels = Levels.learn(values, shown, self.levels)
        return _Network(
            MatrixCompletionNetwork(
                levels,
                levels.shares(values, shown),
                hidden=self.hidden,
                code=self.code,
                side_hidden=self.side_hidden,
                bases=self.bases,
                dropout=self.dropout,
                accumulation=self.accumulation,
            )
        )


class _Network(PooledNetwork):
    def __init__(self, body: MatrixCompletionNetwork) -> None:
        super().__init__()
        self.body = body

    def forward(self, values: Tensor, visible: Tensor, operator: FilterOperator) -> Tensor:
        return self.body(values, visible, operator)

    def loss(self, values: Tensor, visible: Tensor, asked: Tensor, operator: FilterOperator) -> Tensor:
        return self.body.loss(values, visible, asked, operator)

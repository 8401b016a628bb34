"""GAIN: a generator fills, a discriminator guesses which cells were filled."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.imputers.build import column_of
from megae.imputers.neural import Ground, NeuralImputer
from megae.imputers.rows import examiner, hide_more, missing_rates, rows_of
from megae.models.gain import (
    HINTS,
    Perceptron,
    adversarial_loss,
    all_but_one,
    discriminator_loss,
    hint_vector,
    reconstruction_loss,
)
from megae.training.descent import descend
from megae.training.resources import pick_device

NOISE = 0.01
"""Holes enter the generator as uniform noise in [0, 0.01), in units of a column's range."""


class GAINImputer(NeuralImputer):
    r"""Generative adversarial imputation nets (Yoon, Jordon and van der Schaar, ICML 2018).

    .. math::
        \hat X = M \odot X + (1 - M) \odot G(M \odot X + (1 - M) \odot Z, M)

    .. math::
        L_D = -\mathrm{mean}[M \log D(\hat X, H) + (1 - M) \log(1 - D(\hat X, H))], \qquad
        L_G = -\mathrm{mean}[(1 - M) \log D(\hat X, H)] + \alpha \frac{|M \odot (X - G)|^2}{|M|}

    M is 1 where a cell is observed, Z is noise, and the hint H tells D the mask of some cells, B
    (:func:`megae.models.gain.hint_vector`). G and D are perceptrons of two hidden layers, G ends in a sigmoid, columns
    are scaled to [0, 1]. Defaults are those of the authors' code (github.com/jsyoon0823/GAIN).

    Deviations
    ----------
    - Code and paper differ, and ``hint="code"`` follows the code: B tells each cell with probability ``hint_rate``,
      H = B M, and both adversarial losses count all cells. ``hint="paper"`` follows the paper: B tells all columns but
      one, drawn for each row, H = B M + (1 - B) / 2, and the losses count the cell that is not told. The columns of a
      one-hot encoded category count as one there.
    - Binary columns are reconstructed by squared error, as in the code; the paper has cross-entropy for them.
    - Rows of a step are drawn with replacement, and columns of few values are not rounded in the end; the code draws
      without, and rounds columns of fewer than 20 values.
    - Complete training graphs have no missing cell to learn from: cells are hidden anew in every step, as often as
      cells are missing in validation graphs (a tenth without any). A table with holes trains on those, as in the paper.
    - The weights of the evaluation with the lowest error on held-out cells are kept; the authors keep the last.
    - The graph is not used, and a new row is filled by the generator alone, as in the paper.

    Parameters
    ----------
    max_steps : int
    batch_size : int
        Rows per step.
    hint_rate : float
        Share of cells that the discriminator is told about; with ``hint="paper"`` it is not used.
    alpha : float
        Weight of the reconstruction of observed cells.
    hidden : int or None
        Width of the hidden layers; None is the number of (encoded) columns.
    hint : "code" or "paper"
        What the discriminator is told, and which cells the adversarial losses count, see above.
    learning_rate, patience, time_budget, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    generator_, discriminator_ : torch modules
    outcome_ : megae.training.loop.Outcome

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((60, 3))
    >>> X[0, 1] = np.nan
    >>> GAINImputer(max_steps=20, random_state=0).fit_transform(X).shape
    (60, 3)
    """

    kind = "learning"
    inductive = True
    _uses_graph = False

    generator_: Perceptron
    discriminator_: Perceptron

    def __init__(
        self,
        *,
        max_steps: int = 10_000,
        batch_size: int = 128,
        hint_rate: float = 0.9,
        alpha: float = 100.0,
        hidden: int | None = None,
        hint: str = "code",
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
        self.batch_size = batch_size
        self.hint_rate = hint_rate
        self.alpha = alpha
        self.hidden = hidden
        self.hint = hint

    def _train(self, ground: Ground) -> None:
        self._check_settings()
        device, width = ground.device, len(ground.scaler.shift)
        values = ground.scaler.forward(rows_of(ground.division.train), device).nan_to_num()
        observed = ground.division.trainable.to(device)
        more, column = missing_rates(observed, ground), column_of(ground.columns).to(device)
        hidden = width if self.hidden is None else self.hidden
        self.seed_ = ground.seed
        self.generator_ = Perceptron(width, hidden).to(device)
        self.discriminator_ = Perceptron(width, hidden).to(device)
        players = [torch.optim.Adam(net.parameters(), self.learning_rate) for net in self._networks()]

        def step(k: int, progress: float) -> Tensor:
            rows = torch.randint(len(values), (self.batch_size,), device=device)
            mask = hide_more(observed[rows], ground, more, k).float()
            noise = NOISE * torch.rand_like(mask)
            seen = mask * values[rows] + (1 - mask) * noise
            if self.hint == "code":
                told, counted = (torch.rand_like(mask) < self.hint_rate).float(), None
            else:
                told = all_but_one(len(mask), column)
                counted = 1 - told
            hint = hint_vector(mask, told, self.hint)
            made = torch.sigmoid(self.generator_(seen, mask))
            whole = mask * seen + (1 - mask) * made
            loss = discriminator_loss(self.discriminator_(whole.detach(), hint), mask, counted)
            players[1].zero_grad(set_to_none=True)
            loss.backward()
            players[1].step()
            fooled = adversarial_loss(self.discriminator_(whole, hint), mask, counted)
            loss = fooled + self.alpha * reconstruction_loss(made, seen, mask)
            players[0].zero_grad(set_to_none=True)
            loss.backward()
            players[0].step()
            return loss.detach()

        self.outcome_ = descend(
            step,
            self._networks(),
            max_steps=self.max_steps,
            validate=examiner(ground, self._predict),
            eval_every=max(1, min(100, self.max_steps // 20)),
            patience=self.patience,
            time_budget=self.time_budget,
            verbose=self.verbose,
            what="gain",
        )

    def _networks(self) -> list[Perceptron]:
        return [self.generator_, self.discriminator_]

    def _check_settings(self) -> None:
        if self.hint not in HINTS:
            raise ValueError(f"hint must be 'code' or 'paper', got {self.hint!r}")
        if not 0 <= self.hint_rate <= 1:
            raise ValueError(f"hint_rate must lie in [0, 1], got {self.hint_rate!r}")
        if self.batch_size < 1 or (self.hidden is not None and self.hidden < 1):
            raise ValueError(f"batch_size and hidden must be at least 1, got {self.batch_size} and {self.hidden}")
        if self.alpha < 0:
            raise ValueError(f"alpha must be at least 0, got {self.alpha!r}")

    def _predict(self, graphs: list[Data]) -> Tensor:
        device = pick_device(self.device)
        values = self.scaler_.forward(rows_of(graphs), device)
        draws = [torch.rand(g.x.shape, generator=torch.Generator().manual_seed(self.seed_)) for g in graphs]
        mask = values.isfinite()
        seen = torch.where(mask, values, NOISE * torch.cat(draws).to(device))
        return torch.sigmoid(self.generator_.to(device)(seen, mask.float()))

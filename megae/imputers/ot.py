"""OT: two batches of one table should look alike, so holes are filled until they do."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.imputers.build import column_of
from megae.imputers.neural import Ground, NeuralImputer
from megae.imputers.rows import Fill, examiner, fixed_holes, ranges, rows_of
from megae.imputers.transport import (
    SOLVERS,
    ColumnModels,
    Deadline,
    Table,
    batch_size_for,
    draw,
    fill_beside,
    filled_in_time,
    leading_rows,
    make_divergence,
    typical_cost,
)
from megae.training.descent import Step, descend
from megae.training.holdout import HeldOut
from megae.training.loop import Outcome
from megae.training.resources import pick_device

FORMS = ("auto", "batch", "round-robin")
STEPS_PER_COLUMN = 15
"""Gradient steps on one column before the next, in round-robin."""

EXAM_ROWS = 2000
"""Held-out rows that both forms of "auto" are judged on, about."""


class OTImputer(NeuralImputer):
    r"""Missing data imputation using optimal transport (Muzellec, Josse, Boyer and Cuturi, ICML 2020).

    Two random batches of one table have the same distribution, so the holes are filled such that

    .. math:: \min_{\hat X} \; E_{K, L} \; S_\varepsilon(\hat X_K, \hat X_L)

    is small, where :math:`S_\varepsilon` is the Sinkhorn divergence between rows K and L
    (:func:`megae.models.sinkhorn.sinkhorn_divergence`). ``form="batch"`` is Algorithm 1: every missing value is a
    parameter, moved by RMSprop. ``form="round-robin"`` is Algorithm 3: each column has a model of the others; in turn,
    each model is trained on the divergence between rows with that column filled by it and rows that show the column.
    The paper has both, and so does ``form="auto"``: the one with the lower error on held-out cells fills.
    Defaults are those of the authors' code (github.com/BorisMuzellec/MissingDataOT): columns standardised, batches of
    128, learning rate 0.01, 10 pairs of batches, temperature from 5 % of the median distance.

    Algorithm 1 fills the table it is given. Rows of that table come back as fitted. Rows of a new graph are filled by
    Algorithm 1 on the table of training rows and theirs: one batch holds rows of the new graph among training rows, the
    other training rows alone, and only the new holes move. Each graph is filled by itself.

    Deviations
    ----------
    - Round-robin on complete training graphs has no hole to learn from: cells are hidden once, as often as cells are
      missing in validation graphs. Algorithm 1 needs none: it has nothing to do until new rows come.
    - The values or models of the evaluation with the lowest error on held-out cells are kept, where there are any;
      ``form="auto"``, which chooses a form by them, is ours. The authors keep the last. Both forms are judged once, as
      they are kept, on the same cells. Some of these cells have chosen the evaluation to keep, so the error of a form
      that learnt is a little too low; Algorithm 1 on complete training graphs learns nothing in ``fit``.
    - 4,000 steps, where the authors' code has 2,000 for Algorithm 1 and at most ten rounds over the columns for
      Algorithm 3, until nothing changes. Numbers are of single precision, theirs of double.
    - Sinkhorn rounds cool by ``scaling=0.5``, the default of geomloss, not 0.9: about a seventh as many rounds.
    - In new graphs each row stands in about ``visits`` batches, at a learning rate that falls from
      ``fill_learning_rate`` to zero. That is how far RMSprop moves a row at 0.01 if it is seen once in 70 steps.
    - The divergence is our own code by default, which computes what geomloss does. ``solver="geomloss"`` takes theirs.
    - Round-robin fills new rows in a fixed number of sweeps, not until nothing changes, so that rows stay independent.
    - In round-robin the model of a one-hot column does not see the other columns of its category, which would give it
      away; the authors treat encoded columns like any others.

    Parameters
    ----------
    form : "auto", "batch" or "round-robin"
        "auto" leaves round-robin out where ``max_steps`` do not reach every column, and is "batch" without held-out
        cells.
    max_steps : int
        Gradient steps of ``fit`` for each form; in round-robin, 15 on each column in turn.
    batch_size : int
    epsilon : float or None
        Blur of the divergence (square root of its temperature), in standard deviations. None: ``epsilon_share`` times
        the median of half the squared distances between rows, holes at the column mean.
    epsilon_share : float
    scaling : float
        See :func:`megae.models.sinkhorn.sinkhorn_divergence`.
    visits : int
    fill_learning_rate : float
    noise : float
        Standard deviation around the column mean at which holes start.
    model : "linear" or "mlp"
        Of a column, in round-robin.
    pairs : int
        Pairs of batches per step, in round-robin.
    sweeps : int
        Rounds over the columns when filling, in round-robin.
    solver : "own" or "geomloss"
    time_budget : float or None
        Seconds that ``fit`` may train. With ``form="auto"`` Algorithm 1 gets half of them, its exam included, and
        round-robin what is then left; both are judged on as many held-out graphs as Algorithm 1 can fill in its time.
    learning_rate, patience, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    form_ : "batch" or "round-robin"
    form_errors_ : dict of held-out RMSE by form, in ranges of the columns; empty where none was chosen
    blur_ : float
    donors_ : Tensor of shape (N, E), filled training rows, standardised
    outcome_ : megae.training.loop.Outcome

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((60, 3))
    >>> X[0, 1] = np.nan
    >>> OTImputer(max_steps=20, random_state=0).fit_transform(X).shape
    (60, 3)
    """

    kind = "learning"
    inductive = False
    _uses_graph = False
    _scaling = "standard"

    form_: str
    form_errors_: dict[str, float]
    blur_: float
    donors_: Tensor
    models_: ColumnModels
    _hurry: Deadline | None = None

    def __init__(
        self,
        *,
        form: str = "auto",
        max_steps: int = 4000,
        batch_size: int = 128,
        epsilon: float | None = None,
        epsilon_share: float = 0.05,
        scaling: float = 0.5,
        visits: int = 100,
        fill_learning_rate: float = 0.05,
        noise: float = 0.1,
        model: str = "mlp",
        pairs: int = 10,
        sweeps: int = 10,
        solver: str = "own",
        learning_rate: float = 1e-2,
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
        self.form = form
        self.batch_size = batch_size
        self.epsilon = epsilon
        self.epsilon_share = epsilon_share
        self.scaling = scaling
        self.visits = visits
        self.fill_learning_rate = fill_learning_rate
        self.noise = noise
        self.model = model
        self.pairs = pairs
        self.sweeps = sweeps
        self.solver = solver

    def _train(self, ground: Ground) -> None:
        self._check_settings()
        self.seed_ = ground.seed
        rows = ground.scaler.forward(rows_of(ground.division.train), ground.device)
        seen = rows.masked_fill(~ground.division.trainable.to(ground.device), torch.nan)
        self.centre_ = seen.nanmean(dim=0)
        draws = torch.Generator().manual_seed(ground.seed)
        share = self.epsilon_share * typical_cost(torch.where(seen.isnan(), self.centre_, seen), draws)
        self.blur_ = share if self.epsilon is None else self.epsilon
        self.size_ = batch_size_for(len(rows), self.batch_size)
        self.form_errors_ = {}
        reached = self.max_steps >= STEPS_PER_COLUMN * rows.shape[1]
        if self.form == "auto" and reached and ground.division.validation is not None:
            self._choose_form(ground, ground.division.validation, rows, draws)
        elif self.form == "round-robin":
            self.form_ = self.form
            self.outcome_ = self._train_models(ground, rows, draws, self.time_budget)
        else:
            self.form_ = "batch"
            self.outcome_, _ = self._move_values(ground, rows, draws, self.time_budget)

    def _choose_form(self, ground: Ground, held: HeldOut, rows: Tensor, draws: torch.Generator) -> None:
        """Fit both forms; the one that errs less on the same held-out cells, as it is kept, is the one to fill."""
        budget = self.time_budget
        half, whole = (None, None) if budget is None else (Deadline(budget / 2), Deadline(budget))
        own, most = held.graphs is ground.division.train, EXAM_ROWS
        self.form_ = "batch"
        first, values = self._move_values(ground, rows, draws, None if budget is None else budget / (2 if own else 4))
        if not own:
            values = filled_in_time(held, most, self._within, half)
            most = len(values)
        self.form_errors_["batch"] = self._error(ground, leading_rows(values), most)
        self.form_ = "round-robin"
        second = self._train_models(ground, rows, draws, None if whole is None else whole.left())
        self.form_errors_["round-robin"] = self._error(ground, self._predict, most)
        outcomes = {"batch": first, "round-robin": second}
        self.form_ = min(outcomes, key=lambda form: np.nan_to_num(self.form_errors_[form], nan=np.inf))
        self.outcome_ = outcomes[self.form_]
        if not np.isfinite(self.outcome_.best_rmse):
            self.outcome_.best_rmse = self.form_errors_[self.form_]

    def _error(self, ground: Ground, fill: Fill, most: int) -> float:
        exam = examiner(ground, fill, most)
        with torch.no_grad():
            return float("inf") if exam is None else exam()

    def _move_values(
        self, ground: Ground, rows: Tensor, draws: torch.Generator, budget: float | None
    ) -> tuple[Outcome, Tensor]:
        """Algorithm 1 on the training rows: their holes are the parameters. Gives the rows, held-out cells filled."""
        seen = rows.masked_fill(~ground.division.trainable.to(ground.device), torch.nan)
        start = self.centre_ + self.noise * torch.randn(seen.shape, generator=draws).to(ground.device)
        table, outcome = Table(seen, start), Outcome()
        if seen.isnan().any():
            optimiser = torch.optim.RMSprop(table.parameters(), self.learning_rate)
            divergence = make_divergence(self.solver, self.blur_, self.scaling)

            def step(k: int, progress: float) -> Tensor:
                first, second = (table(draw(len(rows), self.size_, draws, ground.device)) for _ in range(2))
                loss = divergence(first, second)
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
                return loss.detach()

            outcome = self._descend(step, table, self._own_exam(ground, table), 1, budget)
        values = table().detach()
        self.donors_ = torch.where(rows.isnan(), values, rows)
        sizes = [len(g.x) for g in ground.division.train]
        starts = np.cumsum([0, *sizes[:-1]]).tolist()
        self.own_ = {_digest(g): (a, a + n) for g, a, n in zip(ground.division.train, starts, sizes, strict=True)}
        return outcome, values

    def _own_exam(self, ground: Ground, table: Table) -> Callable[[], float] | None:
        """The error on held-out cells of the training table, which are holes to it; None where graphs were held out."""
        held = ground.division.validation
        if held is None or held.graphs is not ground.division.train:
            return None
        unit = torch.from_numpy(ground.scaler.scale / ranges(ground)).float().to(ground.device)
        truth, hidden = ground.scaler.forward(rows_of(held.graphs), ground.device), held.hidden.to(ground.device)
        return lambda: float(((table() - truth) * unit)[hidden].square().mean().sqrt())

    def _train_models(self, ground: Ground, rows: Tensor, draws: torch.Generator, budget: float | None) -> Outcome:
        """Algorithm 3: the columns in turn, in a new random order each round."""
        width, device = rows.shape[1], ground.device
        lacking = ~fixed_holes(ground).to(device)
        rows = torch.where(lacking, self.centre_, rows)
        holes = [column.nonzero().squeeze(1) for column in lacking.T]
        shown = [(~column).nonzero().squeeze(1) for column in lacking.T]
        self.models_ = ColumnModels(column_of(ground.columns), self.model).to(device)
        optimisers = [
            torch.optim.Adam(m.parameters(), self.learning_rate, weight_decay=1e-5) for m in self.models_.models
        ]
        divergence = make_divergence(self.solver, self.blur_, self.scaling)
        order, size = list(range(width)), min(self.size_, *(len(s) for s in shown))

        def pairs_of(size: int, below: int) -> Tensor:
            return torch.cat([draw(below, size, draws, device) for _ in range(self.pairs)])

        def step(k: int, progress: float) -> Tensor:
            if k % (STEPS_PER_COLUMN * width) == 0:
                order[:] = torch.randperm(width, generator=draws).tolist()
            j = order[k // STEPS_PER_COLUMN % width]
            first, second = pairs_of(size, len(rows)), shown[j][pairs_of(size, len(shown[j]))]
            mine = rows[first]
            column = torch.where(lacking[first, j], self.models_.column(mine, j), mine[:, j])
            mine = torch.cat([mine[:, :j], column.unsqueeze(1), mine[:, j + 1 :]], dim=1)
            loss = divergence(mine.view(self.pairs, size, width), rows[second].view(self.pairs, size, width)).sum()
            optimisers[j].zero_grad(set_to_none=True)
            loss.backward()
            optimisers[j].step()
            if k % STEPS_PER_COLUMN == STEPS_PER_COLUMN - 1:
                with torch.no_grad():
                    self.models_.sweep(rows, holes, [j])
            return loss.detach()

        every = STEPS_PER_COLUMN * width
        return self._descend(step, self.models_, examiner(ground, self._predict), every, budget)

    def _descend(
        self,
        step: Step,
        module: torch.nn.Module,
        validate: Callable[[], float] | None,
        every: int,
        budget: float | None,
    ) -> Outcome:
        return descend(
            step,
            [module],
            max_steps=self.max_steps,
            validate=validate,
            eval_every=max(every, min(100, self.max_steps // 20)),
            patience=self.patience,
            time_budget=budget,
            verbose=self.verbose,
            what=f"ot {self.form_}",
        )

    def _check_settings(self) -> None:
        for name, known in (("form", FORMS), ("model", ("linear", "mlp")), ("solver", SOLVERS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {getattr(self, name)!r}")
        for name in ("batch_size", "visits", "pairs", "sweeps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if self.epsilon is not None and not self.epsilon > 0:
            raise ValueError(f"epsilon must be positive, or None for a share of the median, got {self.epsilon!r}")

    @contextlib.contextmanager
    def hurried(self, seconds: float | None) -> Iterator[None]:
        """Within this context ``transform`` fills in about so many seconds, graphs that take long with fewer steps."""
        self._hurry = None if seconds is None else Deadline(seconds)
        try:
            yield
        finally:
            self._hurry = None

    def _predict(self, graphs: list[Data]) -> Tensor:
        if self.form_ == "batch":
            return torch.cat([self._filled(g, len(graphs) - k) for k, g in enumerate(graphs)])
        device = pick_device(self.device)
        models = self.models_.to(device)
        rows = self.scaler_.forward(rows_of(graphs), device)
        lacking = rows.isnan()
        rows = torch.where(lacking, self.centre_.to(device), rows)
        holes = [column.nonzero().squeeze(1) for column in lacking.T]
        for _ in range(self.sweeps):
            models.sweep(rows, holes, range(rows.shape[1]))
        return rows

    def _within(self, graphs: list[Data], seconds: float | None) -> Tensor:
        with self.hurried(seconds):
            return self._predict(graphs)

    def _filled(self, graph: Data, waiting: int) -> Tensor:
        """By Algorithm 1, (n, E); in a hurry, in its share of the time that ``waiting`` graphs have."""
        device = pick_device(self.device)
        if (own := self.own_.get(_digest(graph))) is not None:
            return self.donors_[own[0] : own[1]].to(device)
        return fill_beside(
            self.scaler_.forward(graph.x, device),
            self.donors_.to(device),
            self.centre_.to(device),
            make_divergence(self.solver, self.blur_, self.scaling),
            size=self.size_,
            visits=self.visits,
            learning_rate=self.fill_learning_rate,
            noise=self.noise,
            seed=self.seed_,
            time_budget=None if self._hurry is None else self._hurry.left() / waiting,
        )


def _digest(graph: Data) -> bytes:
    """Tells whether a graph has the same attributes and holes as another, whatever NaN the holes are made of."""
    x = graph.x.numpy()
    whole = np.where(np.isnan(x), np.nan, x) + 0.0
    return hashlib.sha256(str(x.shape).encode() + whole.tobytes()).digest()

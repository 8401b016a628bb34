"""MIRACLE: a baseline's fills, refined by a network that learns causes and what goes missing."""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from megae.imputers.base import GraphImputer
from megae.imputers.build import column_of
from megae.imputers.neural import Ground, NeuralImputer
from megae.imputers.ot import OTImputer
from megae.imputers.rows import blinded, examiner, fixed_holes, rows_of
from megae.imputers.transport import Deadline, filled_in_time, leading_rows
from megae.models.miracle import CausalNetwork, Multiplier, acyclicity, missingness, moment_gap, reconstruction
from megae.training.descent import descend
from megae.training.resources import pick_device

CANDIDATES: dict[str, dict[str, Any]] = {"mice": {}, "gain": {}, "ot": {"max_steps": 2000}}
"""What ``baseline="auto"`` chooses among, the baselines that the MEGAE paper refined, and their settings."""

CHUNK = 4096

CHOICE_ROWS, EXAM_ROWS = 2000, 5000
"""Held-out rows that baselines are compared on, and those that tell the network to keep, about."""


class MIRACLEImputer(NeuralImputer):
    r"""Causally-aware imputation via learning missing data mechanisms (Kyono et al., NeurIPS 2021).

    A baseline fills the holes first. Sub-networks f, one for each column and one for each column's missingness
    indicator, predict it from the other columns (:class:`megae.models.miracle.CausalNetwork`), and minimise

    .. math::
        \lambda |r \odot (x - f(\tilde x))|^2 + BCE(r, f_r(\tilde x)) + \beta \sum_{ij} |W_{ij}|
        + \tfrac{\rho}{2} h(W)^2 + \alpha h(W) + \mu R(f), \qquad h(W) = tr\, e^{W \odot W} - d

    r is 1 in observed cells, :math:`W_{ij}` the norm of the first-layer weights from column i to head j, h is 0 if and
    only if W has no cycle (Zheng et al., NeurIPS 2018), and R compares the mean of the predictions with the mean of the
    column, weighted by inverse probabilities of being observed (:func:`megae.models.miracle.moment_gap`). Indicators
    have no children, so h needs the columns' block of the m-graph alone. After every pass over the rows the holes of
    :math:`\tilde x` are set to the mean of the predictions of the last ``window`` passes. New rows start at the
    baseline's fill and are refined ``sweeps`` times in the same way with the network as it is.

    Settings are those of the authors' code (github.com/vanderschaarlab/MIRACLE) unless stated.

    Deviations
    ----------
    - Complete training graphs have no hole: cells are hidden once, as often as cells are missing in validation graphs,
      and the baseline is fitted to what is left.
    - The authors' code holds alpha = rho = 1 (``dual_steps=0``). Here they rise ``dual_steps`` times, evenly over the
      run (over its time, where that runs out first), as an augmented Lagrangian asks: alpha by rho h, rho tenfold where
      h has not fallen to a quarter.
    - ``sparsity`` is 0.1 in place of 1, and ``max_steps`` 10,000 batches in place of 400 passes over the rows.
    - Columns are standardised. Weights behind the first layer start smaller than the authors' normal ones of deviation
      1, and h is the exact trace of the exponential, theirs the first 24 terms of its series.
    - Its inverse-probability weights lie between 0.5 and 1, since it adds 1.01 to the probability where 0.01 keeps it
      from zero, and it divides by the weights of all rows; here those of observed cells alone count. Its batches pair
      rows with the masks of other rows; here they match.
    - Batches of 128 in place of 32, for time; its reconstruction counts once per row and its mean 1 / 32, which gives
      ``reconstruction_weight`` = 33 on the mean.
    - The network of the evaluation with the lowest error on held-out cells is kept; the authors keep the last.
    - A one-hot column is no parent of the other columns of its category, which it would give away; the authors treat
      encoded columns like any others.
    - New rows, as above; the authors fill the table they were given, with the mean over the last ``window`` passes.
      Here the table of ``fit`` is filled like new rows. ``baseline="auto"`` judges baselines before they are refined,
      and gives "ot" 2,000 steps.

    Parameters
    ----------
    baseline : "auto", "mice", "gain", "ot" or "mean"
        "auto" takes the one of "mice", "gain" and "ot" with the lowest error on held-out cells ("mice" without any).
    baseline_settings : dict or None
        For the constructor of a named baseline.
    max_steps : int
        Gradient steps.
    batch_size, hidden, window, sweeps : int
    reconstruction_weight, sparsity, moment_weight : float
        lambda, beta and mu.
    dual_steps : int
    time_budget : float or None
        Seconds that ``fit`` may train: half of them for fitting baselines, at most an eighth each for the baseline's
        fills of held-out and of training rows, the rest for the network.
    learning_rate, patience, validation_fraction, device, n_jobs, random_state, verbose
        See :class:`megae.imputers.neural.NeuralImputer`.
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    baseline_ : fitted imputer
    baseline_errors_ : dict of held-out RMSE by name, in ranges of the columns; empty where none was chosen
    network_ : CausalNetwork
    acyclicity_ : float
        h at the end.
    outcome_ : megae.training.loop.Outcome

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((60, 3))
    >>> X[0, 1] = np.nan
    >>> MIRACLEImputer(baseline="mean", max_steps=20, random_state=0).fit_transform(X).shape
    (60, 3)
    """

    kind = "learning"
    inductive = True
    _uses_graph = False
    _scaling = "standard"

    baseline_: GraphImputer
    baseline_errors_: dict[str, float]
    network_: CausalNetwork

    def __init__(
        self,
        *,
        baseline: str = "auto",
        baseline_settings: dict[str, Any] | None = None,
        max_steps: int = 10_000,
        batch_size: int = 128,
        hidden: int = 32,
        window: int = 10,
        sweeps: int = 10,
        reconstruction_weight: float = 33.0,
        sparsity: float = 0.1,
        moment_weight: float = 1.0,
        dual_steps: int = 10,
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
        self.baseline = baseline
        self.baseline_settings = baseline_settings
        self.batch_size = batch_size
        self.hidden = hidden
        self.window = window
        self.sweeps = sweeps
        self.reconstruction_weight = reconstruction_weight
        self.sparsity = sparsity
        self.moment_weight = moment_weight
        self.dual_steps = dual_steps

    def _train(self, ground: Ground) -> None:
        self._check_settings()
        device, budget = ground.device, self.time_budget
        deadline = None if budget is None else Deadline(budget)
        visible = fixed_holes(ground)
        given = blinded(ground.division.train, visible)
        start = self._choose_baseline(ground, given)
        target = ground.scaler.forward(rows_of(given), device)
        observed = target.isfinite().float()
        filled = self._baseline_fill(given, None if budget is None else budget / 8)
        target = torch.where(target.isnan(), filled, target)
        self.network_ = CausalNetwork(column_of(ground.columns), self.hidden).to(device)
        self._refine_and_learn(ground, target, observed, start, deadline)
        with torch.no_grad():
            self.acyclicity_ = float(acyclicity(self.network_.norms()[:, : target.shape[1]]))

    def _refine_and_learn(
        self, ground: Ground, rows: Tensor, observed: Tensor, start: Tensor | None, deadline: Deadline | None
    ) -> None:
        """Train on rows (N, E) whose holes move with the predictions of the last passes.

        ``start`` are the baseline's fills of held-out graphs, the first ones, or None: they are then made.
        """
        network, (n, width) = self.network_, rows.shape
        optimiser = torch.optim.Adam(network.parameters(), self.learning_rate)
        multiplier = Multiplier()
        with_holes = (observed < 1).any(dim=0).float()
        size = min(self.batch_size, n)
        per_pass = max(1, n // size)
        ascents = deque(dual_schedule(self.max_steps, self.dual_steps))
        recent: deque[Tensor] = deque(maxlen=self.window)
        order = torch.empty(0, dtype=torch.long)

        def step(k: int, progress: float) -> Tensor:
            nonlocal rows, order
            if k % per_pass == 0:
                if k:
                    recent.append(self._values(rows))
                if len(recent) == self.window:
                    rows = torch.where(observed > 0, rows, torch.stack(list(recent)).mean(dim=0))
                order = torch.randperm(n, device=rows.device)
            here = order[k % per_pass * size :][:size]
            x, r = rows[here], observed[here]
            out = network(x)
            values, logits = out[:, :width], out[:, width:]
            norms = network.norms()
            h = acyclicity(norms[:, :width])
            loss = (
                self.reconstruction_weight * reconstruction(values, x, r)
                + missingness(logits, r, with_holes)
                + self.sparsity * norms.sum()
                + multiplier.penalty(h)
                + self.moment_weight * moment_gap(values, logits, x, r, with_holes)
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            if ascents and progress * self.max_steps + 1.000001 >= ascents[0]:
                ascents.popleft()
                multiplier.ascend(float(h.detach()))
            return loss.detach()

        if start is None and ground.division.validation is not None:
            eighth = None if self.time_budget is None else Deadline(self.time_budget / 8)
            start = filled_in_time(ground.division.validation, EXAM_ROWS, self._baseline_fill, eighth)

        def refined(graphs: list[Data]) -> Tensor:
            return self._refined(graphs, start)

        self.outcome_ = descend(
            step,
            [network],
            max_steps=self.max_steps,
            validate=None if start is None else examiner(ground, refined, most=len(start)),
            eval_every=max(1, min(200, self.max_steps // 20)),
            patience=self.patience,
            time_budget=None if deadline is None else deadline.left(),
            verbose=self.verbose,
            what="miracle",
        )

    def _values(self, rows: Tensor) -> Tensor:
        """Predicted values of all columns, (N, E)."""
        with torch.no_grad():
            return torch.cat([self.network_(part, self.network_.width) for part in rows.split(CHUNK)])

    def _choose_baseline(self, ground: Ground, given: list[Data]) -> Tensor | None:
        """Fit the baseline, or all that may be one, to the training rows as they are shown.

        Where several were compared within a time budget, their fills of held-out rows took a share of it; those of the
        one that is taken come back, (n, E), to be used again.
        """
        from megae.imputers import get_imputer

        held = ground.division.validation
        names = [self.baseline] if self.baseline != "auto" else list(CANDIDATES)[: None if held else 1]
        common = {"random_state": ground.seed, "verbose": self.verbose, "device": self.device}
        common["n_jobs"] = self.n_jobs
        share = None if self.time_budget is None else self.time_budget / 2 / len(names)
        self.baseline_errors_, fitted, fills = {}, {}, {}
        for name in names:
            plain = get_imputer(name)
            known = {k: v for k, v in {**common, "time_budget": share}.items() if k in plain.get_params()}
            settings = CANDIDATES[name] if self.baseline == "auto" else self.baseline_settings or {}
            fitted[name] = plain.set_params(**{**known, **settings}).fit(given)
            self.baseline_ = fitted[name]
            if self.baseline == "auto" and held is not None:
                until = None if self.time_budget is None else Deadline(self.time_budget / 8 / len(names))
                fills[name] = filled_in_time(held, CHOICE_ROWS, self._baseline_fill, until)
        for name, rows in fills.items():
            exam = examiner(ground, leading_rows(rows), most=min(map(len, fills.values())))
            self.baseline_errors_[name] = float("nan") if exam is None else exam()
        best = min(names, key=lambda name: self.baseline_errors_.get(name, 0.0))
        self.baseline_ = fitted[best]
        return None if self.time_budget is None else fills.get(best)

    def _baseline_fill(self, graphs: list[Data], seconds: float | None = None) -> Tensor:
        """The baseline's fills, scaled, (N, E), within ``seconds`` by OT, which alone can take long."""
        if hasattr(self.baseline_, "device") and "device" not in (self.baseline_settings or {}):
            self.baseline_.set_params(device=self.device)
        hurry: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if seconds is not None and isinstance(self.baseline_, OTImputer):
            hurry = self.baseline_.hurried(seconds)
        with hurry:
            return self.scaler_.forward(rows_of(self.baseline_.transform(graphs)), pick_device(self.device))

    def _refined(self, graphs: list[Data], start: Tensor | None) -> Tensor:
        """Fills refined ``sweeps`` times; ``start`` are the baseline's, if they are known."""
        rows = self._baseline_fill(graphs) if start is None else start
        observed = rows_of(graphs).isfinite().to(rows.device)
        recent: deque[Tensor] = deque(maxlen=self.window)
        for _ in range(self.sweeps):
            recent.append(self._values(rows))
            rows = torch.where(observed, rows, torch.stack(list(recent)).mean(dim=0))
        return rows

    def _check_settings(self) -> None:
        known = ("auto", *CANDIDATES, "mean")
        if self.baseline not in known:
            raise ValueError(f"baseline must be one of {', '.join(map(repr, known))}, got {self.baseline!r}")
        for name in ("batch_size", "hidden", "window", "sweeps"):
            if not isinstance(getattr(self, name), (int, np.integer)) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be an integer and at least 1, got {getattr(self, name)!r}")
        for name in ("reconstruction_weight", "sparsity", "moment_weight", "dual_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be at least 0, got {getattr(self, name)!r}")

    def _predict(self, graphs: list[Data]) -> Tensor:
        self.network_.to(pick_device(self.device))
        return self._refined(graphs, None)


def dual_schedule(max_steps: int, dual_steps: int) -> list[int]:
    """Steps, counted from 1, after which the multipliers rise: ``dual_steps`` of them, evenly over ``max_steps``."""
    return sorted({max_steps * (k + 1) // (dual_steps + 1) for k in range(dual_steps)} - {0})

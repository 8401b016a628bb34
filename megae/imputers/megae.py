"""MEGAE: a graph autoencoder on tight wavelets, regularised by maximum spectral entropy."""

from __future__ import annotations

import os
import warnings
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from megae.columns import Column, usable_columns
from megae.imputers.base import GraphImputer
from megae.imputers.build import column_of, seed_from, standardisation
from megae.imputers.diagnostics import describe, held_out_rmse, simple_methods
from megae.imputers.learner import Learner
from megae.imputers.presets import OVERRIDES, resolve
from megae.imputers.uncertainty import Calibration
from megae.training.checkpoint import fingerprint
from megae.training.distributed import current
from megae.training.hiding import HidingRates, rates_like_holes
from megae.training.holdout import MANY_GRAPHS, divide, rebuilt_knn
from megae.training.pool import GraphPool
from megae.training.resources import pick_device, threads


class MEGAEImputer(GraphImputer):
    r"""Fill missing node attributes with a max-entropy graph autoencoder.

    The network filters node attributes with a tight wavelet frame :math:`g_1, \dots, g_M` of the normalised Laplacian,
    codes every band, and filters back. It learns by hiding observed cells again, minimising

    .. math:: \mathcal{L} = \mathcal{L}_R - \gamma \mathcal{L}_S,

    the RMSE on the hidden cells minus the entropy of the latent bands (Gao et al., AAAI 2023). It works on one graph
    and on many, and fills graphs it has never seen without being fitted again.

    Parameters
    ----------
    preset : {"default", "paper"}
        ``default`` is built to win; ``paper`` follows the paper's equations, frozen.
    regularize : bool
        False drops the entropy term.
    use_graph : bool
        False trains the graph-free twin: the same network on rows alone, without edges, without propagated values and
        without the means of graphs.
    scaling : {"standard", "range"}, or None for the preset's
        Columns enter the network with mean 0 and deviation 1, or minimum 0 and maximum 1, by what is observed of them.
        The paper's network has 0 in holes: with "range", its preset's, the minimum of the column; with "standard", its
        mean. Preset ``default`` starts from the means and takes "standard" alone.
    frame : {"uniform", "log", "paper-log", "adapted", "heat", "sgwt"}, or None for the preset's
    decoder : {"adjoint", "inverse", "gcn", "mlp"}, or None for the preset's
    bands, order : int or None
        Number of wavelet bands M and degree K of their polynomials.
    hidden, band_width, blocks : int or None
        Width of the network and of each band, number of wavelet blocks.
    dropout, gamma, learning_rate, weight_decay, batch_fraction : float or None
        None takes the preset's value.
    propagation : int or None
        Iterations of feature propagation in front of the network, where it learns from few graphs.
    partitions : int or None
        On one large graph: cut it into so many parts and train each step on a share ``batch_fraction`` of them, which
        takes that share of the time and the memory. This is approximate: within a step the edges between parts are
        missing (those that stay keep the weight of the whole graph's degrees), so filters see less of the graph than
        they do in the end. Judging, calibrating and filling always use the whole graph. None trains on the whole graph,
        exactly.
    max_steps : int or None
        Training steps.
    patience : int or None
        Evaluations on held-out cells without improvement after which training stops.
    time_budget : float or None
        Seconds that ``fit`` may train; the learning rate comes down in time. Bits then depend on the machine's speed.
    hole_rate : "auto" or float
        How often cells are hidden in training; "auto" looks at the holes themselves.
    unit : {"range", "std"}
        What one unit of error is in each column.
    binary_loss : {"brier", "cross-entropy"}
    validation_fraction, calibration_fraction : float
        Share of graphs (many) or observed cells (few) set aside to stop early by, and to calibrate intervals with.
    diagnose : bool
        Also train the graph-free twin, for ``diagnostics_``; about doubles the time of ``fit``.
    device : {"auto", "cpu", "cuda", ...}
    n_jobs : int or None
        Threads, for torch and the compiled filter alike. None leaves torch's setting, but takes one thread where a step
        is too small for two to pay.
    random_state : int, RandomState or None
    verbose : int
        0 is silent.
    column_types : "auto", mapping or list
        What columns hold, see :mod:`megae.columns`.
    clip : bool
        Keep filled values inside each column's observed range.
    fallback : float
        Fills columns without a single observed value.
    n_neighbors : int
        Of the kNN graph built where none is given.
    unknown_nodes : {"error", "drop"}
        What to do with edges to nodes that X does not have.

    Attributes
    ----------
    diagnostics_ : dict
        Held-out RMSE of MEGAE, of its graph-free twin, of the mean and of feature propagation, in the units of
        ``unit``; the polynomials' error; what fills the holes, the network or (in a nearly empty table) propagation;
        warnings where the graph or the model does not help.
    config_ : dict
        The settings the preset resolved to.
    columns_ : list of Column
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> ring = sp.diags_array([1.0, 1.0], offsets=[1, -39], shape=(40, 40)) + sp.eye_array(40, k=1)
    >>> X = np.stack([np.sin(np.arange(40) / 6), np.cos(np.arange(40) / 6)], axis=1)
    >>> X[::5, 0] = np.nan
    >>> filled = MEGAEImputer(max_steps=30, hidden=16, random_state=0).fit_transform(X, graph=ring)
    >>> filled.shape, bool(np.isnan(filled).any())
    ((40, 2), False)
    """

    kind: ClassVar[str] = "graph"
    shares_work: ClassVar[bool] = True

    def __init__(
        self,
        *,
        preset: str = "default",
        regularize: bool = True,
        use_graph: bool = True,
        scaling: str | None = None,
        frame: str | None = None,
        decoder: str | None = None,
        bands: int | None = None,
        order: int | None = None,
        hidden: int | None = None,
        band_width: int | None = None,
        blocks: int | None = None,
        dropout: float | None = None,
        gamma: float | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        batch_fraction: float | None = None,
        propagation: int | None = None,
        partitions: int | None = None,
        max_steps: int | None = None,
        patience: int | None = None,
        time_budget: float | None = None,
        hole_rate: float | str = "auto",
        unit: str = "range",
        binary_loss: str = "cross-entropy",
        validation_fraction: float = 0.1,
        calibration_fraction: float = 0.1,
        diagnose: bool = True,
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
            column_types=column_types,
            clip=clip,
            fallback=fallback,
            n_neighbors=n_neighbors,
            unknown_nodes=unknown_nodes,
        )
        self.preset = preset
        self.regularize = regularize
        self.use_graph = use_graph
        self.scaling = scaling
        self.frame = frame
        self.decoder = decoder
        self.bands = bands
        self.order = order
        self.hidden = hidden
        self.band_width = band_width
        self.blocks = blocks
        self.dropout = dropout
        self.gamma = gamma
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_fraction = batch_fraction
        self.propagation = propagation
        self.partitions = partitions
        self.max_steps = max_steps
        self.patience = patience
        self.time_budget = time_budget
        self.hole_rate = hole_rate
        self.unit = unit
        self.binary_loss = binary_loss
        self.validation_fraction = validation_fraction
        self.calibration_fraction = calibration_fraction
        self.diagnose = diagnose
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        graph: Any = None,
        validation: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Self:
        """Train on observed cells, hiding some of them again in every step.

        Where a ``torch.distributed`` group is initialised, its processes train one model together: all of them call
        ``fit`` with the same data, and end with the same model. So it is with ``transform`` and the other methods that
        fill. The first process alone writes files and warns. See ``docs/distributed.md``.

        Parameters
        ----------
        X, y, graph, validation : as in every imputer of this package
        checkpoint : path or None
            File to keep the training state in, rewritten atomically as training goes on.
        resume : bool
            Go on from ``checkpoint`` where it exists; the result is the one the uninterrupted run would have had.

        Returns
        -------
        self
        """
        self._checkpoint = (checkpoint, resume)
        try:
            return super().fit(X, y, graph=graph, validation=validation)
        finally:
            del self._checkpoint

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        *,
        graph: Any = None,
        validation: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
    ) -> Any:
        """``fit`` on X, then ``transform`` it on the same graph."""
        self.fit(X, y, graph=graph, validation=validation, checkpoint=checkpoint, resume=resume)
        return self.transform(X, graph=graph)

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        columns = self._seen_columns()
        cells = [g.x.numpy()[:, [c.start for c in columns]] for g in [*graphs, *validation]]
        missing = float(np.isnan(np.concatenate(cells[: len(graphs)])).mean())
        overrides = {k: getattr(self, k) for k in OVERRIDES}
        self.config_ = resolve(self.preset, len(graphs) < MANY_GRAPHS, tuple(graphs[0].x.shape), missing, overrides)
        self._check_parameters()
        if self.partitions is not None and len(graphs) >= MANY_GRAPHS:
            raise ValueError(
                f"partitions is for one large graph, but these are {len(graphs)}, of which each step takes a share as "
                "it is; leave partitions out, and lower batch_fraction for smaller steps"
            )
        processes = current()
        if processes.size > 1:
            data = (t for g in [*graphs, *validation] for t in (g.x, g.edge_index, g.edge_weight))
            processes.agree(fingerprint(self._settings(), *data))
        self.seed_ = int(processes.number_of_first(seed_from(self.random_state)))
        device = pick_device(self.device)
        rates = rates_like_holes(cells, self.hole_rate)
        if len(graphs) < MANY_GRAPHS:
            rates = HidingRates(np.minimum(rates.columns, 0.3), rates.rows)
        fractions = (self.validation_fraction, self.calibration_fraction)
        division = divide(graphs, validation, rates, column_of(columns), fractions, self.seed_)
        if self._built_knn:
            division = rebuilt_knn(division, self.n_neighbors)
        self.by_graph_ = division.by_graph
        self.center_, self.mean_, self.scale_, self.unit_ = standardisation(
            division.train, division.trainable, self.config_["scaling"], self.unit
        )
        checkpoint, resume = self._checkpoint
        learner = Learner(
            config=self.config_,
            division=division,
            columns=columns,
            rates=rates,
            shift=self.mean_,
            scale=self.scale_,
            unit=self.unit_,
            gamma=self.config_["gamma"] if self.regularize else 0.0,
            binary_loss=self.binary_loss,
            seed=self.seed_,
            device=device,
            verbose=self.verbose,
            resume=resume,
            processes=processes,
            knn=self.n_neighbors if self._built_knn else None,
        )
        with threads(self.n_jobs, self._work(graphs)):
            self._learn(learner, checkpoint)

    def _settings(self) -> dict[str, Any]:
        """What all processes that train together must have in common."""
        apart = {"device", "n_jobs", "random_state", "verbose"}
        return {k: repr(v) for k, v in self.get_params(deep=False).items() if k not in apart}

    def _check_parameters(self) -> None:
        for name in ("max_steps", "bands", "order", "hidden", "band_width", "blocks"):
            value = self.config_[name]
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be an integer and at least 1, got {value!r}")
        for name, above in (("gamma", False), ("learning_rate", True), ("weight_decay", False)):
            value = self.config_[name]
            if not _is_number(value) or value < 0 or (above and value == 0):
                raise ValueError(f"{name} must be a number {'above 0' if above else 'of at least 0'}, got {value!r}")
        for name in ("regularize", "use_graph", "diagnose"):
            value = getattr(self, name)
            if not isinstance(value, (bool, np.bool_)):
                raise ValueError(f"{name} must be True or False, got {value!r}")
        patience = self.config_["patience"]
        if patience is not None and (not isinstance(patience, (int, np.integer)) or patience < 1):
            raise ValueError(f"patience must be None or an integer and at least 1, got {patience!r}")
        parts = self.partitions
        if parts is not None and (not isinstance(parts, (int, np.integer)) or parts < 2):
            raise ValueError(f"partitions must be None or an integer and at least 2, got {parts!r}")
        if self.config_["scaling"] not in ("standard", "range"):
            raise ValueError(f"scaling must be 'standard' or 'range', got {self.scaling!r}")
        if self.config_["scaling"] == "range" and self.preset == "default":
            raise ValueError(
                "scaling='range' is for preset='paper'; preset 'default' starts from column means: leave scaling out"
            )
        if self.unit not in ("range", "std"):
            raise ValueError(f"unit must be 'range' or 'std', got {self.unit!r}")
        fractions = (self.validation_fraction, self.calibration_fraction)
        if min(fractions) < 0 or not sum(fractions) < 1:
            raise ValueError(
                "validation_fraction and calibration_fraction must not be negative and must sum to less than 1, got "
                f"{fractions[0]} and {fractions[1]}"
            )
        if self._checkpoint[1] and self._checkpoint[0] is None:
            raise ValueError("resume=True needs checkpoint=, the file to go on from")
        if self._checkpoint[1] and self.random_state is None:
            raise ValueError("resume=True needs a fixed random_state: give the integer the first run had")

    def _learn(self, learner: Learner, checkpoint: str | os.PathLike[str] | None) -> None:
        budget = self.time_budget
        twin_too = self.diagnose and self.use_graph and learner.division.calibration is not None
        share = 0.6 if twin_too else 1.0
        self.network_, outcome = learner.train(
            self.use_graph, None if budget is None else budget * share, checkpoint, "megae"
        )
        judge = learner.exam(learner.division.calibration, self.use_graph)
        self.calibration_ = Calibration.measure(
            self.network_, learner.exam(learner.division.validation, self.use_graph), judge
        )
        weight = self.scale_ / self.unit_
        own = float("nan") if judge is None or self.calibration_ is None else self.calibration_.rmse(weight, judge)
        rmse = {"megae": own} | simple_methods(judge, (self.center_ - self.mean_) / self.scale_, weight)
        if twin_too and outcome.stopped != "interrupted":
            left = None if budget is None else max(budget - outcome.seconds, 0.2 * budget)
            beside = None if checkpoint is None else f"{os.fspath(checkpoint)}.graph-free"
            twin, _ = learner.train(False, left, beside, "graph-free twin")
            rmse["graph_free"] = held_out_rmse(twin, learner.exam(learner.division.calibration, False), weight)
        self.diagnostics_ = describe(rmse, outcome, judge, self.unit, learner.quality)
        if self.config_["nearly_empty"]:
            self._give_back(learner)
        for note in self.diagnostics_["warnings"] if learner.processes.first else []:
            warnings.warn(note, stacklevel=5)

    def _give_back(self, learner: Learner) -> None:
        """From now on fill around the means of all observed cells, and with shares by them, if it is shares that fill.

        So far, held-out cells were kept out of both.
        """
        graphs = learner.division.train
        observed = torch.isfinite(torch.cat([g.x for g in graphs]))
        _, self.mean_, _, _ = standardisation(graphs, observed, "standard", self.unit)
        self.network_.head.recentre(self.mean_)
        if self.network_.carried is not None:
            self.network_.carry(learner.shares(observed, self.mean_))

    def _work(self, graphs: list[Data]) -> int:
        """Numbers in one layer of the network in one training step."""
        c = self.config_
        share = c["batch_fraction"] if len(graphs) >= MANY_GRAPHS or c.get("partitions") is not None else 1.0
        return int(sum(g.x.shape[0] for g in graphs) * share) * max(c["hidden"], graphs[0].x.shape[1])

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        values, pool = self._predict(graphs)
        return [values[pool.ptr[k] : pool.ptr[k + 1]] for k in range(pool.n_graphs)]

    def _predict(self, graphs: list[Data]) -> tuple[np.ndarray, GraphPool]:
        """Values (N, E) in the units of the data, over the nodes of all graphs."""
        device = pick_device(self.device)
        network = self.network_.to(device)
        with threads(self.n_jobs, self._work(graphs)):
            pool = GraphPool(graphs, self.mean_, self.scale_, device, self.use_graph, current())
            z = network.predict(pool, pool.whole.observed).double().cpu().numpy()
        return z * self.scale_ + self.mean_, pool

    def latent_codes(self, X: Any, *, graph: Any = None) -> list[np.ndarray]:
        """The latent code of every node: Z^(2) of all bands, and of all wavelet blocks, side by side.

        Parameters
        ----------
        X, graph : as in :meth:`transform`

        Returns
        -------
        list of ndarrays of shape (N_i, H), one per graph; one for a table
        """
        check_is_fitted(self)
        graphs, _ = self._read(X, graph, reset=False)
        device = pick_device(self.device)
        with threads(self.n_jobs, self._work(graphs)):
            pool = GraphPool(self._usable(graphs), self.mean_, self.scale_, device, self.use_graph, current())
            Z = self.network_.to(device).latent(pool, pool.whole.observed).cpu().numpy()
        return np.split(Z, pool.ptr[1:-1])

    def intervals(self, X: Any, *, graph: Any = None, coverage: float = 0.9) -> tuple[Any, Any]:
        """Prediction intervals by split-conformal calibration.

        Calibrated on observed cells (or graphs) used neither in training nor for early stopping: over many holes that
        fall as the calibration cells did, a share ``coverage`` of the true values lies inside. The promise holds for
        each column that has 200 calibration cells or more, and about so for the others, which are calibrated together.

        Parameters
        ----------
        X, graph : as in :meth:`transform`
        coverage : float in (0, 1)

        Returns
        -------
        lower, upper : what X was, holes filled with the ends of the interval
            Observed cells are as they were. Categorical columns hold the likeliest category in both. Ends are infinite
            in a column without data, and, with a warning, where too few calibration cells are there for such a
            coverage; a column of integers becomes one of floats then.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie strictly between 0 and 1, got {coverage!r}")
        check_is_fitted(self)
        graphs, tables = self._read(X, graph, reset=False)
        values, pool = self._predict(self._usable(graphs))
        half = np.where(self._numeric, self._calibrated().half_width(coverage) * self.scale_, 0.0)
        if np.isinf(half).any():
            warnings.warn(
                f"{self._calibrated().scores.size} calibration cells are too few for a coverage of {coverage:g}: "
                "intervals have no ends; ask for a lower coverage, or raise calibration_fraction",
                stacklevel=2,
            )
        ends = []
        for sign in (-1.0, 1.0):
            moved = values + sign * half
            parts = [moved[pool.ptr[k] : pool.ptr[k + 1]] for k in range(pool.n_graphs)]
            ends.append(self._restore(X, tables, self._complete(graphs, parts, unknown=sign * np.inf)))
        return ends[0], ends[1]

    def sample(self, X: Any, *, graph: Any = None, n: int = 10, random_state: Any = None) -> list[Any]:
        """Draws for multiple imputation: n completed tables whose spread is that of the calibration errors.

        Numbers are the prediction plus an error drawn from the calibration cells (of the same column where it has
        fifty of them); binary and categorical cells are drawn from their predicted probabilities. Draws are
        independent from cell to cell.

        Parameters
        ----------
        X, graph : as in :meth:`transform`
        n : int
        random_state : int, RandomState or None
            None takes the seed of ``fit``: the same draws in every call.

        Returns
        -------
        list of n tables (or lists of graphs), each what X was
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        graphs, tables = self._read(X, graph, reset=False)
        values, pool = self._predict(self._usable(graphs))
        rng = np.random.default_rng(self.seed_ if random_state is None else seed_from(random_state))
        columns = self._seen_columns()
        draws = []
        for _ in range(n):
            drawn = self._calibrated().draw(values, self.scale_, columns, rng)
            parts = [drawn[pool.ptr[k] : pool.ptr[k + 1]] for k in range(pool.n_graphs)]
            draws.append(self._restore(X, tables, self._complete(graphs, parts)))
        return draws

    def _seen_columns(self) -> list[Column]:
        return usable_columns(self.columns_, self.usable_)

    @property
    def _numeric(self) -> np.ndarray:
        columns = self._seen_columns()
        return np.concatenate([np.repeat(c.kind != "categorical", c.stop - c.start) for c in columns])

    def _calibrated(self) -> Calibration:
        if self.calibration_ is None:
            raise ValueError(
                "no cells were set aside for calibration: give fit more observed cells or a larger calibration_fraction"
            )
        return self.calibration_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted imputer to one safetensors file with a JSON header; no pickle.

        Of the processes of a ``torch.distributed`` group the first alone writes.
        """
        from megae.imputers.persistence import save_imputer

        if current().first:
            save_imputer(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an imputer written by :meth:`save`."""
        from megae.imputers.persistence import load_imputer

        return load_imputer(cls, path)


def _is_number(value: Any) -> bool:
    """Whether a value is a real number and neither a truth value nor NaN."""
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and bool(value == value)

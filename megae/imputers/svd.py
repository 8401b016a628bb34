"""Completion by a table of low rank: iterative SVD and SoftImpute."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from torch_geometric.data import Data

from megae.columns import usable_columns
from megae.imputers.base import GraphImputer
from megae.imputers.build import seed_from
from megae.imputers.selection import hold_out
from megae.models.low_rank import MOST, Completion, RowSpace, complete, leading
from megae.training.progress import make_progress

RANKS = (*range(1, 21), 24, 32, 48, 64, 96, MOST)
"""Ranks that are tried."""

PATH = 0.7 ** np.arange(1, 30)
"""Shrinkages that are tried, as shares of the one at which nothing is left."""

WORTH = 1e-3
"""Share by which the error must fall for a candidate to count as better."""

PATIENCE = 3
"""Candidates without improvement after which the search ends."""


class SVDImputer(GraphImputer):
    r"""Fill holes with a table of low rank.

    ``form="iterative"`` is SVDimpute (Troyanskaya et al., Bioinformatics 17(6), 2001): approximate the filled table by
    its k first singular vectors, put the approximation into the holes, and repeat until it stays.
    ``form="soft"`` is SoftImpute (Mazumder, Hastie & Tibshirani, JMLR 11, 2010): every singular value is shrunk by
    :math:`\lambda` instead. Both are

    .. math::
        Z \leftarrow S\big(P_\Omega(X) + P_\Omega^\perp(Z)\big), \qquad
        S(U D V^\top) = \sum_{i \le k} d_i u_i v_i^\top \quad\text{or}\quad \sum_i (d_i - \lambda)_+ u_i v_i^\top

    with :math:`P_\Omega` the observed cells; the second minimises
    :math:`\tfrac12 \|P_\Omega(X - Z)\|_F^2 + \lambda \|Z\|_*`. The graph is not used.

    X are the rows of all training graphs. Any row, new or not, is filled by its own cells' regression on the learnt
    row space, :math:`\hat x = B (B_o^\top B_o + \rho I)^{-1} B_o^\top x_o` with o the columns it shows:

    - soft: :math:`B = V D^{1/2}, \rho = \lambda`, the row's share of the same objective; on the table of ``fit`` it
      gives Z.
    - iterative: :math:`B = V (D^2/N - \sigma^2)^{1/2}, \rho = \sigma^2`, the noise of probabilistic PCA (Tipping &
      Bishop 1999). ``ridge=0`` is the least squares of the paper, which gives Z on the table of ``fit``.

    Deviations
    ----------
    - Columns are scaled by what is observed of them (``scaling="none"`` leaves them as they are), and their means are
      free parameters (those of the filled table); the papers leave that to the user.
    - Rank and shrinkage are chosen, where None, by the error on held-out observed cells (whole graphs where there are
      many), along a path of warm starts, ranks rising or shrinkages falling; then the same path is followed again with
      all cells. The search ends after three candidates in a row that lower the least error by less than 0.1 %, so a
      better one beyond them is not found, and a candidate counts as better from 0.1 % on.
    - The iterative form starts holes at the column means and puts the truncated table into them; SVDimpute starts at
      row averages, its rows being genes, and regresses each row on the singular vectors. Both stay at the same points.
      It stops by a relative change, the paper by one of 0.01 in total.
    - The soft form stops when :math:`\|Z^{new} - Z\|_F / \|Z\|_F` falls below ``tol``; the paper squares that ratio,
      so its threshold for the same fill is the square of ours.
    - The ridge of the iterative form.
    - In large tables the singular vectors come from subspace iteration, warm from round to round, 128 at most.

    Parameters
    ----------
    form : "iterative" or "soft"
    rank : int or None
        k; in the soft form a bound on the rank. None: chosen (iterative), no bound (soft).
    shrinkage : float or None
        :math:`\lambda` of the soft form as a share of the largest singular value of :math:`P_\Omega(X)`, at which
        nothing is left; None: chosen.
    ridge : float or None
        :math:`\rho` of the iterative form, in squared scaled units; None: the noise.
    scaling : "standard", "range" or "none"
        Columns are divided by their deviation, by their range, or not at all; columns of large numbers then dominate.
    max_iter : int
    tol : float
        Z has settled when it changes by less than this share of its norm.
    validation_fraction : float
        Share of graphs (many) or observed cells (few) held out to choose by.
    time_budget : float or None
        Seconds that ``fit`` may take; the search for a rank or shrinkage gets two thirds of them.
    random_state : int, RandomState or None
    verbose : int
    column_types, clip, fallback, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    components_ : ndarray of shape (k, E)
        V', the singular vectors over the encoded columns.
    singular_values_ : ndarray of shape (k,)
        After shrinkage.
    rank_, shrinkage_ : int, float
        What was given or chosen.
    validation_rmse_ : dict, candidate -> held-out RMSE in units of the columns' ranges
    n_iter_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer(np.arange(40.0), [1.0, 2, 3, 4])
    >>> X[7, 1] = np.nan
    >>> float(SVDImputer(rank=1).fit_transform(X)[7, 1].round(1))
    14.0
    """

    inductive: ClassVar[bool] = False
    _uses_graph = False

    components_: np.ndarray
    singular_values_: np.ndarray
    rank_: int
    shrinkage_: float
    validation_rmse_: dict[float, float]
    n_iter_: int
    mean_: np.ndarray
    scale_: np.ndarray

    def __init__(
        self,
        *,
        form: str = "iterative",
        rank: int | None = None,
        shrinkage: float | None = None,
        ridge: float | None = None,
        scaling: str = "standard",
        max_iter: int = 200,
        tol: float = 1e-4,
        validation_fraction: float = 0.1,
        time_budget: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        column_types: Any = "auto",
        clip: bool = False,
        fallback: float = 0.0,
        unknown_nodes: str = "error",
    ) -> None:
        super().__init__(column_types=column_types, clip=clip, fallback=fallback, unknown_nodes=unknown_nodes)
        self.form = form
        self.rank = rank
        self.shrinkage = shrinkage
        self.ridge = ridge
        self.scaling = scaling
        self.max_iter = max_iter
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        if self.form not in ("iterative", "soft"):
            raise ValueError(f"form must be 'iterative' or 'soft', got {self.form!r}")
        if self.scaling not in ("standard", "range", "none"):
            raise ValueError(f"scaling must be 'standard', 'range' or 'none', got {self.scaling!r}")
        for name, least in (("rank", 1), ("max_iter", 1)):
            value = getattr(self, name)
            if not (name == "rank" and value is None) and not (isinstance(value, (int, np.integer)) and value >= least):
                raise ValueError(f"{name} must be an integer and at least {least}, got {value!r}")
        if self.shrinkage is not None and not 0 < self.shrinkage <= 1:
            raise ValueError(f"shrinkage must lie in (0, 1], or be None, got {self.shrinkage!r}")
        if self.ridge is not None and self.ridge < 0:
            raise ValueError(f"ridge must be at least 0, or None, got {self.ridge!r}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}")

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        self._check_parameters()
        start = time.monotonic()
        seed = seed_from(self.random_state)
        self.validation_rmse_ = {}
        setting = self.rank if self.form == "iterative" else self.shrinkage
        if setting is None:
            setting = self._choose(graphs, validation, seed, self._timer(start, 2 / 3))
        rows = np.concatenate([g.x.numpy() for g in graphs])
        self.mean_, self.scale_ = self._measure(rows)
        z = (rows - self.mean_) / self.scale_
        path, late, rng = self._candidates(*rows.shape), self._timer(start, 1.0), np.random.default_rng(seed)
        weaker = [c for c in path if (c < setting) == (self.form == "iterative") and c != setting]
        warm: Completion | None = None
        for c in [*(weaker if np.isnan(z).any() else []), setting]:
            if c == setting or not late():
                done, self._space = self._learn(z, c, warm, rng, late)
                warm = done
        self.components_, self.singular_values_ = done.V.T, done.d
        self.rank_, self.n_iter_ = int((done.d > 0).sum()), done.n_iter
        self.shrinkage_ = float(setting) if self.form == "soft" else 0.0

    def _measure(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and scale of every column (E,) from the observed cells of these rows (N, E)."""
        mean, deviation = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        span = np.nanmax(rows, axis=0) - np.nanmin(rows, axis=0)
        scale = {"standard": deviation, "range": span, "none": np.ones_like(mean)}[self.scaling]
        return mean, np.where(deviation > 1e-9 * np.abs(mean), scale, 1.0)

    def _timer(self, start: float, share: float) -> Callable[[], bool]:
        if self.time_budget is None:
            return lambda: False
        end = start + share * self.time_budget
        return lambda: time.monotonic() >= end

    def _learn(
        self,
        z: np.ndarray,
        setting: float,
        warm: Completion | None,
        rng: np.random.Generator,
        late: Callable[[], bool],
    ) -> tuple[Completion, RowSpace]:
        """Complete scaled rows (N, E) with this rank or share of the largest singular value."""
        how: dict[str, Any] = {"start": warm, "max_iter": self.max_iter, "tol": self.tol, "rng": rng, "late": late}
        if self.form == "iterative":
            done = complete(z, rank=int(setting), **how)
            return done, RowSpace.of_hard(done, z, self.ridge)
        largest = float(leading(np.nan_to_num(z), 1, None, rng)[1][0])
        shrinkage = setting * largest
        done = complete(z, rank=self.rank, shrinkage=shrinkage, **how)
        return done, RowSpace.of_soft(done, shrinkage)

    def _choose(
        self,
        graphs: list[Data],
        validation: list[Data],
        seed: int,
        late: Callable[[], bool],
    ) -> float:
        """The rank or shrinkage with the least error on cells (or graphs) that are held out."""
        columns = usable_columns(self.columns_, self.usable_)
        choice = hold_out(graphs, validation, columns, self.validation_fraction, seed)
        candidates = self._candidates(sum(len(g.x) for g in graphs), graphs[0].x.shape[1])
        if choice is None:
            return candidates[0]
        mean, scale = self._measure(choice.train)
        z, asked = (choice.train - mean) / scale, (np.concatenate(choice.asked) - mean) / scale
        warm: Completion | None = None
        rng, since, best = np.random.default_rng(seed), 0, np.inf
        with make_progress(self.verbose, f"svd {self.form}", len(candidates)) as progress:
            for k, candidate in enumerate(candidates):
                done, space = self._learn(z, candidate, warm, rng, late)
                warm = done
                error = choice.error(space.fill(asked) * scale + mean)
                self.validation_rmse_[candidate] = error
                since, best = (0, error) if error < (1 - WORTH) * best - WORTH**2 else (since + 1, best)
                progress.report({"step": k + 1, "loss": done.change, "val_rmse": error}, np.nan)
                if since >= PATIENCE or late():
                    break
        if not np.isfinite(best):
            what = "rank" if self.form == "iterative" else "shrinkage"
            raise FloatingPointError(
                f"no {what} could be chosen: the error on held-out cells is not a finite number for any of them; "
                f"give {what}, or columns whose numbers are nearer to each other"
            )
        return next(c for c, error in self.validation_rmse_.items() if error == best)

    def _candidates(self, n: int, e: int) -> list[float]:
        if self.form == "soft":
            return PATH.tolist()
        return [k for k in RANKS if k < min(n, e)] or [1]

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        rows = np.concatenate([g.x.numpy() for g in graphs])
        filled = self._space.fill((rows - self.mean_) / self.scale_) * self.scale_ + self.mean_
        return np.split(filled, np.cumsum([len(g.x) for g in graphs])[:-1])

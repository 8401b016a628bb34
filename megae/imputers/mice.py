"""Chained equations: each column regressed on the others in turn, drawn from, and the whole done several times."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from megae.columns import usable_columns
from megae.imputers.base import GraphImputer
from megae.imputers.build import column_of, seed_from
from megae.imputers.selection import hold_out
from megae.models.chained_equations import ChainedEquations, Imputation, Round, replay, stream
from megae.training.descent import descend

WIDE, NEAREST = 50, 25
"""With more columns than ``WIDE``, ``n_nearest_features="auto"`` regresses on so many of them."""


class Pooled(NamedTuple):
    """Several imputations made one by Rubin's rules.

    ``estimate`` is what X was. ``variance``, ``within`` and ``between`` are (N, D) arrays, or lists of them for graphs:
    0 in observed cells, NaN in categorical columns and in those without data.
    """

    estimate: Any
    variance: Any
    within: Any
    between: Any


class MICEImputer(GraphImputer):
    r"""Multiple imputation by chained equations (van Buuren & Groothuis-Oudshoorn, J. Stat. Software 45(3), 2011).

    Holes start at the column means. In each of ``max_iter`` rounds every column, those with the fewest holes first, is
    regressed on the others over the rows that show it, and its holes are drawn from the predictive distribution:

    .. math::
        x_j = b + w^\top (x_{-j} - \bar x_{-j}) + \varepsilon, \quad
        w \sim N(0, \lambda^{-1} I),\ \varepsilon \sim N(0, \alpha^{-1});
        \qquad \dot x_{ij} \sim N(\mu_{ij}, \sigma_{ij}^2),

    .. math::
        \mu = b + m^\top (x_{-j} - \bar x_{-j}), \qquad
        \sigma^2 = \alpha^{-1} + (x_{-j} - \bar x_{-j})^\top S\, (x_{-j} - \bar x_{-j})

    with posterior mean m and covariance S of w (:class:`sklearn.linear_model.BayesianRidge`). :math:`\bar x_{-j}` and
    the intercept b are the means of the predictors and of :math:`x_j` over the rows that show it. The whole is done
    ``n_imputations`` times, and the m imputations are pooled by Rubin's rules (Multiple Imputation for Nonresponse in
    Surveys, 1987, section 3.1). Imputation k estimates a hole by :math:`\mu^{(k)}` with variance
    :math:`\sigma^{(k)2}`, both of its last round:

    .. math::
        \bar\mu = \frac1m \sum_k \mu^{(k)}, \qquad
        T = \underbrace{\frac1m \sum_k \sigma^{(k)2}}_{\text{within}}
          + \Big(1 + \frac1m\Big) \underbrace{\frac1{m-1} \sum_k (\mu^{(k)} - \bar\mu)^2}_{\text{between}}

    ``transform`` fills in :math:`\bar\mu`; :meth:`pooled` gives T too; :meth:`sample` gives the draws. The graph is not
    used. New rows go through the regressions of ``fit``, round by round, with draws of their own. Random numbers
    depend on the seed and on what the table or graph shows, so a graph gets the same draws whatever it is filled with.

    Deviations
    ----------
    - Every column gets the linear equation, as in :class:`sklearn.impute.IterativeImputer`, whose draws these are up to
      rounding, for the same random numbers, with ``squeeze=False`` and all predictors; the paper offers logistic ones
      for binary and categorical columns. The one-hot columns of a category are not regressed on each other.
    - The package fits columns of numbers by predictive mean matching unless told otherwise; the regression here is its
      ``norm`` with a prior whose scale is estimated, :class:`sklearn.linear_model.BayesianRidge`.
    - Holes start at the column means, columns with the fewest holes come first, and there are 10 rounds. The package
      starts at draws from the observed cells, takes columns in their order, and makes 5 rounds.
    - Parameters are integrated out row by row instead of drawn once for all rows. The intercept b counts as known: its
      own uncertainty, about :math:`\alpha^{-1}` over the number of rows, is not part of :math:`\sigma^2`.
    - Columns are standardised first, since the prior on w has one scale.
    - Where training rows have no hole and every column is a predictor, all rounds and imputations have the same
      regressions: they are fitted once.
    - Draws stay within the observed range (``squeeze``), and so do the means :math:`\mu^{(k)}` that are pooled, while
      :math:`\sigma^{(k)2}` stays that of the free regression.
    - ``n_nearest_features="auto"`` chooses among all predictors and two thirds of them.
    - Rubin's estimate uses the means :math:`\mu^{(k)}`, not the draws, whose noise would only widen the error.

    Parameters
    ----------
    n_imputations : int
        m. The default is that of the authors' R package.
    max_iter : int
        Rounds.
    n_nearest_features : int, None or "auto"
        Predictors per regression, drawn anew for each in proportion to their absolute correlation with the column;
        None takes all. "auto" takes all or two thirds, whichever errs less on held-out cells: where columns depend on
        each other linearly, a chain over all of them hardly moves. More than 50 columns get 25 (the paper advises 15
        to 25).
    squeeze : bool
        Keep draws and means within the range observed in training, as the package's function of that name does with
        draws. Without it, chains over columns that depend on each other linearly can run away.
    standardize : bool
        Regress in units of each column's deviation.
    validation_fraction : float
        Share of graphs (many) or observed cells (few) held out for that choice.
    time_budget : float or None
        Seconds that ``fit`` may take. The imputations take turns, a round each; when time is over, the finished rounds
        count, and imputations that have finished none are not pooled. A column without a regression keeps its mean.
    random_state : int, RandomState or None
    verbose : int
    column_types, clip, fallback, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    chains_ : list of lists of rounds of :class:`megae.models.chained_equations.Equation`
        The regressions of each imputation; of one, where they are all the same. Fewer than ``n_imputations`` where
        time ran out: so many imputations are then pooled.
    mean_, scale_ : ndarray of shape (E,)
    n_iter_ : int
        Rounds of every imputation, at least; where time ran out, some have one more.
    validation_rmse_ : dict, number of predictors -> held-out RMSE in units of the columns' ranges
    seed_ : int

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0], [4.0, np.nan], [5.0, 10.0]])
    >>> imputer = MICEImputer(random_state=0).fit(X)
    >>> float(imputer.transform(X)[3, 1].round(2))
    8.0
    """

    _uses_graph = False

    chains_: list[list[Round]]
    mean_: np.ndarray
    scale_: np.ndarray
    n_iter_: int
    seed_: int
    _most: int | None
    validation_rmse_: dict[int, float]

    def __init__(
        self,
        *,
        n_imputations: int = 5,
        max_iter: int = 10,
        n_nearest_features: int | str | None = "auto",
        squeeze: bool = True,
        standardize: bool = True,
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
        self.n_imputations = n_imputations
        self.max_iter = max_iter
        self.n_nearest_features = n_nearest_features
        self.squeeze = squeeze
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        for name in ("n_imputations", "max_iter"):
            if not isinstance(getattr(self, name), (int, np.integer)) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be an integer and at least 1, got {getattr(self, name)!r}")
        nearest = self.n_nearest_features
        if not (nearest in (None, "auto") or (isinstance(nearest, (int, np.integer)) and nearest >= 1)):
            raise ValueError(f"n_nearest_features must be 'auto', None or an integer from 1 on, got {nearest!r}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}")
        start = time.monotonic()
        self.seed_ = seed_from(self.random_state)
        self.validation_rmse_ = {}
        wanted = self._choose(graphs, validation) if isinstance(nearest, str) else nearest
        rows = np.concatenate([g.x.numpy() for g in graphs])
        left = None if self.time_budget is None else max(self.time_budget - (time.monotonic() - start), 1e-9)
        self._learn(rows, wanted, self.n_imputations, left)
        if self._lacks:
            few = f"; {self._most} of {self.n_imputations} imputations are pooled" if self._most else ""
            warnings.warn(
                f"mice ran out of its {self.time_budget:g} s, {self._lacks} regressions short{few}; what there is, is "
                "used. Give a larger time_budget, or fewer imputations, rounds or n_nearest_features",
                stacklevel=4,
            )

    def _choose(self, graphs: list[Data], validation: list[Data]) -> int | None:
        """All columns or two thirds of them as predictors, by the error on held-out cells."""
        width = graphs[0].x.shape[1]
        if width > WIDE:
            return NEAREST
        columns = usable_columns(self.columns_, self.usable_)
        choice = hold_out(graphs, validation, columns, self.validation_fraction, self.seed_)
        some = round(2 * width / 3)
        if choice is None or not 2 <= some < width - 1:
            return None
        for nearest in (None, some):
            self._learn(choice.train, nearest, 2, None if self.time_budget is None else self.time_budget / 4)
            self.validation_rmse_[nearest or width - 1] = choice.error(self._means(choice.asked, 2))
        best = min(self.validation_rmse_, key=self.validation_rmse_.__getitem__)
        return best if best == some else None

    def _learn(self, rows: np.ndarray, nearest: int | None, n_imputations: int, time_budget: float | None) -> None:
        """Fit the chains on these rows (N, E), NaN in holes."""
        self.mean_, spread = np.nanmean(rows, axis=0), np.nanstd(rows, axis=0)
        self.scale_ = np.ones_like(self.mean_)
        if self.standardize:
            self.scale_ = np.where(spread > 1e-9 * np.abs(self.mean_), spread, 1.0)
        self._bounds = np.full_like(self.mean_, -np.inf), np.full_like(self.mean_, np.inf)
        if self.squeeze:
            self._bounds = self._scaled(np.nanmin(rows, axis=0)), self._scaled(np.nanmax(rows, axis=0))
        z = self._scaled(rows)
        width = z.shape[1]
        group = column_of(usable_columns(self.columns_, self.usable_)).numpy()
        same = not np.isnan(z).any() and (nearest is None or nearest >= width)
        n_chains, n_rounds = (1, 1) if same else (n_imputations, self.max_iter)
        chains: list[ChainedEquations] = []

        def step(k: int, progress: float) -> float:
            which = k // width % n_chains
            if which == len(chains):
                sources = stream(self.seed_, which, rows), np.random.RandomState([self.seed_, which])
                chains.append(ChainedEquations(z, group, nearest, self._bounds, *sources))
            model = chains[which].advance().model
            return 0.0 if model is None else float(model.alpha_) ** -0.5

        total = n_chains * n_rounds * width
        outcome = descend(
            step, [], max_steps=total, eval_every=width, time_budget=time_budget, verbose=self.verbose, what="mice"
        )
        self._lacks = total - outcome.steps
        self.chains_ = [c.rounds() for c in chains if len(c.equations) >= width] or [chains[0].rounds()]
        self._most = len(self.chains_) if len(self.chains_) < n_chains else None
        if same:
            self.chains_ = [self.chains_[0] * self.max_iter]
        self.n_iter_ = min(map(len, self.chains_))

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        return (rows - self.mean_) / self.scale_

    def _pooled(self, wanted: int) -> int:
        """How many imputations to pool: none twice, where time did not last for as many as were wanted."""
        return wanted if self._most is None else min(wanted, self._most)

    def _imputations(self, parts: list[np.ndarray], n: int, seed: int) -> list[Imputation]:
        """n imputations of the rows of all graphs, standardised."""
        ptr = np.cumsum([0, *map(len, parts)])
        z = self._scaled(np.concatenate(parts))
        return [
            replay(self.chains_[k % len(self.chains_)], z, ptr, self._bounds, [stream(seed, k, x) for x in parts])
            for k in range(n)
        ]

    def _means(self, parts: list[np.ndarray], n: int) -> np.ndarray:
        """Mean over n imputations of the rows of all graphs, (N, E)."""
        done = self._imputations(parts, self._pooled(n), self.seed_)
        return np.mean([i.mean for i in done], axis=0) * self.scale_ + self.mean_

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        return self._by_graph(self._means([g.x.numpy() for g in graphs], self.n_imputations), graphs)

    def pooled(self, X: Any, *, graph: Any = None) -> Pooled:
        """The pooled imputation and how uncertain it is, by Rubin's rules.

        Parameters
        ----------
        X, graph : as in :meth:`transform`

        Returns
        -------
        Pooled
            ``estimate`` is what :meth:`transform` returns; ``variance`` = ``within`` + (1 + 1/m) ``between``, in the
            squared units of each column.
        """
        check_is_fitted(self)
        graphs, tables = self._read(X, graph, reset=False)
        usable = self._usable(graphs)
        done = self._imputations([g.x.numpy() for g in usable], self._pooled(self.n_imputations), self.seed_)
        means = np.stack([i.mean for i in done])
        values = self._by_graph(means.mean(axis=0) * self.scale_ + self.mean_, usable)
        estimate = self._restore(X, tables, self._complete(graphs, values))
        within = np.mean([i.variance for i in done], axis=0)
        holes = np.concatenate([np.isnan(g.x.numpy()) for g in usable])
        between = np.where(holes, means.var(axis=0, ddof=1), 0.0) if len(done) > 1 else np.zeros_like(within)
        total = within + (1 + 1 / len(done)) * between
        several = len(tables) > 1 or isinstance(estimate, list)
        variances = []
        for v in (total, within, between):
            cells = [self._to_cells(part) for part in self._by_graph(v * self.scale_**2, usable)]
            variances.append(cells if several else cells[0])
        return Pooled(estimate, *variances)

    def sample(self, X: Any, *, graph: Any = None, n: int | None = None, random_state: Any = None) -> list[Any]:
        """The imputations themselves: completed tables whose spread is that of what is not known.

        Parameters
        ----------
        X, graph : as in :meth:`transform`
        n : int or None
            How many; None for as many as :meth:`transform` pools, which are the first ones in any case.
        random_state : int, RandomState or None
            None takes the seed of ``fit``: the same draws in every call.

        Returns
        -------
        list of n tables (or lists of graphs), each what X was
        """
        check_is_fitted(self)
        n = self._pooled(self.n_imputations) if n is None else n
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n}")
        graphs, tables = self._read(X, graph, reset=False)
        usable = self._usable(graphs)
        seed = self.seed_ if random_state is None else seed_from(random_state)
        draws = [i.draw * self.scale_ + self.mean_ for i in self._imputations([g.x.numpy() for g in usable], n, seed)]
        return [self._restore(X, tables, self._complete(graphs, self._by_graph(d, usable))) for d in draws]

    def _by_graph(self, rows: np.ndarray, graphs: list[Data]) -> list[np.ndarray]:
        return np.split(rows, np.cumsum([len(g.x) for g in graphs])[:-1])

    def _to_cells(self, usable: np.ndarray) -> np.ndarray:
        """Encoded columns with data (N, E) -> cells of the table (N, D), NaN where there is no number to give."""
        whole = np.full((len(usable), len(self.usable_)), np.nan)
        whole[:, self.usable_] = usable
        cells = whole[:, [c.start for c in self.columns_]]
        cells[:, [c.kind == "categorical" for c in self.columns_]] = np.nan
        return cells

"""Random forests, one per column, in rounds until the fills stop settling."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from torch_geometric.data import Data

from megae.columns import usable_columns
from megae.imputers.base import GraphImputer
from megae.imputers.build import seed_from
from megae.imputers.mean import column_means
from megae.models.column_forests import FORESTS, ColumnForests, grew
from megae.models.compact_forest import CompactForest
from megae.training.progress import make_progress
from megae.training.schedule import Clock

Forests = dict[int, CompactForest | None]
"""Position of a column -> its fitted forest."""


class MissForestImputer(GraphImputer):
    r"""MissForest (Stekhoven & Bühlmann, Bioinformatics 28(1), 2012).

    Holes start at the column mean, or the most frequent category. In each round every column with holes, those with
    the fewest first, is predicted from the current state of all others by a random forest that is fitted on the rows
    that show it. Rounds go on until the difference to the previous round grows for the first time, for continuous
    columns N and for categorical columns F (for both, where there are both); the round before that is the result.

    .. math::
        \Delta_N = \frac{\sum_{j \in N} \sum_i (x^{new}_{ij} - x^{old}_{ij})^2}{\sum_{j \in N} \sum_i (x^{new}_{ij})^2},
        \qquad
        \Delta_F = \frac{\sum_{j \in F} \sum_i \mathbb 1[x^{new}_{ij} \ne x^{old}_{ij}]}{\#\text{holes in } F}

    The graph is not used. The forests of every round are kept, and ``transform`` goes through them round by round, so
    the table of ``fit`` gets the paper's result and new rows are treated like its rows. Columns complete in training
    get one forest each, fitted at the end. Where the training rows have no hole at all, there is nothing to iterate in
    ``fit``: new rows go round with the same forests until the rule above stops them, each graph for itself.

    Deviations
    ----------
    - Filling rows that were not there in ``fit``, as above; the paper fills the one table it was given.
    - A binary column of numbers counts as continuous and is filled with a share between 0 and 1.
    - A categorical column is one-hot encoded where it is a predictor, and classified by the mean of the trees'
      probabilities instead of their votes (scikit-learn's forests).
    - The square root is that of the other columns, as encoded, since these are what scikit-learn's forest sees; the R
      package takes floor(sqrt(p)) of all p columns of the table.
    - The R package can draw rows by strata and take class weights and cutoffs for categories; there is none of it here.
    - Where several categories are most frequent, holes start at the first; the R package draws one of them.
    - After ``max_iter`` rounds the last one is the result, or the one before where the difference has grown in it; the
      R package returns the last one even then. The paper knows no such end.
    - Trees grow until leaves are pure; the authors' R package leaves 5 rows in a leaf of a regression tree.
    - The out-of-bag estimate of the error is not computed: held-out cells judge all methods alike here.

    Parameters
    ----------
    n_estimators : int
        Trees per forest; 100 as in the paper.
    max_iter : int
        Most rounds; 10 as in the paper's package.
    max_features : "sqrt", int, float or None
        Columns tried at each split; "sqrt" is the square root of the number of other columns, as encoded.
    forest : "random" or "extra-trees"
        Extremely randomised trees (Geurts et al. 2006) fit faster.
    min_samples_leaf : int
    max_samples : int, float or None
        Rows (or their share) drawn for each tree; None draws as many as there are. Bounds time and memory.
    n_jobs : int or None
        Trees fitted at a time.
    time_budget : float or None
        Seconds that ``fit`` may take, looked at between columns. When they are over the finished rounds count; a column
        without a forest keeps its starting value.
    random_state : int, RandomState or None
    verbose : int
    column_types, clip, fallback, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    rounds_ : list of dicts, position of a column -> forest
        Forests of the columns with holes in training, one dict per round.
    forests_ : dict, position of a column -> forest
        Of the columns that were complete in training.
    differences_ : list of (float, float)
        The two differences of each round of ``fit``, the one that stopped it included; NaN where there is nothing of
        that kind to fill.
    n_iter_ : int
        Rounds of ``fit`` that count.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.arange(40.0)
    >>> X = np.stack([a, a % 7, a**2], axis=1)
    >>> X[20, 2] = np.nan
    >>> filled = MissForestImputer(random_state=0).fit_transform(X)
    >>> bool(300 < filled[20, 2] < 500)
    True
    """

    _uses_graph = False

    rounds_: list[Forests]
    forests_: Forests
    differences_: list[tuple[float, float]]
    n_iter_: int

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_iter: int = 10,
        max_features: Any = "sqrt",
        forest: str = "random",
        min_samples_leaf: int = 1,
        max_samples: float | None = None,
        n_jobs: int | None = None,
        time_budget: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        column_types: Any = "auto",
        clip: bool = False,
        fallback: float = 0.0,
        unknown_nodes: str = "error",
    ) -> None:
        super().__init__(column_types=column_types, clip=clip, fallback=fallback, unknown_nodes=unknown_nodes)
        self.n_estimators = n_estimators
        self.max_iter = max_iter
        self.max_features = max_features
        self.forest = forest
        self.min_samples_leaf = min_samples_leaf
        self.max_samples = max_samples
        self.n_jobs = n_jobs
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        for name in ("n_estimators", "max_iter", "min_samples_leaf"):
            if not isinstance(getattr(self, name), (int, np.integer)) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be an integer and at least 1, got {getattr(self, name)!r}")
        if self.forest not in FORESTS:
            raise ValueError(f"forest must be 'random' or 'extra-trees', got {self.forest!r}")
        rows = np.concatenate([g.x.numpy() for g in graphs])
        mean, spread = column_means(graphs), np.nanstd(rows, axis=0)
        settings = {
            "n_estimators": self.n_estimators,
            "max_features": self.max_features,
            "min_samples_leaf": self.min_samples_leaf,
            "max_samples": self.max_samples,
            "bootstrap": self.forest == "random" or self.max_samples is not None,
            "n_jobs": self.n_jobs,
        }
        scale = np.where(spread > 1e-9 * np.abs(mean), spread, 1.0)
        columns = usable_columns(self.columns_, self.usable_)
        self._model = ColumnForests(columns, mean, scale, self.forest, settings)
        self._learn(rows)

    def _learn(self, rows: np.ndarray) -> None:
        model, holes = self._model, np.isnan(rows)
        lost = np.array([holes[:, c.start] for c in model.columns])
        self._order = [int(j) for j in np.argsort(lost.mean(axis=1), kind="stable")]
        lacking = [j for j in self._order if lost[j].any()]
        seeds = np.random.default_rng(seed_from(self.random_state))
        total = self.max_iter * len(lacking) + len(self._order) - len(lacking)
        clock = Clock(total, self.time_budget)
        filled, before, late, grown = model.start(rows), np.full((1, 2), np.inf), False, 0
        self.rounds_, self.differences_, self.forests_ = [], [], {}

        def grow(table: np.ndarray, j: int) -> CompactForest | None:
            nonlocal grown
            forest = model.grow(table, ~lost[j], j, int(seeds.integers(2**31)))
            grown += 1
            progress.report({"step": grown, "loss": np.nanmin(before), "val_rmse": np.nan}, clock.remaining(grown))
            return forest

        with make_progress(self.verbose, "missforest", total) as progress:
            while lacking and len(self.rounds_) < self.max_iter and not late:
                new, forests = filled.copy(), Forests()
                for j in lacking:
                    if late := grown > 0 and self._late(clock):
                        break
                    forests[j] = grow(new, j)
                    model.predict(forests[j], new, lost[j], j)
                if late and self.rounds_:
                    break
                now = model.differences(new, filled, holes, np.zeros(len(rows), dtype=np.int64), 1)
                self.differences_.append((float(now[0, 0]), float(now[0, 1])))
                if self.rounds_ and grew(now, before)[0]:
                    break
                filled, before = new, now
                self.rounds_.append(forests)
            for j in (j for j in self._order if j not in lacking):
                if late := late or (grown > 0 and self._late(clock)):
                    break
                self.forests_[j] = grow(filled, j)
        self.n_iter_ = max(1, len(self.rounds_))
        if late:
            warnings.warn(
                f"missforest ran out of its {self.time_budget:g} s after {grown} forests; what there is, is used. "
                "Give a larger time_budget, fewer n_estimators, a smaller max_samples or forest='extra-trees'",
                stacklevel=5,
            )

    def _late(self, clock: Clock) -> bool:
        return self.time_budget is not None and clock.elapsed() >= self.time_budget

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        model, sizes = self._model, [len(g.x) for g in graphs]
        rows = np.concatenate([g.x.numpy() for g in graphs])
        owner = np.repeat(np.arange(len(graphs)), sizes)
        holes = np.isnan(rows)
        filled = model.start(rows)
        active = np.ones(len(graphs), dtype=bool)
        before = np.full((len(graphs), 2), np.inf)
        for k in range(len(self.rounds_) or self.max_iter):
            old, going = filled.copy(), active[owner]
            forests = self.forests_ | (self.rounds_[k] if self.rounds_ else {})
            for j in self._order:
                model.predict(forests.get(j), filled, holes[:, model.columns[j].start] & going, j)
            if self.rounds_:
                continue
            now = model.differences(filled, old, holes, owner, len(graphs))
            back = active & grew(now, before)
            filled[back[owner]] = old[back[owner]]
            active &= ~back
            before = now
            if not active.any():
                break
        return np.split(filled, np.cumsum(sizes)[:-1])

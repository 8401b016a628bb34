"""Observed attributes spread along edges, the near ones more than the far ones, then across columns."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from megae.columns import usable_columns
from megae.graphs import collate, to_adjacency
from megae.imputers.base import GraphImputer
from megae.imputers.build import column_of, seed_from, standardisation
from megae.imputers.mean import column_means
from megae.training.hiding import rates_like_holes
from megae.training.holdout import divide, rebuilt_knn
from megae.training.progress import make_progress
from megae.training.schedule import Clock

ALPHAS = tuple(k / 10 for k in range(1, 10))
BETAS = tuple(10.0 ** (-k / 2) for k in range(12, -1, -1))
CHUNK_CELLS = 1 << 18
"""Cells of one chunk of channels: few enough for its buffers to stay in cache, whatever the table's width."""


class PCFIImputer(GraphImputer):
    r"""Fill holes by pseudo-confidence (Um, Park, Park & Choi, ICLR 2023, arXiv:2305.16618).

    With :math:`S_{id}` the number of edges from node i to the nearest node that shows channel d, the confidence in cell
    (i, d) is :math:`\xi_{id} = \alpha^{S_{id}}`, 1 where it is observed. First each channel diffuses between nodes,

    .. math::
        x^{(t+1)}_{id} = \sum_j W^{(d)}_{ij} x^{(t)}_{jd} \ \text{in holes}, \qquad
        W^{(d)}_{ij} = \frac{A_{ij}\, \xi_{jd} / \xi_{id}}{\sum_k A_{ik}\, \xi_{kd} / \xi_{id}},

    from zero in holes, observed cells fixed, K times. Then each node passes on between its channels,

    .. math::
        \tilde x_{ia} = \hat x_{ia} + \beta\, (1 - \xi_{ia}) \sum_{b \neq a} \xi_{ib}\, R_{ab}\, (\hat x_{ib} - m_b),

    where R are the channels' correlations and m their means over the diffused features. Since :math:`\xi_{id}` cancels
    in W, a step is :math:`A(\xi \odot x) \oslash A \xi` for all channels at once.

    On many graphs each graph diffuses by itself; R and m come from the training graphs (diffused where they have
    holes), so a new graph is filled with the correlations of ``fit``. On one table they are the table's own, as in the
    paper.

    Deviations
    ----------
    - The paper's channels are words, all in one unit. Here :math:`R_{ab}` is multiplied by the ratio of the channels'
      standard deviations, so that units do not matter; ``standardize=False`` is the plain equation.
    - ``alpha`` and ``beta`` are chosen on held-out observed cells; the authors' program has 0.9 and 1 by default, which
      stand in where too few cells are observed to choose.
    - A hole that no observed cell of its channel reaches in K steps has no confidence: it gets the training mean, and
      the second stage leaves it there. Distances are counted to K, and farther cells weigh nothing.
    - Edge weights count in A. On many graphs R and m come from the training graphs, as above; the paper has one graph.

    Parameters
    ----------
    alpha : float in (0, 1), or None
        Confidence kept per edge. None chooses among 0.1, 0.2, ..., 0.9, which takes nine times as long.
    beta : float, not negative, or None
        Strength of the second stage. None chooses among 0 and half powers of ten from 1e-6 to 1.
    num_iterations : int
        K.
    standardize : bool
    validation_fraction : float
        Share of graphs (many) or observed cells (few) to choose on, where no validation graphs are given.
    time_budget : float or None
        Seconds that the choice may take, looked at between values of ``alpha``, from 0.9 down. When they are over, the
        best so far is taken, with a warning.
    random_state : int, RandomState, Generator or None
        Draws those cells.
    verbose : int
    column_types, clip, fallback, n_neighbors, unknown_nodes
        See :class:`megae.imputers.base.GraphImputer`.

    Attributes
    ----------
    mean_ : ndarray of shape (E,)
        Training means of the encoded columns that have an observed cell.
    alpha_, beta_ : float
        What is used.
    held_out_ : dict
        (alpha, beta) -> RMSE on held-out cells, in ranges of the columns; empty where nothing was chosen.
    center_ : ndarray of shape (E,)
        m.
    slopes_ : ndarray of shape (E, E)
        R, times the ratio of deviations, zero on the diagonal; row b, column a.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([[0, 1, 2], [1, 2, 3]])
    >>> X = np.array([[0.0], [np.nan], [np.nan], [3.0]])
    >>> PCFIImputer(alpha=0.5, beta=0.0).fit_transform(X, graph=path).ravel()
    array([0.  , 0.75, 2.25, 3.  ])
    """

    kind: ClassVar[str] = "graph"

    mean_: np.ndarray
    alpha_: float
    beta_: float
    held_out_: dict[tuple[float, float], float]
    center_: np.ndarray
    slopes_: np.ndarray

    def __init__(
        self,
        *,
        alpha: float | None = None,
        beta: float | None = None,
        num_iterations: int = 100,
        standardize: bool = True,
        validation_fraction: float = 0.1,
        time_budget: float | None = None,
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
        self.alpha = alpha
        self.beta = beta
        self.num_iterations = num_iterations
        self.standardize = standardize
        self.validation_fraction = validation_fraction
        self.time_budget = time_budget
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, graphs: list[Data], validation: list[Data]) -> None:
        if self.alpha is not None and not 0 < self.alpha < 1:
            raise ValueError(f"alpha must lie strictly between 0 and 1, or be None to choose it, got {self.alpha!r}")
        if self.beta is not None and not 0 <= self.beta < np.inf:
            raise ValueError(f"beta must be a number not below 0, or None to choose it, got {self.beta!r}")
        if self.num_iterations < 1:
            raise ValueError(f"num_iterations must be at least 1, got {self.num_iterations}")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie in [0, 1), got {self.validation_fraction!r}")
        self.alpha_ = 0.9 if self.alpha is None else float(self.alpha)
        self.beta_ = 1.0 if self.beta is None else float(self.beta)
        self.held_out_ = {}
        if self.alpha is None or self.beta is None:
            self._choose(graphs, validation)
        self.mean_ = column_means(graphs)
        self.center_, self.slopes_ = relations(self._diffused(graphs, self.alpha_, self.mean_)[0], self.standardize)

    def _fill(self, graphs: list[Data]) -> list[np.ndarray]:
        parts = np.cumsum([len(g.x) for g in graphs])[:-1]
        cells = zip(*(np.split(part, parts) for part in self._diffused(graphs, self.alpha_, self.mean_)), strict=True)
        return [x + self.beta_ * across_channels(x, xi, self.center_, self.slopes_) for x, xi in cells]

    def _choose(self, graphs: list[Data], validation: list[Data]) -> None:
        """Set ``alpha_``, ``beta_`` by the RMSE on held-out cells, from the rest alone."""
        columns = usable_columns(self.columns_, self.usable_)
        cells = [g.x.numpy()[:, [c.start for c in columns]] for g in [*graphs, *validation]]
        seed, column = seed_from(self.random_state), column_of(columns)
        fractions = (self.validation_fraction, 0.0)
        division = divide(graphs, validation, rates_like_holes(cells, "auto"), column, fractions, seed)
        if self._built_knn:
            division = rebuilt_knn(division, self.n_neighbors)
        held = division.validation
        if held is None:
            return
        train, asked = _seen(division.train, division.trainable), _seen(held.graphs, held.visible)
        same = not division.by_graph and not validation
        mean = column_means(train)
        span = standardisation(division.train, division.trainable, "range", "range")[2]
        hidden = held.hidden.numpy()
        truth = torch.cat([g.x for g in held.graphs]).numpy()
        alphas = ALPHAS[::-1] if self.alpha is None else (self.alpha_,)
        betas = (0.0, *BETAS) if self.beta is None else (self.beta_,)
        clock = Clock(len(alphas), self.time_budget)
        with make_progress(self.verbose, "pcfi", len(alphas)) as progress:
            for k, alpha in enumerate(alphas):
                if k and self.time_budget is not None and clock.elapsed() >= self.time_budget:
                    warnings.warn(
                        f"pcfi ran out of its {self.time_budget:g} s after {k} of {len(alphas)} values of alpha; the "
                        "best of those is used. Give a larger time_budget, or alpha",
                        stacklevel=4,
                    )
                    break
                diffused, confidence = self._diffused(asked, alpha, mean)
                learnt = diffused if same else self._diffused(train, alpha, mean)[0]
                correction = across_channels(diffused, confidence, *relations(learnt, self.standardize))
                left, step = (((truth - diffused) / span)[hidden], (correction / span)[hidden])
                errors = {(alpha, b): float(np.sqrt(np.mean((left - b * step) ** 2))) for b in betas}
                self.held_out_ |= errors
                here, best = min(errors.values()), min(self.held_out_.values())
                progress.report({"step": k + 1, "loss": here, "val_rmse": best}, clock.remaining(k + 1))
        self.alpha_, self.beta_ = min(self.held_out_, key=lambda pair: (self.held_out_[pair], pair))

    def _diffused(self, graphs: list[Data], alpha: float, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        batch = collate(graphs)
        return diffuse(batch.x.numpy(), to_adjacency(batch), alpha, self.num_iterations, mean)


def distances(observed: np.ndarray, A: sp.csr_array, most: int) -> np.ndarray:
    """Edges from each node to the nearest that shows the channel, for all channels at once.

    Parameters
    ----------
    observed : bool ndarray of shape (N, E)
    A : csr_array of shape (N, N), symmetric
    most : int
        Count no farther than this.

    Returns
    -------
    int32 ndarray of shape (N, E)
        -1 where no such node is within ``most`` edges.
    """
    links = sp.csr_array((np.ones(A.nnz, dtype=np.float32), A.indices, A.indptr), shape=A.shape)
    near = np.where(observed, 0, -1).astype(np.int32)
    front = observed
    for hop in range(1, most + 1):
        front = (links @ front.astype(np.float32) > 0) & (near < 0)
        if not front.any():
            break
        near[front] = hop
    return near


def diffuse(
    x: np.ndarray, A: sp.csr_array, alpha: float, num_iterations: int, mean: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Channel-wise diffusion between nodes, weighted by confidence; a few channels at a time.

    Channels observed at the same nodes share their distances. What holes get from observed cells is the same in every
    step, so that a step is a product over the edges between holes alone.

    Parameters
    ----------
    x : ndarray of shape (N, E), NaN in holes
    A : csr_array of shape (N, N), symmetric weights
    alpha : float
    num_iterations : int
    mean : ndarray of shape (E,)
        For holes that nothing reaches.

    Returns
    -------
    diffused, confidence : ndarrays of shape (N, E)
        The confidence is 0 where nothing reaches a hole.
    """
    observed = ~np.isnan(x)
    out, confidence = x.copy(), np.ones_like(x)
    incomplete = np.flatnonzero(~observed.all(axis=0))
    if not incomplete.size:
        return out, confidence
    packed = np.packbits(observed[:, incomplete], axis=0)
    order = incomplete[np.lexsort(packed)]
    width = max(1, CHUNK_CELLS // max(1, len(x)))
    powers = np.append(alpha ** np.arange(num_iterations + 1.0), 0.0)
    for start in range(0, len(order), width):
        channels = order[start : start + width]
        shown = observed[:, channels]
        masks, which = np.unique(shown, axis=1, return_inverse=True)
        near = distances(masks, A, num_iterations)[:, which.ravel()]
        xi = powers[near]
        weight = A @ xi
        gain = np.divide(xi, weight, out=np.zeros_like(xi), where=~shown & (weight > 0))
        known = np.where(shown, x[:, channels], 0.0)
        spread = known.copy()
        spread[~shown] = _settle(~shown, gain, (gain * (A @ known))[~shown], A, num_iterations)
        reached = xi > 0
        diffused = np.divide(spread, xi, out=np.broadcast_to(mean[channels], xi.shape).copy(), where=reached)
        out[:, channels] = np.where(shown, known, diffused)
        confidence[:, channels] = xi
    return out, confidence


def _settle(hole: np.ndarray, gain: np.ndarray, given: np.ndarray, A: sp.csr_array, num_iterations: int) -> np.ndarray:
    """Iterate z <- gain (A z) + given over the H holes of a few channels, from zero.

    Parameters
    ----------
    hole : bool ndarray of shape (N, C)
    gain : ndarray of shape (N, C)
    given : ndarray of shape (H,), in the order of ``hole``

    Returns
    -------
    ndarray of shape (H,)
    """
    position = (np.cumsum(hole) - 1).reshape(hole.shape)
    row, col = A.tocoo().coords
    edge, channel = np.nonzero(hole[row] & hole[col])
    ends = (position[row[edge], channel], position[col[edge], channel])
    step = sp.csr_array((A.data[edge] * gain[row[edge], channel], ends), shape=(len(given), len(given)))
    z = np.zeros_like(given)
    for _ in range(num_iterations):
        z = step @ z + given
    return z


def relations(x: np.ndarray, standardize: bool) -> tuple[np.ndarray, np.ndarray]:
    """Means of the channels of x (N, E), and what a channel (row) tells about another (column), (E, E)."""
    center = x.mean(axis=0)
    deviation = np.sqrt(np.mean((x - center) ** 2, axis=0))
    flat = deviation <= 1e-9 * np.abs(center)
    scaled = (x - center) / np.where(flat, 1.0, deviation)
    scaled[:, flat] = 0.0
    slopes = scaled.T @ scaled / len(x)
    np.fill_diagonal(slopes, 0.0)
    if standardize:
        slopes *= deviation[None, :] / np.where(flat, 1.0, deviation)[:, None]
    return center, slopes


def across_channels(x: np.ndarray, confidence: np.ndarray, center: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """What the second stage adds at ``beta=1``, (N, E); nothing where the confidence is 1 or 0."""
    heard = (confidence * (x - center)) @ slopes
    return np.where(confidence > 0, (1.0 - confidence) * heard, 0.0)


def _seen(graphs: list[Data], visible: torch.Tensor) -> list[Data]:
    """The graphs with NaN in all cells that are not visible, (N, E) over the nodes of all."""
    parts = visible.split([len(g.x) for g in graphs])
    return [
        Data(x=g.x.masked_fill(~v, torch.nan), edge_index=g.edge_index, edge_weight=g.edge_weight)
        for g, v in zip(graphs, parts, strict=True)
    ]

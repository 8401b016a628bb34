"""What is learned: inputs out of visible cells, values for hidden ones, and a loss between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from megae.columns import Column
from megae.models import OutputHead, latent_entropy
from megae.training.pool import GraphBatch, GraphPool

Inputs = Callable[[GraphBatch, Tensor], Tensor]
"""(batch, visible (N, E)) -> network inputs (N, F)."""


@dataclass(frozen=True)
class Exam:
    """Observed cells set aside to judge by: what may be seen, and what must be told.

    Parameters
    ----------
    pool : GraphPool
    visible, hidden : bool Tensor of shape (N, E)
        Disjoint subsets of what the pool observes.
    copies : int
        How often the same graphs stand in the pool, one after the other.
    first : bool ndarray of shape (E,), or None
        See :func:`first_entries`.

    A categorical cell of the table is one cell, though each of its one-hot entries is hidden: its squared error is half
    the sum of theirs, so that a category that was sure and wrong counts 1.
    """

    pool: GraphPool
    visible: Tensor
    hidden: Tensor
    copies: int = 1
    first: np.ndarray | None = None

    def columns(self) -> np.ndarray:
        """Encoded column of each hidden entry, in row-major order."""
        return self.hidden.nonzero()[:, 1].cpu().numpy()

    def cells(self) -> Tensor:
        """The first entry of each hidden cell of the table, bool (N, E)."""
        if self.first is None:
            return self.hidden
        return self.hidden & torch.from_numpy(self.first).to(self.hidden.device)

    def share(self) -> np.ndarray | None:
        """What a squared error in each encoded column counts, (E,): 1, or half for one-hot entries; None for all 1."""
        return None if self.first is None else entry_share(self.first)

    def squares(self, errors: np.ndarray) -> np.ndarray:
        """Squared error of each hidden cell of the table, from the errors of the hidden entries in row-major order."""
        if self.first is None:
            return errors**2
        columns = self.columns()
        return np.add.reduceat(errors**2 * entry_share(self.first)[columns], np.flatnonzero(self.first[columns]))

    def rms(self, errors: np.ndarray) -> float:
        """Root mean square over the hidden cells, from the errors of the hidden entries in row-major order."""
        return float(np.sqrt(self.squares(errors).mean())) if errors.size else float("nan")


def first_entries(columns: Sequence[Column]) -> np.ndarray | None:
    """Which encoded columns begin a column of the table, bool (E,); None where all do."""
    first = np.zeros(columns[-1].stop, dtype=bool)
    first[[c.start for c in columns]] = True
    return None if first.all() else first


def entry_share(first: np.ndarray) -> np.ndarray:
    """What a squared error in each encoded column counts, given which begin a column of the table.

    Examples
    --------
    >>> entry_share(np.array([True, True, False, False]))
    array([1. , 0.5, 0.5, 0.5])
    """
    width = np.bincount(np.cumsum(first) - 1)
    return np.repeat(np.where(width > 1, 0.5, 1.0), width)


class ImputationNetwork(nn.Module):
    """A body on prepared inputs, with a head that knows what each column may hold.

    Parameters
    ----------
    body : module (N, F), FilterOperator -> (N, E), list of latent codes
    head : OutputHead
    inputs : callable, see ``Inputs``
    """

    carried: Tensor | None

    def __init__(self, body: nn.Module, head: OutputHead, inputs: Inputs) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self._inputs = inputs
        self.register_buffer("carried", None)

    def forward(self, batch: GraphBatch, visible: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Standardised values (N, E) and the latent codes."""
        inputs = self._inputs(batch, visible)
        raw, codes = self.body(inputs, batch.operator)
        if self.carried is not None:
            raw = self.head.unlink(inputs[:, : len(self.carried)] * self.carried)
        return self.head(raw), codes

    def carry(self, shares: Tensor | None) -> None:
        """From now on fill with these shares, (E,), of the first E inputs instead of what the body says; None ends it.

        See :func:`megae.training.carrying.carried_shares`. Latent codes stay those of the body.
        """
        self.carried = shares

    def objective(self, batch: GraphBatch, allowed: Tensor, hidden: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
        """L_R - gamma L_S on the ``hidden`` among the ``allowed`` cells, and L_S alone.

        Where a batch is shared among processes both are those of the whole batch; the gradient is that of this
        process's part, see :class:`megae.training.distributed.Processes`.
        """
        values, codes = self(batch, allowed & ~hidden)
        loss = self.head.loss(values, batch.values, hidden, batch.total)
        within, across = batch.total_within, batch.total_across
        entropy = torch.stack([latent_entropy(Z, batch.graph, batch.n_graphs, within, across) for Z in codes]).mean()
        return (loss - gamma * entropy if gamma else loss), entropy.detach()

    def predict(self, pool: GraphPool, visible: Tensor, max_nodes: int = 32_768) -> Tensor:
        """Standardised values (N, E) for all nodes of a pool, a few graphs at a time."""
        return pool.gather([(batch, values) for batch, values, _ in self.at_rest(pool, visible, max_nodes)])

    def latent(self, pool: GraphPool, visible: Tensor, max_nodes: int = 32_768) -> Tensor:
        """Latent codes Z^(2) of all wavelet blocks side by side, (N, blocks * M * b), for all nodes of a pool."""
        parts = self.at_rest(pool, visible, max_nodes)
        return pool.gather([(batch, torch.cat([Z.flatten(1) for Z in codes], dim=1)) for batch, _, codes in parts])

    def at_rest(
        self, pool: GraphPool, visible: Tensor, max_nodes: int = 32_768
    ) -> Iterator[tuple[GraphBatch, Tensor, list[Tensor]]]:
        """Values and latent codes of this process's share of a pool, a few graphs at a time, out of training."""
        was_training = self.training
        self.eval()
        with torch.no_grad():
            for batch in pool.shares(max_nodes):
                yield batch, *self(batch, batch.of_pool(visible))
        self.train(was_training)


def exam_errors(values: Tensor, exam: Exam, weight: np.ndarray) -> np.ndarray:
    """Errors (value - truth) * weight in the hidden entries of an exam, float64, in row-major order."""
    difference = (values - exam.pool.whole.values)[exam.hidden].double().cpu().numpy()
    return difference * weight[exam.columns()]


def exam_scores(network: ImputationNetwork, exam: Exam, weight: np.ndarray) -> np.ndarray:
    """RMSE of each graph over the hidden cells of all its copies, for the graphs that hide any; float64.

    Processes that share the exam sum their squares before the root, so that all of them get the same scores.
    """
    whole = exam.pool.whole
    share = exam.share()
    if share is not None:
        weight = weight * np.sqrt(share)
    scale = torch.as_tensor(weight, dtype=whole.values.dtype, device=whole.values.device)
    n = whole.n_graphs // exam.copies
    original = whole.graph % n
    total = torch.zeros(n, dtype=torch.float64, device=whole.values.device)
    for batch, values, _ in network.at_rest(exam.pool, exam.visible):
        squares = ((values - batch.values) * scale * batch.of_pool(exam.hidden)).double().square().sum(dim=1)
        total.index_add_(0, batch.of_pool(original), squares)
    total = exam.pool.processes.total(total)
    count = torch.zeros_like(total).index_add_(0, original, exam.cells().sum(dim=1).double())
    asked = count > 0
    return (total[asked] / count[asked]).sqrt().cpu().numpy()


def exam_rmse(network: ImputationNetwork, exam: Exam, weight: np.ndarray) -> float:
    """Mean over graphs of :func:`exam_scores`; NaN where nothing is hidden.

    On one graph this is the pooled RMSE. On many it is the paper's figure, and a few graphs far off do not drown the
    rest.
    """
    scores = exam_scores(network, exam, weight)
    return float(scores.mean()) if scores.size else float("nan")


def rms(errors: np.ndarray) -> float:
    """Root of the mean square; NaN for no errors at all."""
    return float(np.sqrt(np.mean(errors**2))) if errors.size else float("nan")

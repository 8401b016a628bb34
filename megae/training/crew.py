"""One training step on CPU whose graphs are shared out among the threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

import numpy as np
import torch
from torch import Tensor, nn

from megae.kernels.threads import side_by_side, with_threads
from megae.models.pieces import WHOLE
from megae.training.distributed import Processes
from megae.training.pool import GraphPool

UNEVEN = 1.25
"""Times a fair share of the nodes from which the thread that has them keeps the others waiting too long."""


class Meeting:
    """Threads that wait for each other and add up what they bring.

    Parameters
    ----------
    size : int
        How many threads take part.
    """

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)
        self._brought: tuple[list[Tensor | None], ...] = ([None] * size, [None] * size)
        self._rounds = [0] * size

    def total(self, rank: int, x: Tensor) -> Tensor:
        """Sum over the threads, the same bits in all of them. None returns before all have brought theirs."""
        table = self._brought[self._rounds[rank] % 2]  # the other one may still be read by slower threads
        self._rounds[rank] += 1
        table[rank] = x.detach()
        self._barrier.wait()
        return torch.stack([part for part in table if part is not None]).sum(dim=0)

    def call_off(self) -> None:
        """Let nobody wait for a thread that will not come."""
        self._barrier.abort()


@dataclass(frozen=True)
class Hand(Processes):
    """One of the threads, in the place of a process among several."""

    meeting: Meeting = field(kw_only=True)

    def _sum(self, x: Tensor) -> Tensor:
        return self.meeting.total(self.rank, x)


def may_share(network: nn.Module, pool: GraphPool) -> bool:
    """Whether threads may share steps at all: on a CPU, in one process, without draws inside the network."""
    draws = any(getattr(module, "p", 0) for module in network.modules() if "Dropout" in type(module).__name__)
    return pool.device.type == "cpu" and pool.processes.size == 1 and not draws


def sharing_pays(pool: GraphPool, chosen: np.ndarray, size: int) -> bool:
    """Whether ``size`` threads get about as many nodes each, and not more than are computed in one piece."""
    if size < 2 or len(chosen) < 2 * size or torch.is_autocast_enabled("cpu"):
        return False
    sizes = pool.sizes[chosen]
    most = max(int(sizes[mine].sum()) for mine in Processes(0, size).deal(sizes))
    return most * size <= UNEVEN * int(sizes.sum()) and most <= WHOLE


def shared_backward(
    objective: nn.Module,
    weights: Sequence[Tensor],
    pool: GraphPool,
    chosen: np.ndarray,
    allowed: Tensor,
    hidden: Tensor,
    gamma: float,
    size: int,
) -> tuple[Tensor, Tensor]:
    """Loss and entropy of the chosen graphs; leaves their gradients in the weights.

    Threads inside each operation meet hundreds of times in a step and have little to do in most of them. Here each
    takes its own graphs through all layers, forth and back, and they meet where sums over all graphs are due, as
    processes that train together do (:class:`megae.training.distributed.Processes`). Gradients are added up in the
    order of the threads: the same seed and number of threads give the same bits, another number the same up to
    rounding.

    Parameters
    ----------
    objective : module (batch, allowed, hidden, gamma) -> loss and entropy
    weights : Tensors that get a gradient
    chosen : ndarray of graphs
    allowed, hidden : bool Tensor of shape (N, E), over the nodes of the chosen graphs side by side
    size : int
        Number of threads, the calling one included.
    """
    meeting = Meeting(size)
    failed: list[BaseException] = []

    def work(rank: int) -> tuple[Tensor, Tensor, tuple[Tensor | None, ...]]:
        try:
            batch = pool.part(chosen, Hand(rank, size, meeting=meeting))
            rows = torch.from_numpy(batch.rows)
            loss, entropy = objective(batch, allowed[rows], hidden[rows], gamma)
            return loss.detach(), entropy, torch.autograd.grad(loss, weights, allow_unused=True)
        except BaseException as error:
            failed.append(error)
            meeting.call_off()
            raise

    try:
        found = side_by_side([partial(work, rank) for rank in range(size)], meeting.call_off)
    except threading.BrokenBarrierError:
        raise failed[0] from None  # the others only found that it had not come
    with with_threads(1):
        for weight, *parts in zip(weights, *(gradients for *_, gradients in found), strict=True):
            weight.grad = None if parts[0] is None else reduce(torch.Tensor.add_, parts)
    return found[0][:2]

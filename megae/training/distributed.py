"""Several processes training one network: who there is, whose share is what, and sums over all of them."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

if dist.is_available():
    import torch.distributed.nn.functional as collectives


def _let_go_of_group(functions: Iterable[Any]) -> None:
    """Take the group out of defaults: they keep the one that is there when torch makes these functions.

    A group that is kept outlives ``destroy_process_group``, and its threads may abort a process that ends. None stands
    for whichever group is there at a call.
    """
    for function in filter(inspect.isfunction, functions):
        given = function.__defaults__ or ()
        if any(isinstance(x, dist.ProcessGroup) for x in given):
            function.__defaults__ = tuple(None if isinstance(x, dist.ProcessGroup) else x for x in given)


if dist.is_available():
    _let_go_of_group(vars(collectives).values())

_LOST = ("Connection closed by peer", "Connection reset by peer", "gloo/transport", "NCCL")
"""What the backends say where a process does not answer."""

_apart: ContextVar[bool] = ContextVar("megae_apart", default=False)


class _Total(torch.autograd.Function):
    """A sum over processes whose gradient goes to the local summand alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sum_up: Callable[[Tensor], Tensor]) -> Tensor:
        return sum_up(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        return grad, None


@dataclass(frozen=True)
class Processes:
    r"""The processes that share one computation; alone, every method is the identity.

    Each process computes its own rows and, through :meth:`total`, the same global sums. For a loss
    :math:`\mathcal{L} = F(\sum_r s_r(\theta))` process r differentiates :math:`F'(\sum_r s_r) \, \partial s_r`, so the
    gradient of the whole is the sum, over processes, of what each of them finds.

    Parameters
    ----------
    rank : int
        Which of them this is.
    size : int
        How many there are.

    Examples
    --------
    >>> ALONE.total(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    >>> [share.tolist() for share in Processes(0, 2).deal(np.array([5, 1, 3, 4]))]
    [[0, 1], [2, 3]]
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files, warns and shows progress."""
        return self.rank == 0

    def total(self, x: Tensor) -> Tensor:
        """Sum over processes, the same bits on all; differentiable in the local summand ``x``, of any shape."""
        return x if self.size == 1 else _Total.apply(x, self._sum)

    def _sum(self, x: Tensor) -> Tensor:
        return _reduced(x, dist.ReduceOp.SUM)

    def of_first(self, x: Tensor) -> Tensor:
        """The first process's tensor, on all; shapes and types must agree."""
        if self.size == 1:
            return x
        sent = _portable(x).clone()
        with reaching_others():
            dist.broadcast(sent, 0)
        return sent.to(x.device)

    def number_of_first(self, x: float) -> float:
        """The first process's number, on all."""
        return x if self.size == 1 else float(self.of_first(torch.tensor(x, dtype=torch.float64)))

    def told_by_first(self, make: Callable[[], Any]) -> Any:
        """What ``make`` returns on the first process, as JSON carries it, on all; its ValueError or OSError too."""
        if self.size == 1:
            return make()
        message: dict[str, Any] = {}
        if self.first:
            try:
                message = {"value": make()}
            except (ValueError, OSError) as error:
                message = {"error": str(error)}
        text = np.frombuffer(json.dumps(message).encode(), dtype=np.uint8).copy()
        length = int(self.number_of_first(float(text.size)))
        body = torch.from_numpy(text) if self.first else torch.zeros(length, dtype=torch.uint8)
        message = json.loads(self.of_first(body).cpu().numpy().tobytes())
        if "error" in message:
            raise ValueError(message["error"])
        return message["value"]

    def agree(self, digest: str) -> None:
        """Refuse, on every process, to go on where a hexadecimal digest is not the same on all."""
        if self.size == 1:
            return
        mine = torch.tensor(list(bytes.fromhex(digest)), dtype=torch.int64)
        if not torch.equal(_reduced(mine, dist.ReduceOp.MIN), _reduced(mine, dist.ReduceOp.MAX)):
            raise ValueError(
                "the processes of this torch.distributed group were given different data or settings; give all of them "
                "the same, or fit inside megae.training.distributed.apart() to train one model in each"
            )

    def deal(self, sizes: np.ndarray) -> list[np.ndarray]:
        """Deal things out whole so that no process has much more than another.

        Parameters
        ----------
        sizes : ndarray of shape (n,)

        Returns
        -------
        list of ``size`` int64 ndarrays, ascending: positions of each process's share, perhaps none
        """
        shares: list[list[int]] = [[] for _ in range(self.size)]
        load = np.zeros(self.size)
        for k in np.argsort(-np.asarray(sizes), kind="stable"):
            to = int(load.argmin())
            shares[to].append(int(k))
            load[to] += sizes[k]
        return [np.sort(np.asarray(share, dtype=np.int64)) for share in shares]


ALONE = Processes()


def current() -> Processes:
    """The processes of the default ``torch.distributed`` group, or this one alone where there is none."""
    if _apart.get() or not (dist.is_available() and dist.is_initialized()):
        return ALONE
    return Processes(dist.get_rank(), dist.get_world_size())


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Work in this process alone while the context lasts, although a group is there.

    Under a group, ``fit``, ``transform`` and their like must be called by all processes. Inside this context one may
    call them by itself.
    """
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


def sends_from_gpus() -> bool:
    """Whether processes may hold their data on GPUs: alone, or with nccl; gloo has no all-to-all for them."""
    return current().size == 1 or "nccl" in dist.get_backend_config()


def local_rank() -> int:
    """Number of this process on its machine: torchrun's ``LOCAL_RANK``, or the rank in the group."""
    return int(os.environ.get("LOCAL_RANK", current().rank))


def _reduced(x: Tensor, operation: Any) -> Tensor:
    sent = _portable(x.detach()).clone(memory_format=torch.contiguous_format)
    with reaching_others():
        dist.all_reduce(sent, operation)
    return sent.to(x.device)


def _portable(x: Tensor) -> Tensor:
    """On a device that the group's backend sends from: nccl knows GPUs alone."""
    return x.cuda() if x.device.type == "cpu" and "cpu:" not in dist.get_backend_config() else x


@contextlib.contextmanager
def reaching_others() -> Iterator[None]:
    """Say plainly, as a ConnectionError, that another process is gone; any other error stays what it is."""
    try:
        yield
    except RuntimeError as error:
        text = str(error)
        if not isinstance(error, dist.DistError) and not any(word in text for word in _LOST):
            raise
        detail = text.partition("\n")[0]
        raise ConnectionError(
            f"another process of the group ended or cannot be reached; its own message says why ({detail})"
        ) from error

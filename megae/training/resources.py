"""Devices and threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from megae.kernels.threads import with_threads
from megae.training.distributed import current, local_rank, sends_from_gpus


def pick_device(device: str) -> torch.device:
    """``auto`` is the GPU where there is one; of several processes on a machine, each gets a GPU of its own.

    Processes whose group has no nccl take the CPU.
    """
    if device == "auto":
        return pick_device("cuda") if torch.cuda.is_available() and sends_from_gpus() else torch.device("cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch sees no CUDA GPU; use 'auto' or 'cpu'")
    if chosen.type == "cuda" and chosen.index is None and current().size > 1:
        return torch.device("cuda", local_rank() % torch.cuda.device_count())
    return chosen


SMALL_WORK = 1 << 18
"""Numbers in a layer below which waiting for a second thread costs more than it does."""


@contextlib.contextmanager
def threads(n_jobs: int | None, work: int) -> Iterator[None]:
    """Run with ``n_jobs`` threads in torch and the compiled filter, then restore the setting.

    Parameters
    ----------
    n_jobs : int or None
        -1 is every core; None leaves the setting, or takes one thread for less than ``SMALL_WORK``.
    work : int
        Numbers in one layer of the network.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be a positive number of threads, -1 for every core, or None")
    if n_jobs is None:
        wanted = 1 if work < SMALL_WORK else torch.get_num_threads()
    else:
        wanted = n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    with with_threads(wanted):
        yield

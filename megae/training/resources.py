"""Devices and threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch


def pick_device(device: str) -> torch.device:
    """``auto`` is the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda' or 'cuda:N', got {device!r}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch sees no CUDA GPU; use 'auto' or 'cpu'")
    return chosen


@contextlib.contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Run with ``n_jobs`` threads (-1: every core) in torch and the compiled filter, then restore the setting."""
    if n_jobs is None:
        yield
        return
    if n_jobs == 0:
        raise ValueError("n_jobs must be a positive number of threads, -1 for every core, or None")
    before = torch.get_num_threads()
    torch.set_num_threads(n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs))
    try:
        yield
    finally:
        torch.set_num_threads(before)

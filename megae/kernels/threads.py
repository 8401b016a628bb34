"""Threads that each do work of their own, with operations that keep to one thread."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

Found = TypeVar("Found")


@contextlib.contextmanager
def with_threads(count: int) -> Iterator[None]:
    """Operations of torch and of the compiled filter run on ``count`` threads; then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def _others(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "megae", initializer=torch.set_num_threads, initargs=(1,))


class _Queue:
    """Jobs of one caller are queued in one go: those of two that alternate could each wait for jobs still queued."""

    lock = threading.Lock()


def _start_anew() -> None:
    """A child has none of the threads, and nobody who would open a lock."""
    _others.cache_clear()
    _Queue.lock = threading.Lock()


os.register_at_fork(after_in_child=_start_anew)


def side_by_side(jobs: Sequence[Callable[[], Found]], call_off: Callable[[], None] = lambda: None) -> list[Found]:
    """What the jobs return, each run in a thread of its own, the first one in this.

    All see the context of the caller (:mod:`contextvars`), but neither its autograd mode nor its autocast, which are a
    thread's own. None is left running: an error is raised when all have ended.

    Parameters
    ----------
    jobs : functions without arguments
    call_off : function
        Called where one of them fails, or this thread is interrupted; lets those end that wait for it.

    Examples
    --------
    >>> side_by_side([lambda: 1 + 1, lambda: 2 + 2])
    [2, 4]
    """
    if len(jobs) == 1:
        return [jobs[0]()]
    others: list[Future[Found]] = []
    with with_threads(1):
        try:
            with _Queue.lock:
                for job in jobs[1:]:
                    others.append(_others(len(jobs) - 1).submit(contextvars.copy_context().run, job))
            return [jobs[0](), *(other.result() for other in others)]
        except BaseException:
            call_off()
            for other in others:
                other.exception()
            raise

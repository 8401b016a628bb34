"""Jobs in threads of their own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial

import pytest
import torch

from megae.kernels import cpu, halo_cpu
from megae.kernels.threads import side_by_side, with_threads

told: ContextVar[str] = ContextVar("told", default="nothing")


@pytest.fixture(autouse=True)
def as_many_threads_after() -> Iterator[None]:
    with with_threads(2):
        yield


def test_each_job_has_a_thread_and_they_run_at_the_same_time():
    meeting = threading.Barrier(3)

    def job(k: int) -> tuple[int, int]:
        meeting.wait(120)
        return k, threading.get_ident()

    found = side_by_side([partial(job, k) for k in range(3)])
    assert [k for k, _ in found] == [0, 1, 2]
    assert len({thread for _, thread in found}) == 3
    assert found[0][1] == threading.get_ident()


def test_operations_inside_keep_to_one_thread():
    assert side_by_side([torch.get_num_threads] * 2) == [1, 1]
    assert torch.get_num_threads() == 2
    assert side_by_side([torch.get_num_threads]) == [2], "alone, a job has all threads"


def test_jobs_see_the_context_of_the_caller():
    token = told.set("all")
    assert side_by_side([told.get] * 3) == ["all"] * 3
    told.reset(token)


@pytest.mark.parametrize("bad", [0, 1])
@pytest.mark.parametrize("error", [ValueError("why"), KeyboardInterrupt()])
def test_an_error_comes_when_all_have_ended(bad, error):
    released, ended = threading.Event(), []

    def failing() -> None:
        raise error

    def waiting() -> None:
        assert released.wait(120)
        time.sleep(0.05)
        ended.append(True)

    jobs = [waiting, waiting, waiting]
    jobs[bad] = failing
    if bad:  # the calling thread is one of those that wait, and looks at the others afterwards
        released.set()
    with pytest.raises(type(error)):
        side_by_side(jobs, released.set)
    assert ended == [True, True]
    assert torch.get_num_threads() == 2


def test_two_callers_do_not_wait_for_each_other():
    """The jobs of each meet, and there are as many threads as one caller needs."""

    class Slow(list):  # takes its time between one job and the next
        def __getitem__(self, at):
            found = super().__getitem__(at)
            return (time.sleep(0.1) or job for job in found) if isinstance(at, slice) else found

    def call() -> list[int]:
        return side_by_side(Slow([threading.Barrier(3, timeout=30).wait] * 3))

    with ThreadPoolExecutor(2) as callers:
        found = [caller.result() for caller in [callers.submit(call), callers.submit(call)]]
    assert [sorted(places) for places in found] == [[0, 1, 2]] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("pool", [None, cpu._pool, halo_cpu._pool], ids=["side by side", "filter", "halo"])
def test_a_forked_process_starts_threads_of_its_own(pool):
    def works() -> bool:
        if pool is None:
            return side_by_side([lambda: 1, lambda: 2]) == [1, 2]
        return pool(2).submit(lambda: 1).result() == 1

    assert works()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if works() else 1)
    end = time.monotonic() + 120
    while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
        time.sleep(0.01)
    if done == (0, 0):
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert done == (pid, 0)

"""Run a function in several processes that form a gloo group, for the tests of distributed training."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

Job = Callable[[int], Any]


def together(job: Job, size: int = 2, timeout: float = 500.0) -> list[Any]:
    """What ``job(rank)`` returns in each of ``size`` processes; it is a function of a module and returns plain data.

    Tests that call it have a limit of 600 seconds, so that it is this ``timeout`` for all of them that tells.
    """
    deadline = time.monotonic() + timeout
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "meeting"
        workers = [context.Process(target=_work, args=(job, r, size, str(meeting), results)) for r in range(size)]
        for worker in workers:
            worker.start()
        try:
            got = dict(results.get(timeout=max(0.0, deadline - time.monotonic())) for _ in workers)
            for worker in workers:
                worker.join(timeout=30)
        finally:
            for worker in workers:
                worker.kill()
    failed = [text for kind, text in got.values() if kind == "failed"]
    assert not failed, "\n".join(failed)
    return [got[rank][1] for rank in range(size)]


def _work(job: Job, rank: int, size: int, meeting: str, results: Any) -> None:
    os.environ["OMP_WAIT_POLICY"] = "passive"
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
        answer = ("done", job(rank))
        dist.barrier()
    except BaseException:
        answer = ("failed", f"rank {rank}:\n{traceback.format_exc()}")
    results.put((rank, answer))
    if dist.is_initialized():
        dist.destroy_process_group()

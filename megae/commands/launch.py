"""The command line as one of the processes that ``torchrun`` starts: one result, one voice."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import sys
import time
from collections.abc import Callable
from typing import Any

SHARED = ("impute",)
"""Commands whose work processes share; any other runs in the first process alone."""

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PATIENCE = 5.0
"""Seconds that a process which failed waits for the first to say the same."""


def launched() -> bool:
    """Whether torchrun, or anything that sets the same variables, started this process among others."""
    return all(os.environ.get(name) for name in _VARIABLES) and int(os.environ["WORLD_SIZE"]) > 1


def run_among_others(run: Callable[[list[str]], int], args: list[str]) -> int:
    """Run the command line in a process group.

    The first process speaks and writes. The others are silent, unless one of them fails while the first does not: a
    file may be missing on one machine alone.

    Parameters
    ----------
    run : callable
        Runs a command line and returns its exit code.
    args : list of str

    Returns
    -------
    int
        The exit code of this process.
    """
    first = int(os.environ["RANK"]) == 0
    if not args or args[0] not in SHARED:
        return run(args) if first else 0
    try:
        store = _join()
    except (RuntimeError, ValueError) as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        print(f"megae: error: the processes cannot meet at {where} ({error}); check the address", file=sys.stderr)
        return 2
    if first:
        code = run(args)
        sys.stdout.flush()  # where this failed, torchrun ends it as soon as the others know
        store.set("first", str(code))
    else:
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            code = run(args)
        if code and not _first_failed(store):
            print(f"[process {os.environ['RANK']}] {said.getvalue()}", end="", file=sys.stderr)
    if code:
        _leave_at_once(code)
    _part()
    return code


def takes_part(method: type[Any]) -> bool:
    """Whether this process has anything to do for a method: the first always, the others where it shares work."""
    return is_first() or bool(getattr(method, "shares_work", False))


def is_first() -> bool:
    """Whether this process is the one that writes files."""
    from megae.training.distributed import current

    return current().first


def _join() -> Any:
    """Form the group, gloo for CPUs and nccl for GPUs where each process has one; returns a store to leave notes in."""
    import torch
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    import megae.training.distributed  # noqa: F401  (before the group, so that nothing of torch keeps it)

    backend, local = "gloo", int(os.environ.get("LOCAL_RANK", 0))
    if torch.cuda.is_available():
        torch.cuda.set_device(local % torch.cuda.device_count())
        if dist.is_nccl_available() and int(os.environ.get("LOCAL_WORLD_SIZE", 1)) <= torch.cuda.device_count():
            backend = "cpu:gloo,cuda:nccl"
    store, rank, size = next(rendezvous("env://"))
    dist.init_process_group(backend, store=dist.PrefixStore("group", store), rank=rank, world_size=size)
    return dist.PrefixStore("megae", store)


def _part() -> None:
    """Leave the group and wait for its threads: one that lets go of a tensor while Python ends aborts the process."""
    import torch.distributed as dist

    gc.collect()  # replicas of a network are in cycles and hold the group
    dist.destroy_process_group()


def _leave_at_once(code: int) -> None:
    """End a process that failed: what is under way may never arrive, so no thread of the group is waited for.

    One that lets go of a tensor while Python ends would abort the process, and its exit code would be lost.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _first_failed(store: Any) -> bool:
    """Whether the first process has failed too and said why; waits a moment for it."""
    deadline = time.monotonic() + _PATIENCE
    with contextlib.suppress(RuntimeError, ValueError):  # the store may have gone with its machine
        while time.monotonic() < deadline:
            if store.check(["first"]):
                return store.get("first") != b"0"
            time.sleep(0.05)
    return False

"""What a figure depends on beside the trial: command, versions, hardware, time and memory."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from megae import __version__

PACKAGES = ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "numba")


def surroundings(command: str | None = None) -> dict[str, Any]:
    """Command, versions and hardware of this process; nothing that names the machine or its folders."""
    return {
        "command": command_line() if command is None else command,
        "megae": __version__,
        "python": platform.python_version(),
        "versions": {name: found for name in PACKAGES if (found := _version(name)) is not None},
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cpu_count": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def command_line() -> str:
    """The command as a person would type it; absolute paths are cut to their last part."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = None if spec is None else spec.name.removesuffix(".__main__")
    if module == "megae" or Path(sys.argv[0]).name == "megae":
        start = ["megae"]
    else:
        start = ["python", sys.argv[0]] if module is None else ["python", "-m", module]
    return shlex.join([_without_folders(word) for word in [*start, *sys.argv[1:]]])


def _without_folders(word: str) -> str:
    """A word of a command with the absolute path in it, if any, cut to its last part: ``--out=/a/b`` -> ``--out=b``."""
    option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    return option + equals + (Path(value).name if os.path.isabs(value) else value)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str | None:
    """The model of the processor, where the system tells."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


class Memory:
    """Peak memory of this process since :func:`peak_memory` began.

    ``gib`` and ``gpu_gib`` are None where the system cannot tell for a part of a process's life.
    """

    gib: float | None = None
    gpu_gib: float | None = None


@contextmanager
def peak_memory() -> Iterator[Memory]:
    """Measure the peak of resident memory over a block (Linux), and of the GPU's where there is one."""
    memory, status = Memory(), Path("/proc/self/status")
    resettable = _reset_peak()
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    try:
        yield memory
    finally:
        if resettable and status.is_file():
            line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
            memory.gib = int(line.split()[1]) / 2**20
        if cuda:
            memory.gpu_gib = torch.cuda.max_memory_allocated() / 2**30


def _reset_peak() -> bool:
    """Ask Linux to start the high-water mark of this process anew."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True

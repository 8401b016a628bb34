"""How far a download is: a bar on a terminal, else a log line now and then."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator

__all__ = ["Report", "telling"]

logger = logging.getLogger(__name__)

Report = Callable[[int, int | None], None]
"""Called with the bytes there are and the bytes there will be, None where the server does not say."""

EVERY = 10.0
"""Seconds between two log lines."""


@contextlib.contextmanager
def telling(name: str, url: str, bar: bool | None = None) -> Iterator[Report]:
    """What to report the bytes of a file to.

    Parameters
    ----------
    name, url : the file, and where it comes from
    bar : whether to draw a bar on stderr
        None: on a terminal, unless the logger ``megae`` has been told to keep quiet.
    """
    if bar is None:
        bar = sys.stderr.isatty() and logging.getLogger("megae").level <= logging.INFO
    if not bar:
        logger.info("downloading %s", url)
        yield _lines(name)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as drawn:
        task = drawn.add_task(name, total=None)
        yield lambda done, total: drawn.update(task, completed=done, total=total)


def _lines(name: str) -> Report:
    last = time.monotonic()

    def report(done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            logger.info("%s: %.1f%s MB", name, done / 1e6, "" if total is None else f" of {total / 1e6:.1f}")

    return report

"""Telling how training goes: a live bar on a terminal, log lines elsewhere, nothing when silent."""

from __future__ import annotations

import contextlib
import logging
import math
import sys
from types import TracebackType
from typing import Any, Protocol, Self

logger = logging.getLogger("megae")


class Progress(Protocol):
    """Receives the figures of a run."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def advance(self, step: int, remaining: float) -> None: ...
    def report(self, figures: dict[str, float], remaining: float) -> None: ...


class Silent:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def advance(self, step: int, remaining: float) -> None:
        return None

    def report(self, figures: dict[str, float], remaining: float) -> None:
        return None


class LogLines(Silent):
    """One log line per tenth of the run."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._next = what, total, 0

    def report(self, figures: dict[str, float], remaining: float) -> None:
        if figures["step"] < self._next:
            return
        self._next = int(figures["step"]) + max(1, self._total // 10)
        shown = [f"loss {figures['loss']:.4g}"]
        if not math.isnan(figures["val_rmse"]):
            shown.append(f"validation RMSE {figures['val_rmse']:.4g}")
        if "entropy" in figures:
            shown.append(f"entropy {figures['entropy']:.3f}")
        left = f", {remaining:.0f} s left" if math.isfinite(remaining) else ""
        logger.info("%s step %d/%d %s%s", self._what, figures["step"], self._total, " ".join(shown), left)


class LiveBar(Silent):
    """A rich progress bar with step, loss, validation RMSE, entropy and time left."""

    def __init__(self, what: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn(
                "loss {task.fields[loss]}  val RMSE {task.fields[val_rmse]}  entropy {task.fields[entropy]}  "
                "{task.fields[left]} left"
            ),
            console=Console(stderr=True),
        )
        self._task: Any = self._bar.add_task(what, total=total, loss="-", val_rmse="-", entropy="-", left="-")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self, step: int, remaining: float) -> None:
        self._bar.update(self._task, completed=step, left=_clock(remaining))

    def report(self, figures: dict[str, float], remaining: float) -> None:
        shown: dict[str, Any] = {k: f"{figures[k]:.4f}" for k in ("loss", "val_rmse", "entropy") if k in figures}
        if math.isnan(figures["val_rmse"]):
            shown["val_rmse"] = "-"
        self._bar.update(self._task, completed=figures["step"], left=_clock(remaining), **shown)


def _clock(seconds: float) -> str:
    if seconds != seconds or seconds == float("inf"):
        return "-"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def make_progress(verbose: int, what: str, total: int) -> Progress:
    """A bar on a terminal, log lines elsewhere, silence with ``verbose=0`` or where rich is missing."""
    if not verbose:
        return Silent()
    if sys.stderr.isatty():
        with contextlib.suppress(ImportError):
            return LiveBar(what, total)
    _make_audible()
    return LogLines(what, total)


def _make_audible() -> None:
    """Let verbose lines reach standard error where the application has set up no logging of its own."""
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("megae: %(message)s"))
        logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)

"""What every record holds beside its figures: the command, versions and hardware."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from megae.bench.surroundings import surroundings
from megae.io.atomic import atomic_path

RESULTS = Path(__file__).parent / "results"


def write_record(path: Path, figures: dict[str, Any]) -> None:
    """Write figures and surroundings as JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({**surroundings(), "openmp": _openmp(), **figures}, indent=1) + "\n")


def _openmp() -> dict[str, str | None]:
    """How OpenMP is told to run: waiting threads that spin, or sleep, make a difference on a busy machine."""
    return {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")}


def bar(what: str, measured: float, *, at_least: float | None = None, at_most: float | None = None) -> dict[str, Any]:
    """A figure beside what is asked of it, for the ``bars`` of a record; the page says whether it is met."""
    if (at_least is None) == (at_most is None):
        raise ValueError("a bar is either a least or a most")
    met = measured >= at_least if at_least is not None else measured <= at_most  # type: ignore[operator]
    return {"what": what, "measured": measured, "at_least": at_least, "at_most": at_most, "met": bool(met)}

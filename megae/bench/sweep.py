"""Many trials, side by side: each record is kept as it comes, so a killed sweep goes on where it was."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from typing import Any

from megae.bench.on_ray import on_ray
from megae.bench.running import lost_record, run_trial
from megae.bench.store import Store
from megae.bench.trials import Trial

log = logging.getLogger(__name__)

BACKENDS = ("loky", "ray")


@dataclass
class Sweep:
    """What a sweep came to.

    Parameters
    ----------
    computed, found : how many trials were run, and how many had been before
    errors : records of trials that failed
    """

    computed: int = 0
    found: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)


def sweep(
    trials: Sequence[Trial],
    store: Store,
    *,
    jobs: int = 1,
    device: str = "auto",
    backend: str = "loky",
    root: str | None = None,
    command: str = "",
    progress: bool = True,
) -> Sweep:
    """Run the trials that the store does not have yet; those that failed before are tried again.

    A trial whose record lacks one of its extras is run again for these and those that the record holds.

    Parameters
    ----------
    jobs : how many at a time; each gets its share of the threads, the same for the last ones and after a restart
    backend : "loky" (processes on this machine) or "ray" (a Ray cluster, through joblib)
    root : folder of the datasets
    command : what the user typed, for the records
    progress : whether to tell how far it is, on standard error

    Returns
    -------
    Sweep
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    store.tidy()
    todo = list({left.key: left for trial in trials if (left := store.left(trial)) is not None}.values())
    outcome = Sweep(found=len(trials) - len(todo))
    if not todo:
        return outcome
    store.prepare(todo)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    options = {"device": device, "root": root, "threads": threads, "command": command}
    with _teller(todo, jobs, progress) as tell:
        for record in _results(todo, options, jobs, backend):
            store.write(record)
            outcome.computed += 1
            if record["status"] != "ok":
                outcome.errors.append(record)
            tell.done(record)
    return outcome


def _results(todo: Sequence[Trial], options: dict[str, Any], jobs: int, backend: str) -> Iterator[dict[str, Any]]:
    """Records as they are finished."""
    if backend == "ray":
        yield from on_ray(todo, run_trial, lambda trial: _lost(trial, options), options, jobs)
    elif jobs == 1:
        yield from (run_trial(trial, **options) for trial in todo)
    else:
        yield from _side_by_side(todo, options, jobs)


def _side_by_side(todo: Sequence[Trial], options: dict[str, Any], jobs: int) -> Iterator[dict[str, Any]]:
    """Records of processes on this machine; where one dies, the trials left run one by one."""
    from joblib import Parallel, delayed, parallel_config

    waiting = {trial.key: trial for trial in todo}
    try:
        with parallel_config(backend="loky", n_jobs=jobs):
            calls = (delayed(run_trial)(trial, **options) for trial in todo)
            for record in Parallel(return_as="generator_unordered", batch_size=1)(calls):
                del waiting[record["key"]]
                yield record
    except BrokenProcessPool:
        log.warning("a process died; the %d trials left run one by one, to see whose it was", len(waiting))
        for trial in waiting.values():
            yield _alone(trial, options)


def _alone(trial: Trial, options: dict[str, Any]) -> dict[str, Any]:
    """The record of a trial in a process of its own, also if that dies."""
    from joblib.externals.loky import ProcessPoolExecutor

    with ProcessPoolExecutor(1) as pool:
        try:
            return pool.submit(run_trial, trial, **options).result()
        except BrokenProcessPool:
            return _lost(trial, options)


def _lost(trial: Trial, options: dict[str, Any]) -> dict[str, Any]:
    error = "the process died, most likely for lack of memory; try a smaller --jobs or a larger machine"
    return lost_record(trial, error, device=options["device"], command=options["command"])


class _Teller:
    """Counts trials and estimates what is left from what each method took so far on each dataset.

    A method that has not been there yet counts as it does on other datasets, and one that has not run as all do.
    """

    def __init__(self, todo: Sequence[Trial], jobs: int) -> None:
        self.waiting, self.total, self.jobs = {trial.key: trial for trial in todo}, len(todo), jobs
        self.took: dict[tuple[str, ...], list[float]] = {}

    @property
    def count(self) -> int:
        """Trials that are done."""
        return self.total - len(self.waiting)

    def left(self) -> float:
        """Seconds to go."""
        return sum(map(self._expected, self.waiting.values())) / max(1, min(self.jobs, len(self.waiting)))

    def _expected(self, trial: Trial) -> float:
        known = next((self.took[k] for k in _like(trial) if k in self.took), [0.0])
        return sum(known) / len(known)

    def done(self, record: dict[str, Any]) -> None:
        trial = self.waiting.pop(record["key"])
        for k in _like(trial):
            self.took.setdefault(k, []).append(record["seconds"]["total"])
        self.show(record)

    def show(self, record: dict[str, Any]) -> None:
        """Say nothing."""


def _like(trial: Trial) -> list[tuple[str, ...]]:
    """What a trial may be like others in, from much to nothing."""
    method = (trial.method, repr(sorted(trial.settings.items())))
    return [(*method, trial.dataset), method, ()]


class _Lines(_Teller):
    def show(self, record: dict[str, Any]) -> None:
        what = Trial.from_dict(record["trial"]).name + _figure(record)
        took, left = record["seconds"]["total"], _clock(self.left())
        log.info("%d/%d %s, %.1f s; %s left", self.count, self.total, what, took, left)


class _Bar(_Teller):
    def __init__(self, todo: Sequence[Trial], jobs: int) -> None:
        super().__init__(todo, jobs)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self.bar = Progress(
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]} left  {task.description}", markup=False),
            console=Console(stderr=True),
        )
        self.task = self.bar.add_task("", total=self.total, left="-")

    def show(self, record: dict[str, Any]) -> None:
        text = Trial.from_dict(record["trial"]).name + _figure(record)
        self.bar.update(self.task, completed=self.count, left=_clock(self.left()), description=text)


@contextlib.contextmanager
def _teller(todo: Sequence[Trial], jobs: int, progress: bool) -> Iterator[_Teller]:
    if not progress:
        yield _Teller(todo, jobs)
    elif sys.stderr.isatty():
        bar = _Bar(todo, jobs)
        with bar.bar:
            yield bar
    else:
        yield _Lines(todo, jobs)


def _figure(record: dict[str, Any]) -> str:
    if record["status"] != "ok":
        return " failed"  # why is told by a warning of its own
    parts = []
    if record["scores"]:
        parts.append(f"RMSE {record['scores']['ours']['rmse']:.4g} in our unit")
    if record["accuracy"]:
        parts.append(f"accuracy {100 * record['accuracy']['centred']:.1f} %")
    return ": " + ", ".join(parts) if parts else ""


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"

"""Trials on a Ray cluster, through joblib; a worker that dies costs its own trial alone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from megae.bench.trials import Trial

log = logging.getLogger(__name__)

Record = dict[str, Any]
Run = Callable[..., Record]
Lost = Callable[[Trial], Record]

EVERY = 0.2
"""Seconds between two looks at what is finished."""


LAST = 60.0
"""Seconds that workers have to end in when they are told to: a thread that still asks Ray while it shuts down, or is
started anew, can take this process with it."""


def on_ray(todo: Sequence[Trial], run: Run, lost: Lost, options: dict[str, Any], jobs: int) -> Iterator[Record]:
    """Records of the trials, each as soon as it is finished.

    Ray's backend of joblib returns lists only, when all is done. So joblib starts ``jobs`` workers, which take trials
    from a shelf and put their records there, and the records are fetched from it meanwhile. If a worker dies, joblib
    ends all of them; the trials they were at run one by one then, and new workers go on with the rest.

    Parameters
    ----------
    run : makes the record of a trial, on a worker; ``options`` are its keyword arguments
    lost : makes the record of a trial whose worker died, here
    """
    register_ray()
    waiting = {trial.key: trial for trial in todo}
    while min(jobs, len(waiting)) > 1:  # joblib would run a single job in this process
        shelf = _shelf(list(waiting.values()))
        workers = _Workers(shelf, run, options, min(jobs, len(waiting)))
        workers.start()
        try:
            working = True
            while working:
                workers.join(EVERY)
                working = workers.is_alive()
                for key, record in _asked(shelf, "take", {}).items():
                    del waiting[key]
                    yield record
            begun = _asked(shelf, "begun", [])
        finally:
            _close(shelf)
            workers.join(LAST)
        if workers.error is not None:
            raise workers.error
        if waiting:
            log.warning("a worker of Ray died; the trials that it cut short run one by one")
            cut = [key for key in begun if key in waiting] or list(waiting)[:jobs]
            yield from (_alone(waiting.pop(key), run, lost, options) for key in cut)
    yield from (_alone(trial, run, lost, options) for trial in waiting.values())


class _Workers(threading.Thread):
    """Workers that joblib starts on Ray; it returns when they have all ended, or one has died."""

    def __init__(self, shelf: Any, run: Run, options: dict[str, Any], jobs: int) -> None:
        super().__init__(daemon=True)
        self.job, self.jobs = (shelf, run, options), jobs
        self.error: Exception | None = None

    def run(self) -> None:
        from joblib import Parallel, delayed, parallel_config
        from ray.exceptions import RayError, RayTaskError

        try:
            with parallel_config(backend="ray", n_jobs=self.jobs):
                Parallel(batch_size=1)(delayed(_work)(*self.job) for _ in range(self.jobs))
        except Exception as error:
            if isinstance(error, RayTaskError) or not isinstance(error, RayError):
                self.error = error


def _alone(trial: Trial, run: Run, lost: Lost, options: dict[str, Any]) -> Record:
    """The record of a trial on a worker of its own, also if that dies."""
    import ray
    from ray.exceptions import RayError, RayTaskError

    worker: Any = ray.remote(max_retries=0)(run)
    try:
        return ray.get(worker.remote(trial, **options))
    except RayTaskError:
        raise
    except RayError:
        return lost(trial)


class _Shelf:
    """Trials to be run, and records until they are fetched."""

    def __init__(self, trials: list[Trial]) -> None:
        self.trials, self.next = trials, 0
        self.records: dict[str, Record] = {}
        self.workers: list[Any] = []

    def enter(self, worker: Any) -> None:
        self.workers.append(worker)

    def hand_out(self) -> Trial | None:
        self.next += 1
        return self.trials[self.next - 1] if self.next <= len(self.trials) else None

    def put(self, record: Record) -> None:
        self.records[record["key"]] = record

    def take(self) -> dict[str, Record]:
        taken, self.records = self.records, {}
        return taken

    def begun(self) -> list[str]:
        return [trial.key for trial in self.trials[: self.next]]

    def inside(self) -> list[Any]:
        return self.workers


def _shelf(trials: list[Trial]) -> Any:
    import ray

    return ray.remote(num_cpus=0)(_Shelf).remote(trials)


def _work(shelf: Any, run: Run, options: dict[str, Any]) -> None:
    """Run trials until none is left."""
    import ray

    ray.get(shelf.enter.remote(ray.get_runtime_context().current_actor))
    while (trial := ray.get(shelf.hand_out.remote())) is not None:
        ray.get(shelf.put.remote(run(trial, **options)))


def _asked(shelf: Any, what: str, otherwise: Any) -> Any:
    """What a shelf answers; something else where it is gone."""
    import ray

    try:
        return ray.get(getattr(shelf, what).remote())
    except ray.exceptions.RayError:
        return otherwise


def _close(shelf: Any) -> None:
    """End a shelf, and workers that are still at it, since nobody waits for them any more."""
    import ray

    for actor in [*_asked(shelf, "inside", []), shelf]:
        ray.kill(actor)


def register_ray() -> None:
    """Make joblib know Ray; joins the cluster that ``RAY_ADDRESS`` names, or starts one on this machine."""
    try:
        import ray
        from ray.util.joblib import register_ray as register
    except ImportError as error:
        raise ValueError("backend 'ray' needs Ray; install it with: pip install 'megae[ray]'") from error
    if not ray.is_initialized():
        ray.init(ignore_reinit_error=True, include_dashboard=False, log_to_driver=False, logging_level=logging.WARNING)
    register()

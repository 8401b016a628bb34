"""Trials on a Ray cluster, through joblib; a worker that dies costs its own trial alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from megae.bench.trials import Trial

log = logging.getLogger(__name__)

Record = dict[str, Any]
Run = Callable[..., Record]
Lost = Callable[[Trial], Record]


def on_ray(todo: Sequence[Trial], run: Run, lost: Lost, options: dict[str, Any], jobs: int) -> Iterator[Record]:
    """Records of the trials, in rounds of ``jobs``, since Ray's backend of joblib returns lists only.

    Parameters
    ----------
    run : makes the record of a trial, on a worker; ``options`` are its keyword arguments
    lost : makes the record of a trial whose worker died, here
    """
    register_ray()
    from joblib import Parallel, delayed, parallel_config
    from ray.exceptions import RayError, RayTaskError

    if jobs == 1:  # joblib would run it in this process
        yield from (_alone(trial, run, lost, options) for trial in todo)
        return
    for first in range(0, len(todo), jobs):
        some, shelf = todo[first : first + jobs], _shelf()
        try:
            with parallel_config(backend="ray", n_jobs=jobs):
                Parallel(batch_size=1)(delayed(_shelved)(shelf, run, trial, options) for trial in some)
        except RayTaskError:
            raise
        except RayError:
            log.warning("a worker of Ray died; the trials of this round that it cut short run one by one")
        finished = _taken(shelf)
        yield from finished.values()
        yield from (_alone(trial, run, lost, options) for trial in some if trial.key not in finished)


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
    """Finished records of a round: a round that breaks off has no result."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def put(self, record: Record) -> None:
        self.records[record["key"]] = record

    def take(self) -> dict[str, Record]:
        return self.records


def _shelf() -> Any:
    import ray

    return ray.remote(num_cpus=0)(_Shelf).remote()


def _shelved(shelf: Any, run: Run, trial: Trial, options: dict[str, Any]) -> None:
    import ray

    ray.get(shelf.put.remote(run(trial, **options)))


def _taken(shelf: Any) -> dict[str, Record]:
    """What lies on a shelf; nothing where it is gone too."""
    import ray

    try:
        return ray.get(shelf.take.remote())
    except ray.exceptions.RayError:
        return {}


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

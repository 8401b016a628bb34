"""One trial from start to record. Whatever a method does wrong ends up in the record, never in the sweep."""

from __future__ import annotations

import inspect
import logging
import math
import os
import time
import traceback
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from megae.bench.catalogue import FULL
from megae.bench.extras import entropy_change, fill_accuracy, holes_accuracy, spectra
from megae.bench.methods import arguments
from megae.bench.protocol import PROTOCOL, Answers, Task, pose
from megae.bench.scoring import score
from megae.bench.surroundings import peak_memory, surroundings
from megae.bench.trials import Trial
from megae.datasets import entry, load
from megae.downstream import CLASSIFIERS
from megae.imputers import GraphImputer, get_imputer
from megae.imputers.base import check_time_budget
from megae.io.errors import InputError
from megae.training.interrupts import whole_trainings
from megae.training.resources import pick_device

log = logging.getLogger(__name__)


@lru_cache(maxsize=2)
def dataset(name: str, root: str | None) -> tuple[Data, ...]:
    """The graphs of a dataset, read once per process."""
    return tuple(load(name, root))


def make_method(trial: Trial, device: str) -> GraphImputer:
    """The imputer of a trial: its settings, the trial's seed, and no work done for show."""
    imputer = get_imputer(trial.method)
    known = inspect.signature(type(imputer).__init__).parameters
    common = {"random_state": trial.seed, "device": device, "verbose": 0, "diagnose": False}
    given = {k: v for k, v in common.items() if k in known} | dict(trial.settings)
    return get_imputer(trial.method, **given)


def check_settings(trials: Iterable[Trial], given: Mapping[str, Any]) -> None:
    """Refuse, before the first trial, settings that a method refuses: each is tried on a small made-up graph.

    Methods look at their settings when they are fitted. One that does not run there with its other settings either is
    let through, since its trials will tell more.

    Parameters
    ----------
    trials : Trial
    given : settings to try, of those that the trials have
    """
    tried = set()
    for trial in trials:
        new = {name: trial.settings[name] for name in given if name in trial.settings}
        single = entry(trial.dataset).single
        which = (single, trial.method, repr(sorted(trial.settings.items())))
        if not new or which in tried:
            continue
        tried.add(which)
        error = _refusal(trial, single)
        if error is None:
            continue
        kept = {name: value for name, value in trial.settings.items() if name not in new}
        if _refusal(replace(trial, settings=kept), single) is None:
            pairs = ", ".join(f"{name}={value}" for name, value in new.items())
            raise InputError(f"--set {pairs} does not do for {trial.method}: {error}")


@whole_trainings()
def _refusal(trial: Trial, single: bool) -> Exception | None:
    """What a method says of its settings when it is given hardly any time on made-up graphs."""
    known = arguments(trial.method)
    settings = dict(trial.settings)
    try:
        check_time_budget(settings.get("time_budget"))
        brief = {"time_budget": 1e-9} if "time_budget" in known else {}
        graphs = _made_up(1, 1000) if single else _made_up(24, 12)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if trial.method in CLASSIFIERS:
                nodes = np.array_split(np.arange(len(graphs[0].x)), 3)
                CLASSIFIERS[trial.method](**settings | brief | {"device": "cpu"}).fit(graphs[0], *nodes[:2])
            else:
                make_method(replace(trial, settings=settings | brief), "cpu").fit(graphs).transform(graphs)
    except Exception as error:
        return error
    return None


def _made_up(count: int, nodes: int) -> list[Data]:
    """Rings of so many nodes with eight smooth columns, a fifth of their cells missing."""
    rng, i = np.random.default_rng(0), np.arange(nodes)
    x = np.cos(2 * np.pi * i[:, None] / nodes + np.arange(8))
    edges = torch.from_numpy(np.stack([np.append(i, (i + 1) % nodes), np.append((i + 1) % nodes, i)]))
    return [
        Data(
            x=torch.from_numpy(np.where(rng.random(x.shape) < 0.2, np.nan, x + 0.1 * rng.standard_normal(x.shape))),
            edge_index=edges,
            y=torch.from_numpy(i % 2),
        )
        for _ in range(count)
    ]


def run_trial(
    trial: Trial, *, device: str = "auto", root: str | None = None, threads: int | None = None, command: str = ""
) -> dict[str, Any]:
    """Compute a trial and return its record; an error of the method becomes part of the record.

    Parameters
    ----------
    trial : Trial
    device : where methods that can choose train
    root : folder of the datasets, see :func:`megae.datasets.load`
    threads : threads of torch, or None to leave them
    command : what the user typed, for the record
    """
    if threads is not None:
        torch.set_num_threads(threads)
    started = time.perf_counter()
    figures: dict[str, Any] = {}
    error: str | None = None
    with peak_memory() as memory:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                figures = measure(trial, list(dataset(trial.dataset, root)), device)
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            told = isinstance(failure, (ValueError, OSError)) and not os.environ.get("MEGAE_DEBUG")
            log.warning("%s failed: %s%s", trial.name, error, "" if told else f"\n{traceback.format_exc()}")
    seconds = figures.pop("seconds", {}) | {"total": time.perf_counter() - started}
    figures |= {"seconds": seconds, "peak_memory_gib": memory.gib, "peak_gpu_gib": memory.gpu_gib}
    return _record(trial, error, figures, device, command)


def lost_record(trial: Trial, error: str, *, device: str = "auto", command: str = "") -> dict[str, Any]:
    """The record of a trial whose process died under it, for lack of memory most likely."""
    log.warning("%s failed: %s", trial.name, error)
    return _record(trial, error, {"seconds": {"total": 0.0}}, device, command)


def _record(trial: Trial, error: str | None, figures: dict[str, Any], device: str, command: str) -> dict[str, Any]:
    what = {"trial": trial.to_dict(), "key": trial.key, "protocol": PROTOCOL}
    status = {"status": "ok" if error is None else "error", "error": error}
    where = {"device": pick_device(device).type}
    return what | status | tidy(figures) | where | {"surroundings": surroundings(command)}


@whole_trainings()
def measure(trial: Trial, graphs: list[Data], device: str) -> dict[str, Any]:
    """Pose the task, let the method fill, score: the part of a record that depends on the trial alone."""
    task, answers = pose(trial.dataset, graphs, trial.mechanism, trial.rate, trial.seed)
    figures: dict[str, Any] = {"scores": None, "pairs": None, "holes": None, "accuracy": None, "entropy_change": None}
    if trial.method in CLASSIFIERS:
        start = time.perf_counter()
        figures["accuracy"] = holes_accuracy(trial.method, trial.settings, task, answers, trial.seed, device)
        return figures | {"seconds": {"fit": time.perf_counter() - start}}
    if trial.method == FULL:
        truth = [g.x.numpy() for g in answers.test]
        figures["accuracy"] = fill_accuracy(
            truth, [g.x.numpy() for g in answers.validation], answers, trial.seed, device
        )
        return figures
    filling = fill(trial, task, device)
    figures |= score(filling.test, answers)
    if "accuracy" in trial.extras:
        figures["accuracy"] = fill_accuracy(filling.test, filling.validation, answers, trial.seed, device)
    if "entropy" in trial.extras:
        figures["entropy_change"] = entropy_change(filling.test, answers)
    if "spectra" in trial.extras:
        figures["spectra"] = spectra(filling.imputer, task, answers, filling.test)
    return figures | {"seconds": filling.seconds}


@dataclass(frozen=True)
class Filling:
    """What a method made of a task.

    Parameters
    ----------
    test, validation : lists of ndarrays of shape (N_i, D)
        Filled graphs; validation graphs only where the trial classifies.
    """

    imputer: GraphImputer
    test: list[np.ndarray]
    validation: list[np.ndarray]
    seconds: dict[str, float]


def fill(trial: Trial, task: Task, device: str) -> Filling:
    """Fit on what the task shows, fill its test graphs."""
    imputer = make_method(trial, device)
    start = time.perf_counter()
    imputer.fit(task.train, validation=task.validation or None)
    fitted = time.perf_counter()
    test = [g.x.numpy() for g in imputer.transform(task.test)]
    seconds = {"fit": fitted - start, "fill": time.perf_counter() - fitted}
    more = task.validation if "accuracy" in trial.extras else []
    return Filling(imputer, test, [g.x.numpy() for g in imputer.transform(more)] if more else [], seconds)


@whole_trainings()
def validation_rmse(trial: Trial, task: Task, answers: Answers, device: str) -> float:
    """Error on the holes of the validation graphs, in our units; the test graphs are not touched."""
    imputer = make_method(trial, device)
    imputer.fit(task.train, validation=None if answers.single else task.validation)
    known, holes = answers.validation, answers.validation_holes
    filled = [
        np.where(h, f.x.numpy(), g.x.numpy())
        for f, g, h in zip(imputer.transform(task.validation), known, holes, strict=True)
    ]
    judged = Answers(answers.dataset, known, holes, answers.span, answers.mean, answers.whole)
    return float(score(filled, judged)["scores"]["ours"]["rmse"])


def tidy(value: Any) -> Any:
    """Plain JSON: numbers that are not finite become None, figures keep seven digits."""
    if isinstance(value, dict):
        return {str(k): tidy(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [tidy(v) for v in value]
    if isinstance(value, (np.floating, float)):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value

"""Trials on a local Ray whose workers die."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

import pytest

from megae.bench.on_ray import _Workers, on_ray
from megae.bench.running import run_trial
from megae.bench.store import Store
from megae.bench.sweep import sweep
from megae.bench.trials import Trial


def some_trials() -> list[Trial]:
    return [Trial("digits", "mcar", 0.1, seed, method) for seed in (0, 1) for method in ("mean", "zero")]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_worker_that_dies_costs_its_own_trial_alone(tmp_path, monkeypatch, own_ray, caplog):
    calls, driver = tmp_path / "calls", os.getpid()
    calls.mkdir()
    (calls / "mean 0").touch()

    def deadly(trial, **options):
        assert os.getpid() != driver
        with (calls / f"{trial.method} {trial.seed}").open("a") as called:
            called.write("begun ")
            if (trial.method, trial.seed) == ("zero", 0):
                called.flush()
                while "done" not in (calls / "mean 0").read_text():
                    time.sleep(0.1)
                others, end = [calls / name for name in ("mean 1", "zero 1")], time.monotonic() + 60
                while not all(p.exists() and "done" in p.read_text() for p in others) and time.monotonic() < end:
                    time.sleep(0.1)
                time.sleep(10)  # until the last record has left its worker
                os._exit(1)
            record = run_trial(trial, **options)
            called.write("done ")
        return record

    monkeypatch.setattr("megae.bench.sweep.run_trial", deadly)
    trials, store = some_trials(), Store(tmp_path / "records")
    with caplog.at_level(logging.WARNING):
        outcome = sweep(trials, store, jobs=2, backend="ray", progress=False)
    [lost] = outcome.errors
    assert (lost["trial"]["method"], lost["trial"]["seed"]) == ("zero", 0)
    assert "the process died" in lost["error"]
    assert outcome.computed == len(list(store.records())) == 4
    assert sum(record["status"] == "ok" for record in store.records()) == 3
    told = {path.name: path.read_text() for path in calls.iterdir()}
    assert told.pop("zero 0") == "begun begun ", "it is tried once more, by itself"
    assert set(told.values()) == {"begun done "}, "what was finished is not computed again"
    monkeypatch.undo()
    assert sweep(trials, store, progress=False).computed == 1, "what failed is tried again"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("own_ray")
def test_a_record_is_kept_while_slower_trials_run(tmp_path, monkeypatch):
    folder, trials = tmp_path / "records", some_trials()
    told = tmp_path / "told"

    def slow_at_first(trial, **options):
        if (trial.method, trial.seed) == ("mean", 0):
            end = time.monotonic() + 600
            while time.monotonic() < end and len(list(folder.glob("*/[!.]*.json"))) < 3:
                time.sleep(0.1)
            told.write_text(str(len(list(folder.glob("*/[!.]*.json")))))
        return run_trial(trial, **options)

    monkeypatch.setattr("megae.bench.sweep.run_trial", slow_at_first)
    assert sweep(trials, Store(folder), jobs=2, backend="ray", progress=False).computed == 4
    assert told.read_text() == "3", "the records of the others lay in the folder before it was done"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_workers_end_when_nobody_waits_for_them(tmp_path, monkeypatch, own_ray):
    monkeypatch.setattr(sys.modules[_Workers.__module__], "LAST", 600.0)
    pids = tmp_path / "pids"
    pids.mkdir()

    def endless(trial, **options):
        (pids / str(os.getpid())).touch()
        while trial.method == "zero":
            time.sleep(0.1)
        return run_trial(trial, **options)

    records = on_ray(some_trials(), endless, lambda trial: {}, {"device": "cpu"}, 2)
    assert next(records)["trial"]["method"] == "mean"
    records.close()
    assert not [thread for thread in threading.enumerate() if isinstance(thread, _Workers)], "none is left to ask Ray"
    end = time.monotonic() + 300
    while (left := [pid.name for pid in pids.iterdir() if os.path.exists(f"/proc/{pid.name}")]) and (
        time.monotonic() < end
    ):
        time.sleep(0.1)
    assert left == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_one_job_runs_on_ray_too(tmp_path, monkeypatch, own_ray):
    driver = os.getpid()

    def elsewhere(trial, **options):
        assert os.getpid() != driver
        return run_trial(trial, **options)

    monkeypatch.setattr("megae.bench.sweep.run_trial", elsewhere)
    assert sweep([Trial("digits", "mcar", 0.1, 0, "zero")], Store(tmp_path), backend="ray", progress=False).errors == []

"""Trials from start to record: side by side, resumed, failing, on Ray."""

from __future__ import annotations

import io
import json
import logging
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from megae.bench.protocol import pose
from megae.bench.running import make_method, run_trial, tidy
from megae.bench.scoring import score
from megae.bench.store import Store
from megae.bench.surroundings import command_line, peak_memory, surroundings
from megae.bench.sweep import _Teller, sweep
from megae.bench.trials import Trial
from megae.datasets import load
from megae.imputers import get_imputer

VOLATILE = ("seconds", "peak_memory_gib", "peak_gpu_gib", "surroundings")


def trials(methods=("mean", "graph-mean"), seeds=(0, 1)) -> list[Trial]:
    return [Trial("digits", "mcar", 0.1, seed, method) for seed in seeds for method in methods]


def lasting(record: dict) -> dict:
    """A record without what differs from run to run."""
    return {k: v for k, v in record.items() if k not in VOLATILE}


def test_a_record_holds_what_scoring_by_hand_gives():
    trial = Trial("digits", "mcar", 0.1, 0, "graph-mean", extras=("entropy",))
    record = run_trial(trial, device="cpu", command="megae bench run made")
    task, answers = pose("digits", load("digits"), "mcar", 0.1, 0)
    filled = [g.x.numpy() for g in get_imputer("graph-mean").fit(task.train).transform(task.test)]
    assert record["scores"] == tidy(score(filled, answers)["scores"])
    assert record["status"] == "ok"
    assert record["error"] is None
    assert -1 < record["entropy_change"] < 1
    assert record["accuracy"] is None
    assert record["device"] == "cpu"
    assert record["seconds"]["total"] >= record["seconds"]["fit"] + record["seconds"]["fill"] > 0
    assert record["surroundings"]["command"] == "megae bench run made"
    assert record["surroundings"]["versions"]["torch"]
    json.dumps(record, allow_nan=False)


def test_what_is_there_is_not_computed_again(tmp_path):
    store = Store(tmp_path)
    first = sweep(trials(), store, progress=False)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*.json")}
    again = sweep(trials(seeds=(0, 1, 2)), store, progress=False)
    assert (first.computed, first.found, again.computed, again.found) == (4, 0, 2, 4)
    assert all(p.stat().st_mtime_ns == t for p, t in before.items())


def test_side_by_side_gives_the_records_of_one_after_the_other(tmp_path):
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    sweep(trials(), one, progress=False)
    sweep(trials(), two, jobs=2, progress=False)
    assert [lasting(r) for r in one.records()] == [lasting(r) for r in two.records()]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("own_ray")
def test_ray_gives_the_same_records(tmp_path):
    one, two = Store(tmp_path / "one"), Store(tmp_path / "two")
    sweep(trials(), one, progress=False)
    sweep(trials(), two, jobs=2, backend="ray", progress=False)
    assert [lasting(r) for r in one.records()] == [lasting(r) for r in two.records()]


def test_a_failing_method_is_recorded_and_the_rest_goes_on(tmp_path, caplog):
    bad = Trial("digits", "mcar", 0.1, 0, "knn", {"n_neighbors": 0})
    store = Store(tmp_path)
    with caplog.at_level(logging.WARNING):
        outcome = sweep([bad, *trials()], store, progress=False)
    assert outcome.computed == 5
    [record] = outcome.errors
    assert record["error"] == "ValueError: n_neighbors must be at least 1, got 0"
    assert store.find(bad)["status"] == "error"
    assert "n_neighbors must be at least 1" in caplog.text
    assert sweep([bad], store, progress=False).computed == 1, "what failed is tried again"


def test_a_process_that_dies_costs_its_own_trial_alone(tmp_path, monkeypatch, caplog):
    def deadly(trial, **options):
        if (trial.method, trial.seed) == ("graph-mean", 0):
            os._exit(1)
        return run_trial(trial, **options)

    monkeypatch.setattr("megae.bench.sweep.run_trial", deadly)
    store = Store(tmp_path)
    with caplog.at_level(logging.WARNING):
        outcome = sweep(trials(), store, jobs=2, progress=False)
    [record] = outcome.errors
    assert outcome.computed == len(list(store.records())) == 4
    assert (record["trial"]["method"], record["trial"]["seed"]) == ("graph-mean", 0)
    assert "the process died" in record["error"]
    monkeypatch.undo()
    assert sweep(trials(), store, progress=False).computed == 1, "what failed is tried again"


def test_progress_tells_count_figure_and_time_left(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())  # lines are for what is no terminal
    with caplog.at_level(logging.INFO):
        sweep(trials(), Store(tmp_path))
    lines = [r.message for r in caplog.records if "left" in r.message]
    assert len(lines) == 4
    assert lines[-1].startswith("4/4 digits mcar 0.1 seed 1: graph-mean: RMSE 0.")
    assert lines[-1].endswith("0:00 left")


@pytest.mark.parametrize("jobs", [1, 2])
def test_time_left_goes_by_what_each_method_took_on_each_dataset(jobs):
    grid = [Trial(d, "mcar", 0.1, seed, m) for seed in (0, 1, 2) for d in ("big", "small") for m in ("slow", "quick")]
    cost = {("big", "slow"): 1000.0, ("big", "quick"): 10.0, ("small", "slow"): 100.0, ("small", "quick"): 1.0}
    teller = _Teller(grid, jobs)
    assert teller.left() == 0

    def take(trial: Trial) -> None:
        teller.done({"key": trial.key, "seconds": {"total": cost[trial.dataset, trial.method]}})

    take(grid[0])
    assert teller.left() == 11 * 1000 / jobs, "nothing else is known"
    take(grid[1])
    assert teller.left() == (5 * 1000 + 5 * 10) / jobs, "each method as on the other dataset"
    for trial in grid[2:4]:
        take(trial)
    assert teller.left() == 2 * 1111 / jobs
    for trial in grid[4:11]:
        take(trial)
    assert teller.left() == 1, "the last one runs by itself"
    take(grid[11])
    assert (teller.left(), teller.count) == (0, 12)


def test_methods_get_the_seed_and_the_settings_of_the_trial():
    imputer = make_method(Trial("digits", "mcar", 0.1, 7, "megae", {"preset": "paper", "bands": 9}), "cpu")
    assert (imputer.random_state, imputer.preset, imputer.bands, imputer.diagnose) == (7, "paper", 9, False)


@pytest.mark.parametrize(
    ("option", "message"), [({"backend": "dask"}, "one of loky, ray"), ({"jobs": 0}, "at least 1")]
)
def test_bad_options_are_refused(tmp_path, option, message):
    with pytest.raises(ValueError, match=message):
        sweep(trials(), Store(tmp_path), **option)


def test_records_name_no_folder_of_the_machine(monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/megae", "bench", "run", "table1", "--results", "/secret/place"])
    assert command_line() == "megae bench run table1 --results place"
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/megae", "bench", "run", "--results=/secret/place", "--set=a=b"])
    assert command_line() == "megae bench run --results=place --set=a=b"
    for module, start in {"megae": "megae", "benchmarks": "python -m benchmarks"}.items():
        spec = SimpleNamespace(name=f"{module}.__main__")
        monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
        monkeypatch.setattr(sys, "argv", [f"/somewhere/{module}/__main__.py", "--full"])
        assert command_line() == f"{start} --full"
    assert "/" not in json.dumps(surroundings()["versions"])


def test_peak_memory_is_that_of_the_block():
    with peak_memory() as small:
        pass
    with peak_memory() as large:
        block = np.ones((32, 1 << 20))  # a quarter GiB
        block += 1
    del block
    with peak_memory() as after:
        pass
    if small.gib is None:
        pytest.skip("this system does not tell the peak of a part of a process's life")
    assert large.gib - max(small.gib, after.gib) > 0.125

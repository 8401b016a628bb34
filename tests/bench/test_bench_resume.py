"""Runs that share a folder: none loses what another measured, a restart changes no figure, and no litter stays."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from megae.bench.running import run_trial
from megae.bench.store import Store
from megae.bench.sweep import sweep
from megae.bench.trials import Trial
from megae.io.atomic import STALE, atomic_path, remove_stale

PLAIN = Trial("digits", "mcar", 0.1, 0, "megae", {"max_steps": 2, "hidden": 4})
ENTROPY = replace(PLAIN, extras=("entropy",))
SPECTRA = replace(PLAIN, extras=("spectra",))


@pytest.fixture(autouse=True)
def few_graphs(monkeypatch):
    from megae.datasets import load_digits_graphs

    monkeypatch.setattr("megae.bench.running.dataset", lambda name, root: tuple(load_digits_graphs()[:30]))


def run(trial: Trial, store: Store) -> int:
    """How many trials a sweep of one computes."""
    return sweep([trial], store, device="cpu", progress=False).computed


def test_experiments_that_share_a_trial_keep_each_others_figures(tmp_path):
    store = Store(tmp_path)
    assert [run(trial, store) for trial in (ENTROPY, SPECTRA)] == [1, 1]
    record = store.find(PLAIN)
    assert record["trial"]["extras"] == ["entropy", "spectra"]
    assert record["entropy_change"] is not None
    assert record["spectra"]["edges"]
    before = store.path(PLAIN).read_bytes()
    assert [run(trial, store) for trial in (ENTROPY, SPECTRA, PLAIN, ENTROPY)] == [0, 0, 0, 0], "nothing alternates"
    assert store.path(PLAIN).read_bytes() == before


def test_a_trial_measured_for_more_has_the_figures_it_had(tmp_path):
    store = Store(tmp_path)
    run(ENTROPY, store)
    first = store.find(ENTROPY)
    run(SPECTRA, store)
    again = store.find(ENTROPY)
    assert [again[k] for k in ("scores", "pairs", "entropy_change")] == [
        first[k] for k in ("scores", "pairs", "entropy_change")
    ]


def test_figures_are_not_replaced_by_an_error(tmp_path, monkeypatch):
    store = Store(tmp_path)
    run(ENTROPY, store)

    def broken(*args):
        raise ValueError("no code to show")

    monkeypatch.setattr("megae.bench.running.spectra", broken)
    outcome = sweep([SPECTRA], store, device="cpu", progress=False)
    assert [record["error"] for record in outcome.errors] == ["ValueError: no code to show"]
    assert store.done(ENTROPY)
    assert store.left(SPECTRA) == replace(PLAIN, extras=("entropy", "spectra")), "it is tried again"


def test_extras_of_a_failed_trial_are_not_asked_for_again(tmp_path):
    store = Store(tmp_path)
    store.write({**run_trial(SPECTRA, device="cpu"), "status": "error"})
    assert store.left(ENTROPY) == ENTROPY


def test_threads_of_a_trial_do_not_depend_on_how_many_are_left(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    store = Store(tmp_path)
    sweep([Trial("digits", "mcar", 0.1, 0, "zero")], store, jobs=2, progress=False)
    assert [record["surroundings"]["threads"] for record in store.records()] == [4]


def litter(store: Store, age: float) -> list:
    """What a run killed while writing leaves, so many seconds ago."""
    folder = store.folder / "digits"
    folder.mkdir(parents=True, exist_ok=True)
    left = [folder / f".zero-{key}.{key[:12]}.tmp.json" for key in ("0123456789abcdef", "fedcba9876543210")]
    for path in left:
        path.write_text('{"trial"')
        os.utime(path, (time.time() - age,) * 2)
    return left


def test_a_run_removes_what_a_killed_one_left(tmp_path):
    store = Store(tmp_path)
    old = litter(store, age=2 * STALE)
    other = [tmp_path / "digits" / name for name in (".zero-1.tmp.json", ".notes.json", "zero.0123456789ab.tmp.json")]
    for path in other:
        path.write_text("{}")
        os.utime(path, (0, 0))
    run(Trial("digits", "mcar", 0.1, 0, "zero"), store)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in other), "it removes what the writer of records made, and nothing else"


def test_a_run_leaves_alone_what_another_is_writing(tmp_path):
    store = Store(tmp_path)
    young = litter(store, age=5)
    run(Trial("digits", "mcar", 0.1, 0, "zero"), store)
    assert all(path.exists() for path in young)


def test_what_is_removed_is_what_the_writer_makes(tmp_path):
    target = tmp_path / ("n" * 120 + ".json")
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        kept = temporary.with_name("copy")
        os.link(temporary, kept)
        name = temporary.name
    os.rename(kept, tmp_path / name)
    remove_stale(tmp_path, age=-60)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]

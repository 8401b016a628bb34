"""Every mechanism that an experiment may name can be run and shown."""

from __future__ import annotations

import pytest

from megae.bench.catalogue import MECHANISMS, read_experiment
from megae.bench.show import render, summarise
from megae.bench.store import Store
from megae.bench.sweep import sweep
from megae.bench.trials import grid
from megae.datasets import load_digits_graphs
from megae.missingness import MECHANISMS as KNOWN


def test_experiments_name_the_mechanisms_there_are():
    assert set(MECHANISMS) == set(KNOWN)


@pytest.mark.parametrize("mechanism", KNOWN)
def test_an_experiment_of_any_mechanism_runs(mechanism, tmp_path, monkeypatch):
    monkeypatch.setattr("megae.bench.running.dataset", lambda name, root: tuple(load_digits_graphs()[:30]))
    rows = [{"label": m, "method": m, "settings": {}, "origin": "ours", "doubt": None} for m in ("zero", "mean")]
    experiment = read_experiment(
        {
            "name": "tiny",
            "title": "A tiny table",
            "kind": "imputation",
            "source": {"file": "none.tex", "label": "tiny"},
            "mechanisms": [mechanism],
            "rates": [0.3],
            "trials": 1,
            "datasets": ["digits"],
            "extras": {},
            "rows": rows,
            "values": [],
            "doubts": ["It is made up."],
        }
    )
    store = Store(tmp_path)
    trials, _ = grid(experiment)
    assert sweep(trials, store, device="cpu", progress=False).errors == []
    assert f"## digits, {mechanism}, 0.3 missing" in render(summarise(experiment, store.records(trials)))

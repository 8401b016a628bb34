"""Trials, their keys, the grid of an experiment, and the store that finds them again."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from megae.bench.catalogue import load_experiment
from megae.bench.protocol import PROTOCOL
from megae.bench.store import Store
from megae.bench.trials import FULL_AT, Trial, grid, narrow

TRIAL = Trial("ENZYMES", "mcar", 0.1, 0, "megae", {"preset": "paper", "bands": 9})


def record(trial: Trial = TRIAL, **more) -> dict:
    return {"trial": trial.to_dict(), "key": trial.key, "protocol": PROTOCOL, "status": "ok", **more}


@pytest.mark.parametrize(
    "other",
    [
        Trial("QM9", "mcar", 0.1, 0, "megae", {"preset": "paper", "bands": 9}),
        Trial("ENZYMES", "mar", 0.1, 0, "megae", {"preset": "paper", "bands": 9}),
        Trial("ENZYMES", "mcar", 0.3, 0, "megae", {"preset": "paper", "bands": 9}),
        Trial("ENZYMES", "mcar", 0.1, 1, "megae", {"preset": "paper", "bands": 9}),
        Trial("ENZYMES", "mcar", 0.1, 0, "gdn", {"preset": "paper", "bands": 9}),
        Trial("ENZYMES", "mcar", 0.1, 0, "megae", {"preset": "paper", "bands": 8}),
    ],
)
def test_the_key_depends_on_everything_the_result_depends_on(other):
    assert other.key != TRIAL.key


def test_the_key_does_not_depend_on_order_or_extras():
    same = Trial("ENZYMES", "mcar", 0.1, 0, "megae", {"bands": 9, "preset": "paper"}, ("entropy",))
    assert same.key == TRIAL.key
    assert Trial.from_dict(json.loads(json.dumps(same.to_dict()))) == same


def test_a_record_is_found_again_and_written_whole(tmp_path):
    store = Store(tmp_path / "deep" / "er")
    assert store.find(TRIAL) is None
    path = store.write(record(scores={"ours": {"rmse": 0.1}}))
    assert store.find(TRIAL)["scores"] == {"ours": {"rmse": 0.1}}
    assert store.done(TRIAL)
    assert list(store.records()) == [json.loads(path.read_text())]
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_write_that_breaks_off_leaves_what_was_there(tmp_path, monkeypatch):
    store = Store(tmp_path)
    store.write(record(scores={"ours": {"rmse": 0.1}}))

    def broken(path, text, **_):
        with path.open("w") as file:
            file.write(text[:20])
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_text", broken)
        with pytest.raises(OSError, match="no space"):
            store.write(record(scores={"ours": {"rmse": 0.2}}))
    assert store.find(TRIAL)["scores"] == {"ours": {"rmse": 0.1}}
    assert len(list(store.folder.rglob("*.*"))) == 1


def test_a_record_without_the_extra_asked_for_does_not_count(tmp_path):
    store, asked = Store(tmp_path), Trial(**{**TRIAL.to_dict(), "extras": ("accuracy",)})
    store.write(record())
    assert store.find(asked) is None
    store.write(record(asked))
    assert store.done(asked)
    assert store.done(TRIAL)


def test_a_failed_trial_is_not_done(tmp_path):
    store = Store(tmp_path)
    store.write(record(status="error"))
    assert store.find(TRIAL) is not None
    assert not store.done(TRIAL)


def test_what_is_no_record_is_refused_by_name(tmp_path):
    store = Store(tmp_path)
    path = store.write(record())
    path.write_text("{")
    with pytest.raises(ValueError, match=r"megae-.*json is not a record"):
        store.find(TRIAL)
    path.write_text(json.dumps(record() | {"protocol": 0}))
    with pytest.raises(ValueError, match="protocol 0"):
        store.find(TRIAL)
    path.write_text(json.dumps(record() | {"key": "0" * 16}))
    with pytest.raises(ValueError, match="another trial"):
        store.find(TRIAL)


@pytest.mark.skipif(os.name != "posix" or os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OSError):
        Store(tmp_path).write(record())


def test_a_folder_is_probed_where_records_go_and_nothing_is_left_there(tmp_path):
    store = Store(tmp_path / "deep" / "er")
    store.prepare([TRIAL])
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        *("deep", "deep/er", "deep/er/ENZYMES"),
    ]
    (tmp_path / "QM9").touch()
    Store(tmp_path).prepare([TRIAL])
    with pytest.raises(ValueError, match=r"records cannot be kept in .*QM9 \(File exists\); name a folder that can be"):
        Store(tmp_path).prepare([TRIAL, replace(TRIAL, dataset="QM9")])


def test_grid_runs_seeds_outermost_and_names_what_is_missing():
    part = narrow(load_experiment("table1"), datasets=["QM9", "Synthie"], methods=["mean", "megae", "GRAPE"], trials=2)
    trials, left_out = grid(part, known=["mean", "megae"])
    assert left_out == ["GRAPE"]
    assert [t.seed for t in trials] == [0] * 6 + [1] * 6
    assert {(t.dataset, t.method) for t in trials} == {(d, m) for d in ("QM9", "Synthie") for m in ("mean", "megae")}
    assert len({t.key for t in trials}) == len(trials)


def test_tables_4_and_5_share_trials_with_table_1():
    one, five = (grid(narrow(load_experiment(n), datasets=["QM9"]))[0] for n in ("table1", "table5"))
    assert {t.key for t in five} & {t.key for t in one}


def test_complete_features_are_computed_once_for_all_rates():
    trials, _ = grid(narrow(load_experiment("table9"), datasets=["Cora"], methods=["full"], trials=3))
    assert [(t.mechanism, t.rate) for t in trials] == [FULL_AT] * 3


def test_classifiers_and_complete_features_need_an_accuracy_to_measure():
    part = narrow(load_experiment("table9"), accuracy=False)
    assert {"full", "gcnmf"} & {row.method for row in part.rows}
    assert not {"full", "gcnmf", "pagnn"} & {t.method for t in grid(part)[0]}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"datasets": ["Zen"]}, "no dataset 'Zen'; choose among ENZYMES"),
        ({"methods": ["meen"]}, "no method 'meen'; choose among graph-mean"),
        ({"rates": [0.2]}, "no rate 0.2"),
        ({"trials": 0}, "at least 1"),
    ],
)
def test_parts_that_are_not_there_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        narrow(load_experiment("table1"), **options)

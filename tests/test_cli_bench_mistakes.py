"""``megae bench`` on bad input: one sentence that says what to do, and no file of the user's is touched."""

from __future__ import annotations

import subprocess
import sys

import pytest

from megae.bench import running
from megae.bench.trials import Trial
from megae.cli import main
from megae.commands.bench import _settings
from megae.commands.common import check_journal

TUNE = ["bench", "tune", "digits", "--trials", "1", "--device", "cpu"]


def refused(args: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    """The one line that a refusal prints."""
    assert main(args) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("megae: error: ")
    assert captured.err.count("\n") == 1, captured.err
    return captured.err


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("foo=1", "MEGAE has no setting named 'foo'; it has "),
        ("bands=7", "--set bands: the search chooses bands, gamma, learning_rate by itself; leave it out"),
        ("time_budget=soon", "time_budget must be a number of seconds above 0, or None for no limit, got 'soon'"),
    ],
)
def test_a_bad_setting_of_a_search_gets_one_sentence(setting, message, tmp_path, capfd):
    pytest.importorskip("optuna")
    study = tmp_path / "study.log"
    assert message in refused([*TUNE, "--study", str(study), "--set", setting], capfd)


def test_a_search_that_fails_prints_one_sentence_and_no_traceback(tmp_path):
    pytest.importorskip("optuna")
    command = [sys.executable, "-m", "megae", *TUNE, "--study", str(tmp_path / "study.log"), "--set", "max_steps=abc"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2
    assert done.stderr == "megae: error: max_steps must be an integer and at least 1, got 'abc'\n"


def test_a_search_goes_on_once_its_settings_are_right(tmp_path, capfd):
    pytest.importorskip("optuna")
    args = [*TUNE, "--study", str(tmp_path / "study.log"), "--set", "hidden=4"]
    assert "max_steps must be" in refused([*args, "--set", "max_steps=0"], capfd)
    assert main([*args, "--set", "max_steps=1"]) == 0


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "a,b", '{"key": 1}\n', "3\n", "\x00\xff"])
def test_a_file_that_is_no_study_is_named_and_left_alone(text, tmp_path, capfd):
    pytest.importorskip("optuna")
    file = tmp_path / "some.csv"
    file.write_text(text)
    told = refused([*TUNE, "--study", str(file), "--set", "max_steps=1"], capfd)
    assert f"{file} is not the journal of a search; name a new file" in told
    assert file.read_text() == text


def test_a_damaged_study_is_named(tmp_path, capfd):
    pytest.importorskip("optuna")
    file = tmp_path / "study.log"
    args = [*TUNE, "--study", str(file), "--set", "max_steps=1", "--set", "hidden=4"]
    assert main([*args, "--quiet"]) == 0
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], lines[2][:20], *lines[3:], ""]))
    assert f"{file} is damaged" in refused(args, capfd)


@pytest.mark.parametrize(
    ("text", "value"),
    [("False", False), ("false", False), ("True", True), ("None", None), ("null", None), ("3", 3), ("soft", "soft")],
)
def test_settings_are_read_as_a_python_user_writes_them(text, value):
    assert _settings([f"name={text}"]) == {"name": value}


@pytest.mark.parametrize("command", ["run", "show"])
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--datasets", "--datasets names no dataset; separate them by commas, as in --datasets ENZYMES,QM9"),
        ("--methods", "--methods names no method"),
        ("--rates", "--rates names no rate"),
    ],
)
def test_a_list_of_nothing_is_refused_as_such(command, option, message, tmp_path, capfd):
    args = ["bench", command, "table1", option, " , ", "--results", str(tmp_path / "new")]
    assert message in refused(args, capfd)
    assert not (tmp_path / "new").exists()


def test_a_damaged_dataset_is_refused_before_any_trial(tmp_path, capfd):
    (tmp_path / "ENZYMES").mkdir()
    (tmp_path / "ENZYMES" / "ENZYMES.zip").write_bytes(b"PK nothing")
    args = ["bench", "run", "table1", "--datasets", "ENZYMES", "--methods", "mean", "--trials", "1"]
    told = refused([*args, "--root", str(tmp_path), "--results", str(tmp_path / "records")], capfd)
    assert "ENZYMES.zip is not a whole zip file" in told
    assert "remove the file, then: megae data get ENZYMES" in told
    assert not (tmp_path / "records").exists()


def test_a_setting_no_method_has_is_told_with_those_there_are(capfd):
    args = ["bench", "run", "table1", "--datasets", "ENZYMES", "--methods", "KNN", "--set", "foo=3"]
    told = refused(args, capfd)
    assert "no method of this run has a setting named 'foo'; they have " in told
    assert "n_neighbors" in told


RUN = ["bench", "run", "table1", "--datasets", "Synthie", "--trials", "2", "--device", "cpu"]


@pytest.fixture
def nothing_runs(monkeypatch):
    """Datasets count as here, and no trial may begin."""

    def begun(*args, **options):
        raise AssertionError("a trial has begun")

    monkeypatch.setattr("megae.commands.bench._with_data", lambda part, root, refuse: (part, []))
    monkeypatch.setattr("megae.bench.running.measure", begun)
    monkeypatch.setattr("megae.bench.sweep.run_trial", begun)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("methods", "setting", "message"),
    [
        ("MEGAE,zero", "max_steps=soon", "for megae: max_steps must be an integer and at least 1, got 'soon'"),
        ("MEGAE", "time_budget=0", "for megae: time_budget must be a number of seconds above 0"),
        ("KNN,zero", "n_neighbors=0", "--set n_neighbors=0 does not do for knn: n_neighbors must be at least 1, got 0"),
        ("KNN", "weights=[1]", "for knn: weights must be 'uniform' or 'distance', got [1]"),
        ("MEGAE", "max_steps=", "--set max_steps= has no value; write it behind the sign"),
        ("MEGAE", "gamma=NaN", "--set gamma=NaN is not a finite number"),
        ("MEGAE", "gamma=1e999", "--set gamma=1e999 is not a finite number"),
        ("MEGAE", "frame={a", "--set frame={a cannot be read"),
    ],
)
def test_settings_are_refused_before_the_first_trial(methods, setting, message, tmp_path, capfd):
    folder = tmp_path / "records"
    told = refused([*RUN, "--methods", methods, "--set", setting, "--results", str(folder)], capfd)
    assert message in told
    assert not folder.exists()


@pytest.mark.usefixtures("nothing_runs")
def test_settings_of_classifiers_are_refused_too(tmp_path, capfd):
    args = ["bench", "run", "table9", "--datasets", "Cora", "--methods", "gcnmf", "--trials", "1"]
    told = refused([*args, "--set", "hidden=0", "--results", str(tmp_path / "records")], capfd)
    assert "--set hidden=0 does not do for gcnmf: hidden must be at least 1, got 0" in told


def test_each_method_is_tried_once_and_good_settings_pass(monkeypatch):
    tried = []
    real = running._refusal
    monkeypatch.setattr(running, "_refusal", lambda trial, single: tried.append(trial.method) or real(trial, single))
    trials = [
        Trial(dataset, "mcar", 0.1, seed, method, {"n_neighbors": 3} if method == "knn" else {})
        for dataset in ("QM9", "Synthie")
        for seed in range(3)
        for method in ("knn", "zero")
    ]
    running.check_settings(trials, {"n_neighbors": 3})
    assert tried == ["knn"], "what has none of the settings is not tried"


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("place", ["/proc/x", "file", "file/deeper"])
def test_a_folder_that_cannot_hold_records_is_refused_before_the_first_trial(place, tmp_path, capfd):
    (tmp_path / "file").touch()
    told = refused([*RUN, "--methods", "zero", "--results", str(tmp_path / place)], capfd)
    assert f"records cannot be kept in {tmp_path / place / 'Synthie'} (" in told
    assert "name a folder that can be written to (--results on the command line)" in told


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ("/", "--study / is a folder; name a file in it, such as /megae-tune.log"),
        ("/proc/x/study.log", "--study /proc/x/study.log cannot be written to ("),
        ("/proc/study.log", "--study: cannot write into the folder /proc ("),
    ],
)
def test_a_study_that_cannot_be_kept_is_refused_before_the_search(study, message, monkeypatch, capfd):
    def begun(*args, **options):
        raise AssertionError("the search has begun")

    monkeypatch.setattr("megae.bench.tuning.search", begun)
    assert message in refused([*TUNE, "--study", study], capfd)


def test_a_probed_study_leaves_nothing_behind(tmp_path):
    check_journal("--study", tmp_path / "new" / "study.log")
    assert [path.name for path in tmp_path.rglob("*")] == ["new"]

"""``megae bench`` on bad input: one sentence that says what to do, and no file of the user's is touched."""

from __future__ import annotations

import subprocess
import sys

import pytest

from megae.cli import main
from megae.commands.bench import _settings

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

"""``megae bench`` as a user types it; killed half way, it comes to the same records."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from megae.bench.methods import describe_methods
from megae.cli import main
from megae.imputers import REGISTRY

ROOT = Path(__file__).parents[1]
VOLATILE = ("seconds", "peak_memory_gib", "peak_gpu_gib", "surroundings")
REDUCED = [
    *("bench", "run", "table1", "--datasets", "QM9,Synthie", "--methods", "MEAN,KNN,feature-propagation,MEGAE"),
    *("--trials", "2", "--jobs", "2", "--set", "max_steps=30", "--device", "cpu"),
]


def lasting(folder: Path) -> dict[str, dict]:
    """Every record of a folder without what differs from run to run; a dot marks a file still being written."""
    out = {}
    for path in sorted(folder.glob("*/[!.]*.json")):
        record = json.loads(path.read_text())
        out[path.name] = {k: v for k, v in record.items() if k not in VOLATILE}
    return out


KILLED = """
import os, signal, sys
from megae.bench.store import Store
from megae.cli import main

write, written = Store.write, []

def last_words(*args):
    path = write(*args)
    written.append(path)
    if len(written) == 6:
        os.killpg(0, signal.SIGKILL)
    return path

Store.write = last_words
sys.exit(main(sys.argv[1:]))
"""
"""``megae`` that dies with all its processes at the sixth record, while others are being computed."""


def run_reduced(folder: Path, *program: str) -> int:
    """Exit code of the reduced run in a session of its own, of which nothing is left behind."""
    command = [sys.executable, *program, *REDUCED, "--results", str(folder)]
    with (folder.parent / "errors").open("a") as errors:
        process = subprocess.Popen(command, stderr=errors, stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            return process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def cpu_seconds() -> float:
    """What the processes started from here have computed, once they were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.data("QM9", "Synthie")
def test_a_reduced_table1_killed_half_way_comes_to_the_same_records(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    before = cpu_seconds()
    assert run_reduced(whole, "-m", "megae") == 0, (tmp_path / "errors").read_text()
    assert cpu_seconds() - before < 2 * 240, "four minutes of two cores"
    expected = lasting(whole)
    assert len(expected) == 16
    assert all(record["status"] == "ok" for record in expected.values())

    assert run_reduced(broken, "-c", KILLED) == -signal.SIGKILL, (tmp_path / "errors").read_text()
    left = {path: path.read_bytes() for path in broken.rglob("*") if path.is_file()}
    assert len(left) == len(lasting(broken)) == 6
    assert run_reduced(broken, "-m", "megae") == 0, (tmp_path / "errors").read_text()
    assert lasting(broken) == expected
    assert {path: path.read_bytes() for path in left} == left, "what was there is not computed again"


@pytest.fixture
def shown(tmp_path, capsys):
    """A small experiment run into a folder."""
    folder = tmp_path / "records"
    args = ["table1", "--datasets", "QM9", "--methods", "MEAN,zero", "--trials", "2", "--results", str(folder)]
    assert main(["bench", "run", *args, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["computed"], result["found"], result["errors"]) == (4, 0, [])
    return args


@pytest.mark.data("QM9")
def test_show_puts_the_paper_beside_ours(shown, capsys, tmp_path):
    assert main(["bench", "show", *shown]) == 0
    text = capsys.readouterr().out
    assert "0.2983" in text
    assert "MEAN" in text
    page = tmp_path / "page.html"
    assert main(["bench", "show", *shown, "--format", "html", "--out", str(page)]) == 0
    assert page.read_text().startswith("<!doctype html>")
    assert main(["bench", "show", *shown, "--format", "html", "--out", str(page)]) == 2, "nothing is overwritten"
    assert main(["bench", "show", *shown, "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith("row,method,dataset")


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "results").glob("*.md")), ids=lambda page: page.stem)
def test_pages_of_results_are_what_show_writes(page, capsys):
    assert main(["bench", "show", page.stem, "--results", str(ROOT / "benchmarks" / "results" / "records")]) == 0
    assert capsys.readouterr().out == page.read_text(encoding="utf-8")


@pytest.mark.data("QM9")
def test_settings_keep_trials_apart(shown, capsys):
    assert main(["bench", "run", *shown, "--set", "clip=true"]) == 0
    told = capsys.readouterr().out
    assert "4 trials computed" in told
    [_, hint] = told.splitlines()[-1].split("Now: megae ")
    assert hint.endswith("--set clip=true"), "the next command finds what was run"
    assert main(shlex.split(hint)) == 0
    page = capsys.readouterr().out
    assert "with clip=true" in page.splitlines()[0]
    assert "not run" not in page, "and shows no more than that"
    assert main(["bench", "show", *shown, "--set", "clip=false"]) == 2
    assert "with these options" in capsys.readouterr().err


@pytest.mark.data("QM9")
def test_failed_trials_are_told_and_change_the_exit_code(tmp_path, capsys):
    args = ["bench", "run", "table1", "--datasets", "QM9", "--methods", "KNN,zero", "--trials", "1"]
    args += ["--results", str(tmp_path), "--set", "n_neighbors=0", "--json"]
    assert main(args) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["errors"] == ["knn on QM9: ValueError: n_neighbors must be at least 1, got 0"]
    assert "n_neighbors must be at least 1" in captured.err
    assert "Traceback" not in captured.err


def test_list_names_experiments_and_methods(capsys):
    assert main(["bench", "list"]) == 0
    text = capsys.readouterr().out
    assert "table1" in text
    assert "feature-propagation" in text
    assert main(["bench", "list", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {m["kind"] for m in result["methods"]} == {"statistical", "learning", "graph"}
    assert [m["name"] for m in result["methods"]] == list(REGISTRY)


@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_method_has_a_measured_cost(name):
    [cost] = [m["cost"] for m in describe_methods() if m["name"] == name]
    if cost["seconds"] is None:
        assert cost["error"] == f"over {cost['measured']['limit']:g} s", "a method that fails has no cost"
    else:
        assert 0 < cost["seconds"] < cost["measured"]["limit"]
        assert 0.1 < cost["gib"] < 8
    assert f"--methods {name}" in cost["measured"]["command"] or "--methods" not in cost["measured"]["command"]
    assert {"device", "threads", "jobs", "limit", "clock", "gpu", "versions"} <= cost["measured"].keys()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["run", "tabel1"], "table1"),
        (["run", "table1", "--datasets", "ENZIMES"], "no dataset 'ENZIMES'"),
        (["run", "table1", "--methods", "magic"], "no method 'magic'"),
        (["run", "table1", "--datasets", "QM9", "--set", "steps"], "--set takes NAME=VALUE"),
        (
            ["run", "table1", "--datasets", "QM9", "--set", "stepz=3"],
            "no method of this run has a setting named 'stepz'",
        ),
        (["run", "table8", "--rates", "often"], "--rates takes numbers"),
        (["tune", "digits", "--preset", "papr"], "'papr' is not one of 'default', 'paper'"),
        (["tune", "digitz"], "unknown dataset 'digitz'"),
        (["show", "table1", "--results", "nowhere"], "first: megae bench run table1"),
    ],
)
def test_mistakes_get_a_sentence(args, message, capsys):
    assert main(["bench", *args]) == 2
    assert message in capsys.readouterr().err


def test_a_set_that_is_not_here_is_refused_by_name(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MEGAE_OFFLINE", "1")
    assert main(["bench", "run", "table1", "--datasets", "FRANKENSTEIN", "--root", str(tmp_path)]) == 2
    assert "put FRANKENSTEIN.zip" in capsys.readouterr().err


@pytest.mark.slow
def test_tune_searches_on_validation_and_goes_on_from_its_journal(tmp_path, capsys):
    args = ["bench", "tune", "digits", "--study", str(tmp_path / "study.log"), "--json", "--device", "cpu"]
    args += ["--set", "max_steps=2", "--set", "hidden=8"]
    assert main([*args, "--trials", "2"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["trials"] == 2
    assert 3 <= first["settings"]["bands"] <= 20
    assert 0.01 <= first["settings"]["gamma"] <= 10
    assert main([*args, "--trials", "3"]) == 0
    more = json.loads(capsys.readouterr().out)
    assert more["trials"] == 3
    assert more["rmse"] <= first["rmse"]
    assert main([*args, "--trials", "3", "--rate", "0.2"]) == 2
    assert "another search" in capsys.readouterr().err

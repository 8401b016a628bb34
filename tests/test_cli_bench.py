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
import time
from dataclasses import replace
from pathlib import Path

import pytest

from megae.bench.catalogue import load_experiment
from megae.bench.methods import describe_methods
from megae.bench.running import measure
from megae.cli import main
from megae.commands.bench import _part
from megae.datasets import CATALOGUE
from megae.downstream import CLASSIFIERS
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


def idle_share(before: list[int]) -> float:
    """Share of all cores' time in which nothing ran on this machine since ``before``, see :func:`ticks`."""
    passed = [now - then for now, then in zip(ticks(), before, strict=True)]
    return (passed[3] + passed[4]) / max(1, sum(passed))


def ticks() -> list[int]:
    """Time of all cores since the start: user, nice, system, idle, waiting for disks, ..., stolen."""
    return [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.data("QM9", "Synthie")
def test_a_reduced_table1_killed_half_way_comes_to_the_same_records(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    before, start, stood = cpu_seconds(), time.monotonic(), ticks()
    assert run_reduced(whole, "-m", "megae") == 0, (tmp_path / "errors").read_text()
    used, wall = cpu_seconds() - before, time.monotonic() - start
    assert used < 2 * 240, "four minutes of two cores"
    idle = 2 * wall * idle_share(stood)
    assert wall < 240 or used + idle < 2 * 240, "four minutes, unless others had the cores: idling is its own fault"
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
    assert main(["bench", "show", *shown, "--out", str(tmp_path / "b.html")]) == 0
    assert (tmp_path / "b.html").read_text() == page.read_text(), "the ending says how it is written"
    assert main(["bench", "show", *shown, "--format", "csv", "--out", str(tmp_path / "c.html")]) == 2
    assert "does not fit the ending" in capsys.readouterr().err
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
def test_failed_trials_are_told_and_change_the_exit_code(tmp_path, capsys, monkeypatch):
    def unlucky(trial, graphs, device):
        if trial.method == "knn":
            raise ValueError("not today")
        return measure(trial, graphs, device)

    monkeypatch.setattr("megae.bench.running.measure", unlucky)
    args = ["bench", "run", "table1", "--datasets", "QM9", "--methods", "KNN,zero", "--trials", "1"]
    assert main([*args, "--results", str(tmp_path), "--json"]) == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["errors"] == ["knn on QM9: ValueError: not today"]
    assert "not today" in captured.err
    assert "Traceback" not in captured.err


def test_list_names_experiments_and_methods(capsys):
    assert main(["bench", "list"]) == 0
    text = capsys.readouterr().out
    assert "table1" in text
    assert "feature-propagation" in text
    assert main(["bench", "list", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    kinds = {m["name"]: m["kind"] for m in result["methods"]}
    assert list(kinds) == [*REGISTRY, "gcnmf", "pagnn"]
    assert set(kinds.values()) == {"statistical", "learning", "graph", "classifier"}
    assert {kind for name, kind in kinds.items() if name in CLASSIFIERS} == {"classifier"}
    assert {name for name, kind in kinds.items() if kind == "graph"} == {n for n in REGISTRY if REGISTRY[n]._uses_graph}
    assert all(name in text for name in kinds)


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
    told = capsys.readouterr().err
    assert "put FRANKENSTEIN.zip" in told
    assert "MEGAE_OFFLINE is set" in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("quiet", [False, True])
def test_a_download_before_the_first_trial_is_told(tmp_path, capsys, monkeypatch, quiet):
    monkeypatch.delenv("MEGAE_OFFLINE", raising=False)
    known = CATALOGUE["FRANKENSTEIN"]
    [variant] = known.variants
    file = replace(variant.files[0], url="http://127.0.0.1:9/FRANKENSTEIN.zip")
    monkeypatch.setitem(CATALOGUE, known.name, replace(known, variants=(replace(variant, files=(file,)),)))
    args = ["bench", "run", "table1", "--datasets", known.name, "--root", str(tmp_path)]
    assert main([*args, *(["--quiet"] if quiet else [])]) == 2
    *told, refusal = capsys.readouterr().err.splitlines()
    assert told == ([] if quiet else ["megae: downloading http://127.0.0.1:9/FRANKENSTEIN.zip"])
    assert "could not be reached" in refusal


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Ours, M = 3", ["Ours, M = 3"]),
        ("Ours,M = 12,SGWT, M = 3", ["SGWT, M = 3", "Ours, M = 12"]),
        ("megae", None),
    ],
)
def test_rows_whose_label_has_a_comma_can_be_chosen(text, wanted):
    rows = _part("figure4", None, text, None, None, None, accuracy=True).rows
    every = [row.label for row in load_experiment("figure4").rows]
    assert sorted(row.label for row in rows) == sorted(every if wanted is None else wanted)


def test_a_part_of_a_label_is_no_row():
    with pytest.raises(ValueError, match="figure4 has no method 'Ours'; choose among megae, or a row by its label"):
        _part("figure4", None, "Ours,megae", None, None, None, accuracy=True)


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

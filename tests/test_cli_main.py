from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from megae import cli
from megae.cli import main
from megae.commands.common import make_imputer
from megae.graphs import adjacency
from megae.io.errors import InputError

PACKAGE = Path(cli.__file__).parent


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("megae ")


def test_help_lists_the_commands_and_no_others(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    listed = [line.split()[0] for line in out.split("Commands:")[1].splitlines() if line.strip()]
    assert sorted(listed) == ["bench", "compare", "data", "demo", "impute", "spectrum"]


@pytest.mark.parametrize("command", ["compare", "demo", "impute", "spectrum"])
def test_every_command_explains_itself_and_has_json(capsys, command):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--json" in out
    assert "--force" in out


@pytest.mark.parametrize(
    ("given", "command"),
    [(["nonsense"], "megae"), (["bench", "run"], "megae bench run"), (["data", "get", "--what"], "megae data get")],
)
def test_a_wrong_call_is_sent_to_the_help_of_its_own_command(capsys, given, command):
    assert main(given) == 2
    assert f"({command} --help lists what there is)" in capsys.readouterr().err


def test_no_arguments_shows_help_and_is_no_success(capsys):
    assert main([]) == 2
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize(
    "args", [["fill"], ["impute"], ["impute", "--nope"], ["impute", "n.csv", "--out", "o.csv", "--seed", "x"]]
)
def test_wrong_usage_is_bad_input(capsys, args):
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("megae: error: ")
    assert captured.err.count("\n") == 1
    assert main([*args, "--json"]) == 2
    captured = capsys.readouterr()
    assert set(json.loads(captured.out)) == {"error"}


def _fail_with(monkeypatch, error: BaseException) -> list[str]:
    def run(*args, **kw):
        raise error

    monkeypatch.setattr("megae.demo.run_demo", run)
    return ["demo", "--json"]


def test_internal_error_is_one_with_traceback(capsys, monkeypatch):
    assert main(_fail_with(monkeypatch, RuntimeError("broken inside"))) == 1
    captured = capsys.readouterr()
    assert "Traceback" in captured.err
    assert "broken inside" in json.loads(captured.out)["error"]


def test_interrupt_is_130(capsys, monkeypatch):
    assert main(_fail_with(monkeypatch, KeyboardInterrupt())) == 130


def test_input_and_system_errors_are_bad_input(capsys, monkeypatch):
    assert main(_fail_with(monkeypatch, InputError("the folder\nis odd"))) == 2
    captured = capsys.readouterr()
    assert captured.err == "megae: error: the folder is odd\n"
    assert json.loads(captured.out) == {"error": "the folder is odd"}
    assert main(_fail_with(monkeypatch, PermissionError(13, "Permission denied", "x.csv"))) == 2
    assert "x.csv: Permission denied; choose" in capsys.readouterr().err


def _check_in_a_context() -> None:
    with contextlib.suppress(KeyError), contextlib.ExitStack():
        adjacency(np.zeros((3, 3, 3)), 3)


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (lambda: adjacency(np.zeros((3, 3, 3)), 3), 2),
        (_check_in_a_context, 2),
        (lambda: make_imputer("mean", {}, {}).fit([[float("inf")]]), 2),
        (lambda: float("urban"), 1),
        (lambda: pd.Series(["urban"]).to_numpy(dtype=float), 1),
        (lambda: np.linalg.inv(np.zeros((2, 2))), 1),
        (lambda: b"\xff".decode(), 1),
        (lambda: json.loads("{"), 1),
        (lambda: np.ones(2) + np.ones(3), 1),
    ],
)
def test_bad_input_is_what_megae_says_in_its_own_words(capsys, monkeypatch, cause, code):
    monkeypatch.setattr("megae.demo.run_demo", lambda *a, **k: cause())
    assert main(["demo", "--json"]) == code
    captured = capsys.readouterr()
    assert ("Traceback" in captured.err) == (code == 1)
    assert set(json.loads(captured.out)) == {"error"}


def test_debugging_shows_where_a_refusal_comes_from(capsys, monkeypatch):
    monkeypatch.setenv("MEGAE_DEBUG", "1")
    assert main(_fail_with(monkeypatch, InputError("the folder is odd"))) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["impute", "spectrum"])
def test_a_second_file_is_taken_for_one_of_edges(capsys, command):
    assert main([command, "a.csv", "b.csv", "--out", "o.csv"]) == 2
    assert "for a file of edges write --edges b.csv" in capsys.readouterr().err
    assert main([command, "a.csv", "b.csv", "--out", "o.csv", "--edges", "e.csv"]) == 2
    assert "b.csv" in (err := capsys.readouterr().err)
    assert "--edges b.csv" not in err


def test_demo_prints_the_result_and_only_json(capsys, monkeypatch):
    def run(out_dir, **options):
        print("stray output of a library")
        return {"out": str(out_dir), **options, "rows": [{"method": "megae", "rmse": float("nan")}]}

    monkeypatch.setattr("megae.demo.run_demo", run)
    assert main(["demo", "--json", "--seed", "3", "--out", "here", "--device", "cpu"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["out"], result["seed"], result["device"], result["verbose"]) == ("here", 3, "cpu", 0)
    assert result["rows"] == [{"method": "megae", "rmse": None}]


def test_the_command_line_itself_loads_nothing_heavy():
    code = (
        "import sys, types; package = types.ModuleType('megae'); package.__path__ = [sys.argv[1]]; "
        "sys.modules['megae'] = package; from megae.cli import main; main(['impute', '--help']); "
        "heavy = {'torch', 'pandas', 'sklearn', 'matplotlib', 'pyarrow', 'networkx', 'scipy'}; "
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--edges" in done.stdout
    assert "HEAVY []" in done.stdout


def test_module_and_script_share_the_entry_point():
    assert cli.app.info.name == "megae"
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", "megae", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0
    assert done.stdout.startswith("megae ")

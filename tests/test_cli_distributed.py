"""``megae impute`` under torchrun: one file, one voice, one message."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from torch.distributed.run import get_args_parser

from megae import cli

ROOT = Path(cli.__file__).parents[1]
STATES = ROOT / "examples" / "us_states"
INPUT = [str(STATES / "nodes.csv"), "--edges", str(STATES / "edges.csv")]
QUICK = ["--device", "cpu", "--max-steps", "4", "--columns", "1929,1930,1931"]


PATIENT = """
import sys
from megae.cli import main
from megae.commands import launch

launch._PATIENCE = 300.0
sys.exit(main(sys.argv[1:]))
"""
"""``megae`` in which a process waits for as long as a busy machine may take to let the first one speak."""


ALONE_AT_LAST = """
import pathlib, sys
from megae.cli import main

code = main(sys.argv[1:])
threads = [(task / "comm").read_text().strip() for task in pathlib.Path("/proc/self/task").glob("*")]
left = [name for name in threads if "gloo" in name]
sys.exit(f"threads of the group are left: {left}" if left else code)
"""
"""``megae`` that fails where a thread of the group outlives the command; where there is no ``/proc``, none is seen."""


def torchrun(folder: Path, *args: str, program: tuple[str, ...] = ("-m", "megae")) -> subprocess.CompletedProcess[str]:
    """Two processes on this machine; torchrun finds a free port by itself."""
    here = ["--standalone", "--local-addr", "localhost", "--nproc-per-node", "2"]  # its own name may not resolve
    torch = [sys.executable, "-m", "torch.distributed.run", *here, *program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*torch, *args], cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False
    )


@pytest.mark.slow
def test_two_processes_write_one_file_and_speak_with_one_voice(tmp_path):
    outputs = ("--out", "filled.csv", "--save-model", "states.model")
    watched = ("--no-python", sys.executable, "-c", ALONE_AT_LAST)
    done = torchrun(tmp_path, "impute", *INPUT, *QUICK, *outputs, program=watched)
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["filled.csv", "states.model"]
    assert done.stdout.count("filled 35 holes") == 1
    assert done.stdout.count("wrote filled.csv") == 1
    assert len(re.findall(r"megae: megae step 1/4 ", done.stderr)) == 1
    assert "process 1" not in done.stderr
    before, after = pd.read_csv(STATES / "nodes.csv"), pd.read_csv(tmp_path / "filled.csv")
    filled = ["1929", "1930", "1931"]
    assert after[filled].notna().all().all()
    seen = before[filled].notna()
    assert (after[filled].where(seen) == before[filled])[seen].sum().sum() == seen.sum().sum()


@pytest.mark.slow
def test_a_bad_input_ends_both_with_one_message(tmp_path):
    patient = ("--no-python", sys.executable, "-c", PATIENT)
    done = torchrun(tmp_path, "impute", "nowhere.csv", "--out", "o.csv", program=patient)
    assert done.returncode != 0
    assert done.stderr.count("megae: error:") == 1
    assert "nowhere.csv does not exist" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_cannot_be_shared_is_done_once(tmp_path):
    done = torchrun(tmp_path, "impute", *INPUT, "--method", "mean", "--out", "o.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("wrote o.csv") == 1


def test_the_commands_of_the_docs_have_options_that_exist():
    page = (ROOT / "docs" / "distributed.md").read_text(encoding="utf-8")
    shown = re.findall(r"^torchrun (.*) -m megae (.*)$", page, re.MULTILINE)
    assert len(shown) == 3
    assert any("--nnodes 2 --node-rank 1" in launch for launch, _ in shown)
    for launch, command in shown:
        parsed = get_args_parser().parse_args([*launch.split(), "-m", "megae"])
        assert parsed.nproc_per_node in ("2", "4")
        name, *args = shlex.split(command)
        typer.main.get_command(cli.app).commands[name].make_context(name, args)


def test_any_other_command_runs_in_the_first_process_alone(monkeypatch, capsys):
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    for rank, said in (("0", "megae "), ("1", "")):
        monkeypatch.setenv("RANK", rank)
        assert cli.main(["--version"]) == 0
        assert capsys.readouterr().out.startswith(said)
        assert bool(said) or capsys.readouterr().out == ""

"""Bad input: refused with code 2, one line that says what to do, nothing written, nothing lost."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from megae import cli
from megae.cli import main

ROOT = str(Path(cli.__file__).parents[1])
GOOD_NODES = "id,x,y\nn1,1.5,1\nn2,,2\nn3,2.5,3\n"
GOOD_EDGES = "source,target\nn1,n2\nn2,n3\n"
USUAL = ["nodes.csv", "--edges", "edges.csv", "--out", "o.csv", "--method", "mean"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_text(GOOD_NODES)
    (tmp_path / "edges.csv").write_text(GOOD_EDGES)
    return tmp_path


def snapshot(folder):
    return {p.name: p.read_bytes() if p.is_file() else None for p in folder.iterdir()}


def refused(folder, capsys, args, *parts):
    """Run, expect a refusal that says all `parts`, twice: for people and for machines."""
    before = snapshot(folder)
    assert main(["impute", *args]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("megae: error: ")
    for part in parts:
        assert part in lines[0]
    assert main(["impute", *args, "--json"]) == 2
    captured = capsys.readouterr()
    assert f"megae: error: {json.loads(captured.out)['error']}" == lines[0]
    assert snapshot(folder) == before


@pytest.mark.parametrize(
    ("nodes", "edges", "parts"),
    [
        (None, GOOD_EDGES, ["nodes.csv does not exist", "check the name"]),
        (GOOD_NODES, None, ["edges.csv does not exist"]),
        (
            GOOD_NODES,
            GOOD_EDGES + "n1,n93\n",
            ["edges.csv line 4: node 'n93' is not in nodes.csv; add it there or pass --drop-unknown"],
        ),
        ("id,x\nn1,1\nn2,2\nn3,\nn1,4\n", GOOD_EDGES, ["nodes.csv line 5", "'n1' occurs twice", "own id"]),
        ("id,x\nn1,1\nn2,abc\nn3,\n", GOOD_EDGES, ["nodes.csv line 3", "column 'x'", "'abc'", "--columns"]),
        ("id,x\nn1,1\nn2,inf\nn3,\n", GOOD_EDGES, ["nodes.csv line 3", "column 'x'", "infinite", "finite n"]),
        ("id,x\nn1,1\nn2,-1e300\nn3,\n", GOOD_EDGES, ["nodes.csv line 3", "column 'x'", "'-1e300' is too large"]),
        (GOOD_NODES, "s,t,w\nn1,n2,1\nn2,n3,-0.5\n", ["edges.csv line 3", "-0.5 is negative", "0 or more"]),
        ("id,x,y\nn1,,\nn2,NA,\nn3,,?\n", GOOD_EDGES, ["nodes.csv is all holes", "needs some known values"]),
        ("id,x\nn1,1,2\nn2,2\nn3,\n", GOOD_EDGES, ["nodes.csv line 2: 3 cells", "2 columns"]),
        ("id,x\nn1,1\nn2\nn3,\n", GOOD_EDGES, ["nodes.csv line 3: 1 cells"]),
        ("", GOOD_EDGES, ["nodes.csv is empty"]),
        (GOOD_NODES, "", ["edges.csv is empty"]),
        ("id,x\n", GOOD_EDGES, ["nodes.csv has no rows"]),
        (GOOD_NODES, "n1,n2\nn2,n3\n", ["edges.csv line 1", "header"]),
        (GOOD_NODES, "a,b,c\nn1,n2\n", ["edges.csv line 2: 2 cells"]),
        (GOOD_NODES, "s,t,w\nn1,n2,1\nn2,n3,much\n", ["edges.csv line 3", "'much' is not a number", "0 or more"]),
    ],
    ids=[
        "missing-nodes",
        "missing-edges",
        "unknown-node",
        "duplicate-id",
        "text-among-numbers",
        "infinite",
        "too-large",
        "negative-weight",
        "all-holes",
        "too-many-cells",
        "too-few-cells",
        "empty-nodes",
        "empty-edges",
        "no-rows",
        "no-header",
        "ragged-edges",
        "text-weight",
    ],
)
def test_bad_files(folder, capsys, nodes, edges, parts):
    for name, text in (("nodes.csv", nodes), ("edges.csv", edges)):
        if text is None:
            (folder / name).unlink()
        else:
            (folder / name).write_text(text)
    refused(folder, capsys, USUAL, *parts)


@pytest.mark.parametrize(
    ("args", "parts"),
    [
        ([*USUAL, "--id", "key"], ["no column 'key'", "it has id, x, y"]),
        ([*USUAL, "--columns", "x,z"], ["no column 'z'", "it has id, x, y"]),
        ([*USUAL, "--columns", ","], ["--columns names no column"]),
        (["nodes.csv", "--out", "o.xlsx"], ["o.xlsx", ".xlsx", ".csv, .tsv"]),
        (["nodes.csv", "--out", "o"], ["no ending"]),
        (["edges.txt", "--out", "o.csv"], ["edges.txt"]),
        (["nodes.csv", "--out", "o.csv", "--method", "magic"], ["'magic'", "feature-propagation", "mean"]),
        ([*USUAL, "--model", "m", "--save-model", "s"], ["--model and --save-model exclude each other"]),
        ([*USUAL, "--save-model", "s"], ["'mean' has no model file"]),
        ([*USUAL, "--max-steps", "3"], ["--max-steps does not apply", "'mean'"]),
        ([*USUAL, "--time-budget", "0"], ["--time-budget 0 is no time to train in", "seconds above 0"]),
        ([*USUAL, "--intervals", "i.csv"], ["'mean' has no intervals"]),
        ([*USUAL, "--report", "r.pdf"], ["r.pdf", ".html"]),
        ([*USUAL, "--out", "no/such/o.csv"], ["the folder", "does not exist", "create it"]),
        ([*USUAL, "--out", "edges.csv", "--force"], ["--out edges.csv is one of the input files"]),
        ([*USUAL, "--device", "tpu"], ["tpu", "cuda"]),
        ([*USUAL, "--report", "x.html", "--out", "x.html"], ["x.html"]),
    ],
)
def test_bad_options(folder, capsys, args, parts):
    refused(folder, capsys, args, *parts)


@pytest.mark.parametrize("option", ["--out", "--report"])
def test_existing_outputs_are_refused_before_any_work(folder, capsys, monkeypatch, option):
    name = {"--out": "o.csv", "--report": "r.html"}[option]
    (folder / name).write_text("precious")
    monkeypatch.setattr("megae.io.read_table", lambda *a, **k: pytest.fail("read before the check"))
    refused(folder, capsys, [*USUAL, "--report", "r.html"], option, name, "exists already", "--force")


def test_the_input_is_not_replaced_by_accident(folder, capsys):
    refused(folder, capsys, ["nodes.csv", "--out", "nodes.csv", "--method", "mean"], "input files")


def test_nodes_and_edges_swapped_or_equal(folder, capsys):
    for nodes in ("nodes.csv", "edges.csv"):
        args = [nodes, "--edges", "nodes.csv", "--out", "o.csv", "--method", "mean"]
        refused(folder, capsys, args, "nodes.csv looks like the table of nodes", "pass the nodes first")


def test_ids_that_lost_their_zeros_are_not_taken_for_row_numbers(folder, capsys):
    (folder / "nodes.csv").write_text("id,x,y\n02,1.5,1\n00,,2\n01,2.5,3\n")
    (folder / "edges.csv").write_text("source,target\n0,1\n1,2\n")
    refused(folder, capsys, USUAL, "edges.csv line 2: node '0'", "'00' is: leading zeros were lost", "--id '#'")


def test_a_folder_is_no_file(folder, capsys):
    (folder / "o.csv").mkdir()
    refused(folder, capsys, [*USUAL, "--force"], "not a file")


def test_unwritable_folder(folder, capsys, monkeypatch):
    locked = folder / "locked"
    locked.mkdir()
    args = ["nodes.csv", "--edges", "edges.csv", "--out", "locked/o.csv", "--method", "mean"]
    if os.geteuid() != 0:
        locked.chmod(0o500)
    else:
        real = os.open

        def guarded(path, flags, *rest, **kw):
            if str(path).startswith(str(locked)) and flags & os.O_CREAT:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return real(path, flags, *rest, **kw)

        monkeypatch.setattr(os, "open", guarded)
    refused(folder, capsys, args, "cannot write into the folder", "choose another folder")


@pytest.mark.parametrize("which", ["megae.io.delimited.DelimitedFile.write_filled", "megae.report.impute.write_report"])
def test_full_disk_while_writing_loses_nothing(folder, capsys, monkeypatch, which):
    (folder / "o.csv").write_text("precious")
    (folder / "r.html").write_text("precious too")

    def full(*args, **kw):
        target = args[1] if which.endswith("write_filled") else args[0]
        with open(target, "w") as half:
            half.write("half a fi")
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr(which, full)
    before = snapshot(folder)
    assert main(["impute", *USUAL, "--report", "r.html", "--force"]) == 2
    assert "No space left on device; free some space" in capsys.readouterr().err
    assert snapshot(folder) == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX resource limits")
def test_a_real_write_failure_loses_nothing(folder):
    rows = "\n".join(f"n{i},{i}.5,{'' if i % 7 == 0 else i}" for i in range(2000))
    (folder / "nodes.csv").write_text("id,x,y\n" + rows + "\n")
    (folder / "o.csv").write_text("precious")
    code = textwrap.dedent(
        """
        import resource, signal, sys
        from megae.cli import main
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        sys.exit(main(sys.argv[1:]))
        """
    )
    before = snapshot(folder)
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, "impute", *USUAL, "--force"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": ROOT},
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr
    assert snapshot(folder) == before


def test_binary_files_of_another_kind(folder, capsys):
    (folder / "x.parquet").write_bytes(b"not parquet at all")
    refused(folder, capsys, ["x.parquet", "--out", "o.csv", "--method", "mean"], "x.parquet", "Parquet")
    (folder / "x.npz").write_bytes(b"not a zip")
    refused(folder, capsys, ["x.npz", "--out", "o.csv", "--method", "mean"], "x.npz")
    np.save(folder / "y.npy", np.zeros(3))
    (folder / "y.npy").rename(folder / "y.npz")
    refused(folder, capsys, ["y.npz", "--out", "o.csv", "--method", "mean"], "y.npz")
    (folder / "x.graphml").write_text("<graphml>")
    refused(folder, capsys, ["x.graphml", "--out", "o.csv", "--method", "mean"], "x.graphml", "XML")


def test_cuda_without_a_gpu(folder, capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(folder, capsys, [*USUAL, "--device", "cuda"], "--device cuda", "--device cpu")

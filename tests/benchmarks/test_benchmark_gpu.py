"""``benchmarks.gpu_filter`` and ``benchmarks.gpu_step``: tried at tiny sizes, on the CPU where there is no card."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_filter, gpu_step

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("script", [gpu_filter, gpu_step], ids=["filter", "step"])
def test_without_a_card_it_says_so_and_writes_nothing(script, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit) as stopped:
        script.main(["--out", str(tmp_path / "record.json")])
    assert stopped.value.code == 2
    assert "needs a CUDA device, and torch sees none" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_bytes_counted_by_hand() -> None:
    dense, matrix = 10 * 6 * 4, 30 * 8 + 11 * 4
    by_hand = moves = 0
    for step in range(3):  # first Z -> b_K; then gather b_{k+1}, read Z and, but for the first, b_{k+2}; write b_k
        by_hand += (2 * dense if step == 0 else 0) + (3 if step == 0 else 4) * dense + matrix
        moves += 30 * 6 * 4
    found = gpu_filter.moved(nodes=10, entries=30, columns=6, steps=3)
    assert found["each_operand_once"] == by_hand
    assert found["gathers_counted"] == by_hand - 3 * dense + moves


@pytest.mark.parametrize("kind", gpu_filter.GRAPHS)
def test_graphs_have_the_edges_they_should(kind: str) -> None:
    L = gpu_filter.graph(kind, 5000, 20_000)
    off = L.tocoo()
    far = abs(off.row - off.col)
    assert off.nnz - 5000 == pytest.approx(40_000, rel=0.03)
    apart = min(far.max(), 5000) if kind == "random" else far[far < 2500].max()
    assert (apart > 2400) if kind == "random" else (apart < gpu_filter.WINDOW)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed; pip install triton")
def test_the_filter_through_the_interpreter(tmp_path) -> None:
    out = tmp_path / "filter.json"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.gpu_filter", "--small", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert record["small"]
    assert set(record["graphs"]) == {"random", "local"}
    for figures in record["graphs"].values():
        assert set(figures["seconds"]) == {"torch", "triton", "triton, 512 B"}
        assert max(figures["errors"].values()) < 1e-6
    assert [line["at_least"] for line in record["bars"]] == [0.5] * 4


def test_a_wrong_filter_is_not_timed(monkeypatch) -> None:
    from megae.kernels import sparse

    right = sparse.bandwise
    monkeypatch.setattr(sparse, "bandwise", lambda o, Z, C: right(o, Z, C) * (1.001 if Z.shape[1] > 1 else 1.0))
    with pytest.raises(RuntimeError, match="not the filter"):
        gpu_filter.measure("random", 24, 60, 16, 1, torch.device("cpu"))


def test_the_step_at_tiny_size(tmp_path, capsys) -> None:
    gpu_step.main(["--small", "--out", str(tmp_path / "step.json")])
    record = json.loads((tmp_path / "step.json").read_text())
    assert {"eager", "one shape, torch"} <= set(record["seconds"])
    assert record["steps_each"] == 6
    assert max(record["weights_apart_from_one_shape_torch"].values()) < 1e-3 or torch.cuda.is_available()
    assert [line["at_least"] for line in record["bars"]] == [3.0]
    assert "ms a step" in capsys.readouterr().out

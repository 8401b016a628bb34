"""Costs are measured method by method, each in a process of its own, and put beside those that are there."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import costs


def run(monkeypatch, path, *args: str) -> dict:
    small = ["--nodes", "60", "--columns", "3", "--device", "cpu", "--threads", "1", "--out", str(path)]
    monkeypatch.setattr(sys, "argv", ["costs", *small, *args])
    costs.main()
    return json.loads(path.read_text())


def test_methods_measured_again_take_the_place_of_their_earlier_figures(tmp_path, monkeypatch):
    path = tmp_path / "costs.json"
    seen = iter([1.0, 2.0, 3.0])
    monkeypatch.setattr(costs, "cost", lambda name, args: {"seconds": next(seen), "measured": {"limit": args.limit}})
    run(monkeypatch, path, "--methods", "mean", "zero")
    record = run(monkeypatch, path, "--methods", "mean", "--limit", "7")
    assert {name: found["seconds"] for name, found in record["methods"].items()} == {"zero": 2.0, "mean": 3.0}
    assert [found["measured"]["limit"] for found in record["methods"].values()] == [600.0, 7.0]
    with pytest.raises(SystemExit, match="costs of another graph"):
        run(monkeypatch, path, "--methods", "mean", "--nodes", "61")


@pytest.mark.slow
@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_a_method_has_seconds_and_memory_or_is_over_the_limit(tmp_path, monkeypatch, clock):
    more = ["--cpu-time"] if clock == "cpu" else []
    [found] = run(monkeypatch, tmp_path / "a.json", "--methods", "mean", *more)["methods"].values()
    assert 0 < found["seconds"] < 60
    assert found["measured"]["clock"] == clock
    assert found["measured"]["device"] == "cpu"
    [found] = run(monkeypatch, tmp_path / "b.json", "--methods", "mean", "--limit", "0.5", *more)["methods"].values()
    assert found["error"] == "over 0.5 s"

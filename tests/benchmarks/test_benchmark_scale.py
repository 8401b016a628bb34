"""``benchmarks.scale``: what it measures at a tiny size, and what it asks of the growth."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import scale


def test_bars_stand_at_the_slope_and_at_a_million_nodes() -> None:
    cases = [{"nodes": n, "seconds": 2e-4 * n**1.05, "peak_gib": 1 + n / 1e5} for n in (10_000, 100_000, 1_000_000)]
    growth, memory = scale.bars(cases, "cpu")
    assert growth["measured"] == pytest.approx(1.05)
    assert growth["met"]
    assert (memory["measured"], memory["at_most"], memory["met"]) == (11, 16, True)
    growth, minutes = scale.bars(cases, "cuda")
    assert minutes["measured"] == pytest.approx(cases[-1]["seconds"] / 60)
    assert minutes["at_most"] == 10
    assert len(scale.bars(cases[:2], "cpu")) == 1


def test_the_same_number_of_epochs_is_run_whatever_the_scores() -> None:
    case = scale.measure((600, 3, "cpu"))
    assert case["epochs"] == 3
    assert case["edges"] / 600 == pytest.approx(5, abs=0.7)
    assert case["seconds"] == pytest.approx(case["fit_seconds"] + case["fill_seconds"])
    assert case["peak_gpu_gib"] is None
    if case["peak_gib"] is not None:
        assert case["peak_gib"] > 0.9 * case["before_gib"] > 0.05  # the system may take pages back in between


@pytest.mark.slow
def test_the_command_runs_each_size_by_itself(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "scale.json"
    monkeypatch.setattr(sys, "argv", ["scale", "--nodes", "300", "900", "--steps", "2", "--out", str(out)])
    scale.main()
    record = json.loads(out.read_text())
    assert [case["nodes"] for case in record["cases"]] == [300, 900]
    assert [case["epochs"] for case in record["cases"]] == [2, 2]
    assert record["exponents"]["seconds"] == pytest.approx(record["bars"][0]["measured"])
    assert record["bars"][0]["at_most"] == 1.1

"""The benchmarks of filter and training step on CPU, run on a few graphs, and the page they end in."""

from __future__ import annotations

import functools
import itertools
import json
import math
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from benchmarks import filter_cpu, performance, step_cpu, timing
from benchmarks.record import bar
from megae.kernels import choice, cpu
from megae.kernels.small_graphs import small_graphs
from megae.models import linear


@pytest.mark.data("ENZYMES")
def test_filters_that_are_compared_compute_the_same():
    found = filter_cpu.measure(rounds=1, graphs=12)
    assert set(found["seconds"]) == {"numba", "numba, recurrence alone", "torch CSR", "dense", "PyG ChebConv"}
    assert found["seconds_of_matrices"] > 0
    assert cpu.small_graphs is small_graphs
    assert found["largest_difference"]["torch CSR"] < 1e-5
    assert found["largest_difference"]["PyG ChebConv"] < 1e-3
    assert found["counted_bytes"] == 3 * 10 * found["nodes"] * 384 * 4


@pytest.mark.data("ENZYMES")
def test_the_step_is_the_one_that_fit_runs_and_its_filter_is_timed():
    before = choice.backend_by_name, linear._by_onednn
    found = step_cpu.measure(rounds=2, graphs=30, hidden=16, band_width=4)
    assert (choice.backend_by_name, linear._by_onednn) == before
    assert found["graphs"] == 4  # a sixth of the 24 that are trained on
    assert set(found["seconds"]) == {*step_cpu.VARIANTS, "megae, bfloat16 products"}
    assert all(0 < share < 1 for share in found["share_of_filter"].values())
    assert found["product_gflop"] > 0


def test_turns_are_taken_and_the_median_is_told(monkeypatch):
    order, now = "", 0.0
    lasting: dict[str, Iterator[float]] = {"a": iter([50.0, 1.0, 7.0, 2.0]), "b": itertools.repeat(3.0)}

    def turn(name: str) -> None:
        nonlocal order, now
        order, now = order + name, now + next(lasting[name])

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now))
    seconds = timing.take_turns({name: functools.partial(turn, name) for name in lasting}, rounds=3)
    assert order == "ab" * 4
    assert seconds == {"a": 2.0, "b": 3.0}
    lasting["a"] = itertools.repeat(25.0)
    timing.take_turns({name: functools.partial(turn, name) for name in lasting}, rounds=9, budget=50.0)
    assert order == "ab" * 7, "two turns of 28 seconds are over 50"


def test_a_bar_is_met_or_not():
    assert bar("x", 2.0, at_least=2)["met"]
    assert not bar("x", 1.9, at_least=2)["met"]
    assert bar("x", 1.9, at_most=2)["met"]
    with pytest.raises(ValueError, match="either"):
        bar("x", 1.9)


def test_the_page_tells_what_is_met_missed_and_not_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(performance, "RESULTS", tmp_path)
    common = {
        "command": "python -m x",
        "gpu": None,
        "cpu": "C",
        "cpu_count": 2,
        "threads": 2,
        "versions": {"torch": "2"},
    }
    bars = [bar("quick", 3.0, at_least=2), bar("small", 17.25, at_most=16)]
    (tmp_path / "streaming.json").write_text(json.dumps(common | {"bars": bars}))
    text = performance.table()
    assert "| quick | 3 | ≥ 2 | yes | `streaming.json` |" in text
    assert "| small | 17.2 | ≤ 16 | **no** | `streaming.json` |" in text
    assert "| `scale.json` | not measured yet | | |" in text
    assert performance.asked(bars[1]) == "17.2 (at most 16)"


def test_harsher_readings_are_made_of_the_same_record():
    cases = [{"nodes": n, "seconds": t} for n, t in ((100, 1.0), (1000, 5.0), (10_000, 80.0))]
    (growth,) = performance.harsher_bars("scale-gpu", {"device": "cuda", "cases": cases})
    assert growth["measured"] == pytest.approx(math.log10(16))
    assert not growth["met"]
    (authors,) = performance.harsher_bars("authors", {"times_faster": {"paper": {"unpadded": 48.5, "code": 70.0}}})
    assert (authors["measured"], authors["at_least"], authors["met"]) == (48.5, 50, False)
    seconds = {"megae": 0.5, "torch's sparse product, all else ours": 0.75}
    assert performance.harsher_bars("step_cpu", {"seconds": seconds})[0]["measured"] == 1.5
    seconds = {"numba": 1.0, "torch CSR": 12.0}
    (first,) = performance.harsher_bars("filter_cpu", {"seconds": seconds, "seconds_of_matrices": 2.0})
    assert first["measured"] == 4.0
    assert performance.harsher_bars("streaming", {}) == []


def test_plots_are_drawn_from_the_records(tmp_path, monkeypatch):
    monkeypatch.setattr(performance, "RESULTS", tmp_path)
    monkeypatch.setattr(performance, "PLOTS", tmp_path / "plots")
    performance.write_plots()
    assert not list((tmp_path / "plots").iterdir())
    cases = [{"nodes": n, "seconds": n / 1e3} for n in (100, 1000)]
    (tmp_path / "scale.json").write_text(json.dumps({"cases": cases}))
    performance.write_plots()
    assert [path.name for path in (tmp_path / "plots").iterdir()] == ["growth.svg"]

"""Learning rate, averaging and the clock."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from megae.training import schedule
from megae.training.schedule import Clock, average_decay, one_cycle


def test_one_cycle_endpoints_and_shape():
    peak = 3e-3
    assert one_cycle(0.0, peak) == pytest.approx(peak / 25)
    assert one_cycle(0.3, peak) == pytest.approx(peak)
    assert one_cycle(1.0, peak) == pytest.approx(peak / 1e4)
    assert one_cycle(0.15, peak) == pytest.approx((peak + peak / 25) / 2)
    assert one_cycle(0.65, peak) == pytest.approx((peak + peak / 1e4) / 2)
    curve = [one_cycle(t / 200, peak) for t in range(201)]
    assert all(a < b for a, b in pairwise(curve[:61]))
    assert all(a > b for a, b in pairwise(curve[60:]))
    assert one_cycle(1.5, peak) == pytest.approx(peak / 1e4)


def test_average_decay_warms_up():
    assert average_decay(0, 0.999) == pytest.approx(0.1)
    assert average_decay(10, 0.999) == pytest.approx(11 / 20)
    assert average_decay(10**6, 0.999) == 0.999
    assert average_decay(50, 0.0) == 0.0


@pytest.fixture
def now(monkeypatch):
    """A clock that moves when told to."""
    time = [100.0]
    monkeypatch.setattr(schedule.time, "monotonic", lambda: time[0])
    return time


def test_progress_by_steps(now):
    clock = Clock(200, None, _start=100.0)
    now[0] = 150.0
    assert clock.elapsed() == pytest.approx(50.0)
    assert [clock.progress(s) for s in (0, 50, 200, 300)] == [0.0, 0.25, 1.0, 1.0]
    assert clock.remaining(0) == math.inf
    assert clock.remaining(50) == pytest.approx(150.0)


def test_progress_by_whichever_runs_out_first(now):
    clock = Clock(200, 40.0, _start=100.0)
    now[0] = 110.0
    assert clock.progress(10) == pytest.approx(0.25)
    assert clock.progress(150) == pytest.approx(0.75)
    assert clock.remaining(10) == pytest.approx(30.0)
    now[0] = 1000.0
    assert clock.progress(10) == 1.0


def test_time_spent_before_a_resume_counts(now):
    clock = Clock(100, 60.0, spent=30.0, _start=100.0)
    now[0] = 115.0
    assert clock.elapsed() == pytest.approx(45.0)
    assert clock.progress(0) == pytest.approx(0.75)

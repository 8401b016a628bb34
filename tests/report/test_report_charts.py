"""The SVG charts: coordinates are read back from the drawing and compared with the data."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from megae.report.charts import (
    bin_count,
    histogram_pair,
    histogram_shares,
    level_pair,
    line_chart,
    nice_ticks,
)
from megae.report.training import history_charts


def polyline(svg: str) -> np.ndarray:
    match = re.search(r'<polyline class="line" points="([^"]+)"', svg)
    assert match is not None
    return np.array([[float(v) for v in pair.split(",")] for pair in match[1].split()])


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_inside_even_and_few(low: float, span: float) -> None:
    high = low + span
    ticks = np.array(nice_ticks(low, high))
    assert 2 <= len(ticks) <= 8
    slack = 1e-6 * span + 1e-9 * abs(low)
    assert ticks[0] >= low - slack
    assert ticks[-1] <= high + slack
    steps = np.diff(ticks)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)


def test_line_is_an_affine_image_of_the_data() -> None:
    x, y = np.arange(20.0), np.random.default_rng(0).normal(size=20)
    drawn = polyline(line_chart(x, y, alt="noise", mark=7.2))
    assert np.corrcoef(drawn[:, 0], x)[0, 1] == pytest.approx(1.0, abs=1e-4)
    assert np.corrcoef(drawn[:, 1], y)[0, 1] == pytest.approx(-1.0, abs=1e-4)
    circle = re.search(r'cx="([\d.]+)" cy="([\d.]+)"', line_chart(x, y, alt="noise", mark=7.2))
    assert circle is not None
    np.testing.assert_allclose([float(circle[1]), float(circle[2])], drawn[7])


def test_line_leaves_out_what_is_not_finite() -> None:
    assert len(polyline(line_chart([0, 1, 2, 3], [1.0, np.nan, np.inf, 2.0], alt="gaps"))) == 2
    assert "no figures" in line_chart([0.0], [np.nan], alt="nothing")
    assert len(polyline(line_chart([5.0], [1.0], alt="one point"))) == 1
    assert 'aria-label="a &lt; b"' in line_chart([0, 1], [2.0, 2.0], alt="a < b")


def test_histogram_shares_match_counts() -> None:
    rng = np.random.default_rng(0)
    observed, filled = rng.normal(size=500), rng.normal(1.0, 0.5, size=60)
    edges, grey, outline = histogram_shares(observed, filled, 12)
    assert edges[0] == min(observed.min(), filled.min())
    assert edges[-1] == max(observed.max(), filled.max())
    for share, values in ((grey, observed), (outline, filled)):
        assert share.sum() == pytest.approx(1.0)
        inside = [((values >= a) & (values < b)).mean() for a, b in itertools.pairwise(edges)]
        np.testing.assert_allclose(share[:-1], inside[:-1])
    svg = histogram_pair(observed, filled, alt="two bells")
    tallest = min(float(v) for v in re.findall(r'class="observed" x="[\d.]+" y="([\d.]+)"', svg))
    assert tallest >= 5.9


def test_histogram_ends_carry_no_needless_zeros() -> None:
    svg = histogram_pair(np.array([4.0, 60.0, 81.0]), np.array([5.0]), alt="cows")
    assert re.findall(r">([^<]+)</text>", svg) == ["4", "81"]
    svg = histogram_pair(np.array([-0.25, 1200.0]), np.array([0.0]), alt="more")
    assert re.findall(r">([^<]+)</text>", svg) == ["−0.25", "1,200"]


@pytest.mark.parametrize(("observed", "filled"), [([], [1.0]), ([2.0, 2.0], []), ([], []), ([3.0], [3.0])])
def test_histogram_stands_degenerate_columns(observed: list[float], filled: list[float]) -> None:
    svg = histogram_pair(np.array(observed), np.array(filled), alt="few")
    assert ('class="observed"' in svg) == bool(observed)
    assert ('class="filled"' in svg) == bool(filled)
    assert "nan" not in svg.lower()


def test_bins_follow_the_smaller_sample() -> None:
    assert bin_count(1000, 4) == 6
    assert bin_count(100, 1000) == 20
    assert bin_count(10**6, 10**6) == 24


def test_levels_are_drawn_to_scale() -> None:
    svg = level_pair([("<b>", 0.5, 0.25), ("a name far too long for it", 0.5, 0.75)], alt="levels")
    widths = [float(v) for v in re.findall(r'width="([\d.]+)"', svg)]
    np.testing.assert_allclose(np.array(widths) / widths[0], [1.0, 0.5, 1.0, 1.5], atol=0.01)
    assert "&lt;b&gt;" in svg


def test_history_draws_only_what_was_recorded() -> None:
    history = [{"step": s, "loss": 1.0 / s, "val_rmse": None, "entropy": float("nan")} for s in (1, 2, 4)]
    text = history_charts(history, best_step=2)
    assert "Training loss" in text
    assert "Validation RMSE" not in text
    assert "Wavelet entropy" not in text
    assert "marks step 2" in text
    assert history_charts([{"step": 1, "loss": 1.0}]) == ""
    assert history_charts([]) == ""

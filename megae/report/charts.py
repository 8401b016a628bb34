"""Small SVG charts, drawn by hand so that they take the page's theme and need no plotting library."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from megae.report.html import Markup, escape, number


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Return round values (steps of 1, 2 or 5 times a power of ten) inside [low, high].

    Examples
    --------
    >>> nice_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((m * power for m in (1.0, 2.0, 5.0) if m * power >= raw * 0.8), 10.0 * power)
    places = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, places + 1) + 0.0 for i in range(first, last + 1)]


def _tick_labels(ticks: Sequence[float]) -> list[str]:
    step = min((abs(b - a) for a, b in itertools.pairwise(ticks)), default=abs(ticks[0]) or 1.0)
    places = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    if places > 5 or max(abs(t) for t in ticks) >= 1e6:
        return [f"{t:.2g}" for t in ticks]
    return [number(t, decimals=places) for t in ticks]


def _svg(width: int, height: int, alt: str, body: str) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(alt)}">'
        f"<title>{escape(alt)}</title>{body}</svg>"
    )


def line_chart(
    x: Sequence[float],
    y: Sequence[float],
    *,
    alt: str,
    mark: float | None = None,
    width: int = 320,
    height: int = 180,
    x_name: str = "step",
) -> Markup:
    """Draw one curve with its axes.

    Parameters
    ----------
    x, y : sequence of float, shape (n,)
        Points; those that are not finite are left out.
    alt : str
        What the chart shows, in words.
    mark : float, optional
        ``x`` of the point to circle (the nearest one is taken).
    """
    points = np.array([(a, b) for a, b in zip(x, y, strict=True) if math.isfinite(a) and math.isfinite(b)])
    if len(points) == 0:
        return _svg(width, height, alt, f'<text x="{width // 2}" y="{height // 2}">no figures</text>')
    left, right, top, bottom = 46, 10, 10, 32
    (x0, y0), (x1, y1) = points.min(axis=0), points.max(axis=0)
    x1 = x1 if x1 > x0 else x0 + 1.0
    pad = 0.06 * (y1 - y0) or max(abs(y0) * 0.05, 1e-6)
    y0, y1 = y0 - pad, y1 + pad

    def px(value: float) -> float:
        return left + (value - x0) / (x1 - x0) * (width - left - right)

    def py(value: float) -> float:
        return top + (y1 - value) / (y1 - y0) * (height - top - bottom)

    body = []
    ticks = nice_ticks(y0, y1)
    for tick, label in zip(ticks, _tick_labels(ticks), strict=True):
        level = f'y1="{py(tick):.1f}" y2="{py(tick):.1f}"'
        body.append(f'<line class="axis" x1="{left}" x2="{width - right}" {level}/>')
        body.append(f'<text x="{left - 7}" y="{py(tick) + 4:.1f}" text-anchor="end">{label}</text>')
    ticks = nice_ticks(x0, x1, 3)
    for tick, label in zip(ticks, _tick_labels(ticks), strict=True):
        body.append(f'<text x="{px(tick):.1f}" y="{height - 15}" text-anchor="middle">{label}</text>')
    body.append(f'<text x="{width - right}" y="{height - 1}" text-anchor="end">{escape(x_name)}</text>')
    path = " ".join(f"{px(a):.1f},{py(b):.1f}" for a, b in points)
    body.append(f'<polyline class="line" points="{path}"/>')
    if mark is not None:
        a, b = points[np.argmin(np.abs(points[:, 0] - mark))]
        body.append(f'<circle class="mark" cx="{px(a):.1f}" cy="{py(b):.1f}" r="4"/>')
    return _svg(width, height, alt, "".join(body))


def bin_count(n_observed: int, n_filled: int) -> int:
    """Return how many bins the smaller sample can bear: 2 sqrt(n), between 6 and 24."""
    return int(min(max(2.0 * math.sqrt(min(n_observed, n_filled)), 6), 24))


def histogram_shares(
    observed: np.ndarray, filled: np.ndarray, bins: int = 24
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bin two samples over their common range.

    Returns
    -------
    edges : ndarray, shape (bins + 1,)
    observed_share, filled_share : ndarray, shape (bins,)
        Share of each sample in each bin; each sums to 1, or is 0 where the sample is empty.
    """
    both = np.concatenate([observed, filled])
    edges = np.histogram_bin_edges(both, bins=bins) if both.size else np.linspace(0.0, 1.0, bins + 1)
    shares = [np.histogram(part, bins=edges)[0] / max(part.size, 1) for part in (observed, filled)]
    return edges, shares[0], shares[1]


def histogram_pair(observed: np.ndarray, filled: np.ndarray, *, alt: str) -> Markup:
    """Draw observed values as grey bars and filled ones as an outline, each as shares of its own total.

    Parameters
    ----------
    observed, filled : ndarray, shape (n,), (m,)
        Finite values.
    """
    width, height, top, bottom = 300, 120, 6, 20
    bins = bin_count(observed.size, filled.size)
    edges, grey, outline = histogram_shares(observed, filled, bins)
    peak = max(grey.max(initial=0.0), outline.max(initial=0.0)) or 1.0
    step = width / bins
    floor = height - bottom

    def py(share: float) -> float:
        return floor - share / peak * (floor - top)

    body = [f'<line class="axis" x1="0" x2="{width}" y1="{floor}" y2="{floor}"/>']
    for i, share in enumerate(grey):
        if share > 0:
            body.append(
                f'<rect class="observed" x="{i * step + 0.5:.1f}" y="{py(share):.1f}" '
                f'width="{step - 1:.1f}" height="{floor - py(share):.1f}"/>'
            )
    if outline.any():
        corners = [f"0,{floor}"]
        for i, share in enumerate(outline):
            corners += [f"{i * step:.1f},{py(share):.1f}", f"{(i + 1) * step:.1f},{py(share):.1f}"]
        body.append(f'<polyline class="filled" points="{" ".join([*corners, f"{width},{floor}"])}"/>')
    body.append(f'<text x="0" y="{height - 5}">{_short(edges[0])}</text>')
    body.append(f'<text x="{width}" y="{height - 5}" text-anchor="end">{_short(edges[-1])}</text>')
    return _svg(width, height, alt, "".join(body))


def _short(value: float) -> str:
    """A figure without zeros that say nothing: 4, not 4.000."""
    text = number(float(value))
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def level_pair(levels: Sequence[tuple[object, float, float]], *, alt: str) -> Markup:
    """Draw (level, observed share, filled share) rows of a column that is not numeric as paired bars."""
    width, row, label = 300, 22, 110
    height = max(row * len(levels), row)
    body = []
    for i, (level, grey, accent) in enumerate(levels):
        y = i * row
        text = str(level) if len(str(level)) <= 16 else str(level)[:15] + "…"
        body.append(f'<text x="{label - 8}" y="{y + 14}" text-anchor="end">{escape(text)}</text>')
        for css, share, offset in (("observed", grey, 3), ("filled-bar", accent, 11)):
            body.append(
                f'<rect class="{css}" x="{label}" y="{y + offset}" height="6" '
                f'width="{max(share, 0.0) * (width - label):.1f}"/>'
            )
    return _svg(width, height, alt, "".join(body))

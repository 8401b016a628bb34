"""The page of ``megae compare --report``: the ranking, how sure it is, and how it was made."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from megae.report.charts import _svg, _tick_labels, nice_ticks
from megae.report.html import (
    Markup,
    Page,
    bar,
    decimals_for,
    escape,
    facts,
    figure,
    key,
    notice,
    number,
    percent,
    table,
    tiles,
    versions,
)

GENERATOR = "megae compare"
MAX_COLUMNS = 200
FEW_CELLS = 30
_ROW = 26
_STATUS = {
    "winner": "winner",
    "tied": "not distinguishable from the winner",
    "behind": "",
    "reference": "not asked for; a reference",
}


def interval_chart(
    rows: Sequence[tuple[str, float, float, float, bool]], *, alt: str, x_name: str, width: int = 800
) -> Markup:
    """Draw one point with its interval per row, best first; the axis is logarithmic where scores differ widely.

    Parameters
    ----------
    rows : (label, low, value, high, stressed)
    alt : what the chart shows, in words
    x_name : name of the axis
    """
    left, right, top, bottom = 190, 60, 8, 40
    height = top + _ROW * len(rows) + bottom
    low, high = min(r[1] for r in rows), max(r[3] for r in rows)
    logarithmic = low > 0 and high / low > 5
    shape = math.log10 if logarithmic else float
    start, stop = shape(low if logarithmic else min(low, 0.0)), shape(high)
    stop = stop if stop > start else start + 1.0

    def px(value: float) -> float:
        return left + (shape(value) - start) / (stop - start) * (width - left - right)

    ticks = _log_ticks(low, high) if logarithmic else nice_ticks(min(low, 0.0), high, 6)
    labels = [f"{t:g}" for t in ticks] if logarithmic else _tick_labels(ticks)
    floor = top + _ROW * len(rows)
    body = []
    for tick, label in zip(ticks, labels, strict=True):
        body.append(f'<line class="axis" x1="{px(tick):.1f}" x2="{px(tick):.1f}" y1="{top}" y2="{floor}"/>')
        body.append(f'<text x="{px(tick):.1f}" y="{floor + 15}" text-anchor="middle">{label}</text>')
    name = f"{x_name}, logarithmic" if logarithmic else x_name
    body.append(f'<text x="{width - right}" y="{height - 5}" text-anchor="end">{escape(name)}</text>')
    places = decimals_for(rows[0][2])
    for k, (label, a, value, b, stressed) in enumerate(rows):
        y = top + _ROW * (k + 0.5)
        colour = "var(--accent)" if stressed else "var(--ink-2)"
        body.append(f'<text x="{left - 14}" y="{y + 4:.1f}" text-anchor="end">{escape(label)}</text>')
        body.append(
            f'<line class="line" style="stroke:{colour}" x1="{px(a):.1f}" x2="{px(b):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        body.append(f'<circle class="mark" style="stroke:{colour}" cx="{px(value):.1f}" cy="{y:.1f}" r="4"/>')
        body.append(f'<text x="{px(b) + 8:.1f}" y="{y + 4:.1f}">{number(value, places)}</text>')
    return _svg(width, height, alt, "".join(body))


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten inside [low, high]; powers alone where that is plenty."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= 4 else (1,)
    ticks = [float(f"{m}e{p}") for p in powers for m in steps]
    return [t for t in ticks if low <= t <= high]


def _scored(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [row for row in result["methods"] if row["error"] is None]


def _with_interval(value: float, low: float, high: float, places: int) -> Markup:
    span = f"{number(low, places)} to {number(high, places)}"
    return Markup(f"{number(value, places)}<small>{span}</small>")


def _ranking(result: Mapping[str, Any]) -> Markup:
    rows, kinds = _scored(result), result["kinds"]
    places = decimals_for(rows[0]["score"])
    headers = [("Rank", "num"), ("Method", "text"), ("RMSE" if kinds == ["numbers"] else "Score", "num")]
    headers += [("To the winner", "num")]
    headers += [("RMSE of numbers", "num")] if len(kinds) == 2 else []
    headers += [("MAE", "num")] if "numbers" in kinds else []
    headers += [("Wrong", "num")] if "categories" in kinds else []
    headers += [("First", "num"), ("Seconds", "num")]
    cells = []
    for row in rows:
        first = row["rank"] == 1
        note = _STATUS[row["status"]]
        if row["status"] == "reference" and row["tied"]:
            note += "; not distinguishable from the winner"
        line: list[object] = [
            "–" if row["rank"] is None else row["rank"],
            Markup(f"{escape(row['method'])}<small>{escape(note)}</small>") if note else row["method"],
            _with_interval(row["score"], row["low"], row["high"], places),
            "–" if first else _with_interval(row["difference"], row["difference_low"], row["difference_high"], places),
        ]
        line += [number(row["rmse"], places)] if len(kinds) == 2 else []
        line += [number(row["mae"], places)] if "numbers" in kinds else []
        line += [percent(row["error_rate"])] if "categories" in kinds else []
        line += ["–" if row["best"] is None else percent(row["best"], 0), f"{row['seconds']:.1f}"]
        cells.append(line)
    for row in result["methods"]:
        if row["error"] is not None:
            name = Markup(f"{escape(row['method'])}<small>failed: {escape(row['error'])}</small>")
            cells.append(["–", name, *["–"] * (len(headers) - 3), f"{row['seconds']:.1f}"])
    caption = (
        f"Errors in {result['units']}, pooled over {result['cells']['hidden']:,} hidden cells of "
        f"{result['cells']['rows']:,} rows. Small figures: 95 % intervals, from a bootstrap over rows, the same "
        "rows for all methods. First: share of resamples in which the method has the lowest error. Seconds: fitting "
        "and filling once."
    )
    return table(headers, cells, caption=caption, main=[0])


def _chart(result: Mapping[str, Any]) -> Markup:
    rows = [
        (row["method"], row["low"], row["score"], row["high"], row["rank"] == 1 or row["tied"])
        for row in _scored(result)
    ]
    alt = f"error and 95 % interval of {len(rows)} methods; {result['winner']} has the lowest"
    drawn = interval_chart(rows, alt=alt, x_name=f"error in {result['units']}")
    legend = key([("var(--accent)", "winner, and what is not distinguishable from it"), ("var(--ink-2)", "behind")])
    caption = (
        "Intervals that overlap do not yet mean that two methods are alike: all are scored on the same rows, and the "
        "interval of their difference, in the table, is what decides."
    )
    return Markup(legend + figure(Markup(f'<div class="scroll chart">{drawn}</div>'), caption))


def _wins(result: Mapping[str, Any]) -> Markup:
    """How many columns each method wins."""
    columns = result["columns"]
    counts = Counter(column["winner"] for column in columns).most_common()
    rows = [[method, bar(count / len(columns)), f"{count:,}"] for method, count in counts]
    headers = [("Method", "text"), ("Share of columns", "wide"), ("Columns won", "num")]
    return table(headers, rows, caption="Of methods that are equal in a column, the better-ranked one wins it.")


def _columns(result: Mapping[str, Any]) -> Markup:
    columns, best = result["columns"], result["winner"]
    shown = columns[:MAX_COLUMNS]
    rows = []
    for column in shown:
        figures, winner = column["figures"], column["winner"]
        share = column["measure"] == "error_rate"
        scale = max((v for v in figures.values() if math.isfinite(v)), default=1.0)

        def cell(value: float | None, share: bool = share, scale: float = scale) -> str:
            if value is None:
                return "–"
            return f"{percent(value)} wrong" if share else number(value, decimals_for(scale))

        rows.append(
            [
                column["name"],
                f"{column['cells']:,}",
                winner,
                cell(figures[winner]),
                cell(figures[best]),
                cell(figures.get("mean")),
            ]
        )
    headers = [("Column", "text"), ("Cells", "num"), ("Best here", "text"), ("Its RMSE", "num")]
    headers += [(f"RMSE of {best}", "num"), ("RMSE of mean", "num")]
    caption = "Categorical columns show the share of wrong categories. " if "categories" in result["kinds"] else ""
    if len(columns) > len(shown):
        caption += f"The first {len(shown)} of {len(columns):,} columns."
    return table(headers, rows, caption=caption)


def _how(result: Mapping[str, Any]) -> Markup:
    s = result["settings"]
    entries: list[tuple[object, object]] = [("Table", f"{result['nodes']}, {result['rows']:,} rows")]
    entries += [
        ("Graph", result.get("edges") or s["graph"]),
        ("Hidden", f"{percent(s['rate'])} of {result['cells']['observed']:,} observed cells, {s['mechanism']}"),
        ("Repeats", s["repeats"]),
        ("Unit of error", result["units"]),
        ("Seed", s["seed"]),
        ("Device", s["device"] or "each method's own choice"),
        ("Time limit", "none" if s["time_budget"] is None else f"{s['time_budget']:g} s per training, where heeded"),
        ("Resamples", f"{s['n_resamples']:,}"),
    ]
    if s["methods"]:
        given = [f"{m}: {', '.join(f'{k}={v!r}' for k, v in kw.items())}" for m, kw in s["methods"].items()]
        entries.append(("Settings", "; ".join(given)))
    entries.append(("Versions", ", ".join(f"{name} {value}" for name, value in versions().items())))
    return facts(entries)


def _warned(result: Mapping[str, Any]) -> Markup:
    """Each warning once, with the methods that gave it."""
    by_text: dict[str, list[str]] = {}
    for row in result["methods"]:
        for text in row["warnings"]:
            by_text.setdefault(text, []).append(row["method"])
    rows = [[", ".join(methods), text] for text, methods in by_text.items()]
    return table([("Methods", "text"), ("Warning", "text")], rows) if rows else Markup("")


def write_compare_report(
    path: str | os.PathLike[str], result: Mapping[str, Any], *, title: str = "", force: bool = False
) -> Path:
    """Write the page about one comparison.

    Parameters
    ----------
    path : path
        Where the page goes.
    result : mapping
        What :meth:`megae.bench.verdict.Comparison.to_dict` returns, with ``nodes``, ``edges`` and ``rows``.
    title : str
        Name of the table.
    force : bool
        Replace an existing file.
    """
    rows = _scored(result)
    winner, places = rows[0], decimals_for(rows[0]["score"])
    mean = next((row for row in rows if row["method"] == "mean"), None)
    page = Page(
        f"Which method fills {title or 'this table'} best",
        eyebrow=GENERATOR,
        lead=result["verdict"],
        generator=GENERATOR,
    )
    away = "–" if mean is None or not mean["score"] else f"{winner['score'] / mean['score']:.2f}×"
    alike = len(result["tied"])
    page.add(
        tiles(
            [
                (winner["method"], "has the lowest error", "of the methods that were compared"),
                (
                    number(winner["score"], places),
                    "RMSE" if result["kinds"] == ["numbers"] else "score",
                    f"95 % interval {number(winner['low'], places)} to {number(winner['high'], places)}",
                ),
                (away, "the error of the column mean", "1.00× would mean: nothing gained"),
                (f"{alike:,}", "others not distinguishable", f"over {result['cells']['hidden']:,} hidden cells"),
            ]
        )
    )
    page.section(
        "The ranking",
        *[notice(text) for text in result["notes"]],
        _ranking(result),
        intro="Observed cells were hidden, every method filled the same ones without seeing what they held, and only "
        "those cells are scored.",
    )
    page.section("How sure it is", _chart(result))
    cells = np.array([column["cells"] for column in result["columns"]])
    few = int((cells < FEW_CELLS).sum())
    note = ""
    if few:
        note = f" {few:,} of {len(cells):,} columns have fewer than {FEW_CELLS} hidden cells, too few to tell a winner."
    page.section(
        "Column by column",
        _wins(result),
        Markup("<h3>Every column</h3>"),
        _columns(result),
        intro=f"Errors in {result['units']}. Single columns are less sure than the ranking.{note}",
    )
    warned = _warned(result)
    if warned:
        page.section("What the methods warned of", warned)
    page.section("How this page was made", _how(result))
    return page.write(path, force=force)

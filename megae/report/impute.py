"""The page of ``megae impute --report``: what was filled, with what, and how far to trust it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from megae.report.charts import histogram_pair, level_pair
from megae.report.columns import Column, read_columns
from megae.report.html import (
    Markup,
    Page,
    bar,
    card,
    decimals_for,
    escape,
    facts,
    figure,
    grid,
    key,
    notice,
    number,
    percent,
    table,
    tiles,
    versions,
)
from megae.report.pixels import hole_map, image
from megae.report.training import history_charts

MAX_TABLE_COLUMNS = 200
MAX_HISTOGRAMS = 12
_LABELS = {
    "mean": ("Column mean", "no model at all"),
    "propagation": ("Feature propagation", "smoothing around the column means over the edges, no training"),
}


def count_edges(adjacency: Any) -> tuple[int, int]:
    """Count undirected edges and isolated nodes, self-loops left out.

    Parameters
    ----------
    adjacency : scipy sparse, shape (n, n)

    Returns
    -------
    n_edges, n_isolated : int
    """
    from scipy import sparse

    coo = sparse.coo_array(adjacency)
    rows, columns = coo.row[coo.data != 0], coo.col[coo.data != 0]
    rows, columns = rows[rows != columns], columns[rows != columns]
    pairs = np.unique(np.stack([np.minimum(rows, columns), np.maximum(rows, columns)]), axis=1)
    return pairs.shape[1], int(coo.shape[0] - np.unique(pairs).size)


def _held_out(diagnostics: Mapping[str, Any], method: str) -> list[Markup]:
    blocks = [notice(text) for text in diagnostics.get("warnings") or []]
    given = diagnostics.get("rmse") or {}
    scores = {k: float(v) for k, v in given.items() if v is not None and math.isfinite(v)}
    if not scores:
        return blocks
    longest = max(scores.values()) or 1.0
    ordered = sorted(scores, key=lambda name: scores[name])
    own = "MEGAE" if method == "megae" else method
    labels = {
        "megae": (own, "as used here"),
        "graph_free": (f"{own} without the graph", "the same network on rows alone"),
        **_LABELS,
    }
    rows = []
    for name in ordered:
        label, note = labels.get(name, (name, ""))
        rows.append(
            [
                Markup(f"{escape(label)}<small>{escape(note)}</small>"),
                bar(scores[name] / longest),
                number(scores[name], decimals_for(longest)),
                f"{scores[name] / scores['mean']:.2f}×" if scores.get("mean") else "–",
            ]
        )
    units = diagnostics.get("units")
    count = diagnostics.get("n_held_out")
    caption = "RMSE over " + (f"{int(count):,} " if count is not None else "") + "cells hidden on purpose"
    caption += f", in {units}." if units else "."
    headers = [
        ("Method", "text"),
        ("RMSE, shorter is better", "wide"),
        ("RMSE", "num"),
        ("To the mean's", "num"),
    ]
    main = [i for i, name in enumerate(ordered) if name == "megae"]
    return [*blocks, table(headers, rows, caption=caption, main=main)]


def _column_table(columns: Sequence[Column], with_intervals: bool, coverage: float | None) -> Markup:
    shown = columns[:MAX_TABLE_COLUMNS]
    headers = [
        ("Column", "text"),
        ("Holes", "num"),
        ("Share", "num"),
        ("Observed mean", "num"),
        ("sd", "num"),
    ]
    headers += [("Filled mean", "num"), ("sd", "num")]
    if with_intervals:
        headers.append(("Interval ±", "num"))
    rows = []
    for column in shown:
        decimals = decimals_for(column.scale())
        row: list[object] = [
            column.name,
            f"{column.n_holes:,}",
            percent(column.n_holes / max(column.n_rows, 1)),
        ]
        for values in (column.observed, column.filled):
            mean, sd = column.mean_sd(values)
            row += [number(mean, decimals), number(sd, decimals)]
        if with_intervals:
            row.append(number(column.half_width, decimals))
        rows.append(row)
    caption = "sd: standard deviation. A dash stands where there is no figure: no such cells, not numbers, or no bound."
    if with_intervals:
        level = "" if coverage is None else f"{100 * coverage:g} % "
        caption += f" Interval ±: mean half-width of the {level}interval over the column's holes."
    if len(columns) > len(shown):
        caption += f" The first {len(shown)} of {len(columns):,} columns."
    return table(headers, rows, caption=caption)


def _distribution(column: Column) -> Markup:
    counts = f"{column.observed.size:,} / {column.filled.size:,}"
    alt = f"{column.name}: {column.observed.size} observed values and {column.filled.size} filled ones"
    if column.numeric:
        chart = histogram_pair(column.observed.astype(float), column.filled.astype(float), alt=alt)
    else:
        chart = level_pair(column.levels(), alt=alt)
    return card(column.name, counts, chart)


def _without_values(columns: Sequence[Column]) -> list[str]:
    """A sentence about columns that nothing was known of, if there are any."""
    names = [repr(column.name) for column in columns if column.n_holes and not column.observed.size]
    if not names:
        return []
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return [
        f"no value is observed in {shown}: what stands there is a placeholder, not an estimate; better leave it out"
    ]


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _map(mask: np.ndarray) -> Markup:
    shares, rgb = hole_map(mask)
    height, width = shares.shape
    across, down = max(1, min(900 // width, 24)), max(1, min(420 // height, 12))
    size = f"width:{width * across}px;max-width:100%;height:{height * down}px"
    share = percent(float(mask.mean()))
    alt = f"map of holes: {mask.shape[0]} rows by {mask.shape[1]} columns, {share} missing"
    caption = "One row of the picture is a row of the table, one column a column, in file order."
    if shares.shape != mask.shape:
        caption = (
            f"{mask.shape[0]:,} rows by {mask.shape[1]:,} columns, averaged to {height:,} × {width:,}: "
            "the deeper the colour, the more holes."
        )
    return figure(image(rgb, alt, css="map", style=size), caption)


def write_report(
    path: str | os.PathLike[str],
    *,
    before: Any,
    after: Any,
    mask: Any,
    adjacency: Any,
    method: str,
    diagnostics: Mapping[str, Any] | None = None,
    intervals: tuple[Any, Any] | None = None,
    coverage: float | None = None,
    title: str = "megae imputation report",
    ids: str | None = None,
    notes: Sequence[str] = (),
    force: bool = False,
) -> Path:
    """Write the page about one imputed table.

    Parameters
    ----------
    path : path
        Where the page goes.
    before, after : DataFrame or ndarray, shape (n, d)
        The table with holes, and filled.
    mask : boolean DataFrame or ndarray, shape (n, d)
        True where a hole was filled.
    adjacency : scipy sparse, shape (n, n), or None
        The graph over the rows.
    method : str
        Name of the imputer.
    diagnostics : mapping, optional
        ``MEGAEImputer.diagnostics_``: ``rmse``, ``units``, ``warnings``, ``n_held_out``, ``history``,
        ``best_step``; a key that is not there is left out of the page.
    intervals : (lower, upper), optional
        Two arrays of shape (n, d): the interval of each cell.
    coverage : float, optional
        Share of the true values that the intervals shall hold.
    title : str
        Heading of the page.
    ids : str, optional
        Where the ids come from that edges refer to rows by.
    notes : sequence of str
        Warnings about the input; those that `diagnostics` holds too are shown once.
    force : bool
        Replace an existing file.

    Returns
    -------
    pathlib.Path
        ``path``.
    """
    holes = np.asarray(mask, dtype=bool)
    columns = read_columns(before, after, holes, intervals)
    n, d = holes.shape
    diagnostics = diagnostics or {}
    edges = ("none", "edges", "were given")
    if adjacency is not None:
        n_edges, n_isolated = count_edges(adjacency)
        edges = (f"{n_edges:,}", "edges", f"{n_isolated:,} rows without any")
    n_holes = int(holes.sum())
    share = n_holes / max(holes.size, 1)
    with_holes = [column for column in columns if column.n_holes]
    page = Page(
        title,
        eyebrow="megae impute",
        lead=Markup(
            f"<b>{n_holes:,}</b> of {holes.size:,} cells were missing and were filled with "
            f"<b>{escape(method)}</b>. Every observed cell is as it was."
        ),
        generator="megae impute",
    )
    page.add(
        tiles(
            [
                (f"{n_holes:,}", "holes filled", f"{percent(share)} of all cells"),
                (f"{n:,}", "rows", f"{int((~holes.any(axis=1)).sum()):,} without a hole"),
                (f"{d:,}", "columns", f"{len(with_holes):,} with holes"),
                edges,
            ]
        )
    )
    told = [*notes, *_without_values(columns)]
    page.add(*[notice(text) for text in told if text not in (diagnostics.get("warnings") or [])])
    trust = _held_out(diagnostics, method)
    if trust:
        page.section(
            "How far to trust it",
            *trust,
            intro="Some observed cells were held out: hidden from training, then filled like the real holes. "
            "These are the errors there, next to methods that cost little or nothing.",
        )
    page.section("Column by column", _column_table(columns, intervals is not None, coverage))
    if with_holes:
        shown = with_holes[:MAX_HISTOGRAMS]
        which = ""
        if len(with_holes) > len(shown):
            which = f" The first {len(shown)} of {len(with_holes):,} columns with holes."
        page.section(
            "Observed and filled values",
            key([("var(--bar)", "observed"), ("var(--accent)", "filled")]),
            figure(
                grid([_distribution(column) for column in shown], width=300),
                f"Each as shares of its own total; counts at the right (observed / filled).{which}",
            ),
            intro="Filled values are best guesses, so they spread less than observed ones. A filled shape "
            "far from the observed one is worth a look: holes may not be random there.",
        )
        empty_rows, empty_columns = int(holes.all(axis=1).sum()), int(holes.all(axis=0).sum())
        page.section(
            "Where the holes are",
            key([("#eceff1", "observed"), ("#f0a020", "hole")]),
            _map(holes),
            intro=f"{_plural(empty_rows, 'row')} and {_plural(empty_columns, 'column')} had no observed cell at all.",
        )
    charts = history_charts(diagnostics.get("history") or [], diagnostics.get("best_step"))
    if charts:
        page.section("How it trained", charts)
    about: list[tuple[object, object]] = [("Method", method)]
    if ids is not None:
        about.append(("Ids", ids))
    if diagnostics.get("steps") is not None:
        about.append(("Steps", f"{int(diagnostics['steps']):,}"))
    about.append(("Versions", ", ".join(f"{name} {value}" for name, value in versions().items())))
    page.section("How this page was made", facts(about))
    return page.write(path, force=force)

"""A table as Markdown that also reads well as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from megae.bench.show import footer, wording
from megae.bench.show.samples import Column
from megae.bench.show.summary import Cell, Summary

WIDEST = 150
"""A table of more characters per line is taken apart."""

Strip = tuple[str, list[str]]
"""Header and cells of one printed column."""


def markdown(summary: Summary) -> str:
    """Write a summary as Markdown."""
    parts = [f"# {summary.experiment.name}: {_line(summary.experiment.title)}", footer.lead(summary)]
    for block, columns in wording.blocks(summary).items():
        parts += [f"## {wording.heading(summary, block)}", *_tables(summary, columns)]
        parts += wording.full_features(summary, block[0])
    if summary.mean_ranks:
        parts += ["## Mean ranks", _ranks(summary)]
    if summary.errors:
        parts += ["## Errors", _bullets([f"`{_line(error).replace('`', chr(39))}`" for error in summary.errors])]
    parts += ["## How to read it", _bullets([_line(s) for s in _reading(summary)])]
    parts += ["## Where it was measured", _bullets([f"{n}: {_line(v)}" for n, v in footer.origins(summary.records)])]
    if unsure := footer.doubts(summary.experiment):
        parts += ["## Doubts", _bullets([_line(doubt) for doubt in unsure])]
    return "\n\n".join(parts) + "\n"


def pipes(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A pipe table with aligned columns: the first ``left`` of them, which are text, to the left, the others right.

    Examples
    --------
    >>> print(pipes(["row", "RMSE"], [["a|b", "0.1"], ["c", "not run"]]))
    | row  |    RMSE |
    | :--- | ------: |
    | a\\|b |     0.1 |
    | c    | not run |
    """
    lines = [list(header), *([_line(c).replace("|", "\\|") for c in row[:left]] + list(row[left:]) for row in rows)]
    widths = [max(2, *(len(line[i]) for line in lines)) for i in range(len(header))]
    rule = [":" + "-" * (w - 1) if i < left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    sides = ["<" if i < left else ">" for i in range(len(header))]
    padded = [[f"{c:{side}{w}}" for c, side, w in zip(line, sides, widths, strict=True)] for line in lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in [padded[0], rule, *padded[1:]])


def _tables(summary: Summary, columns: Sequence[Column]) -> list[str]:
    """Tables with as many columns side by side as fit; what belongs to one rate and measure stays together."""
    labels = [_line(row.label) for row in wording.rows(summary)]
    tables: list[list[Strip]] = []
    for _, group in groupby(enumerate(columns), key=lambda entry: (entry[1].rate, entry[1].measure)):
        strips = [strip for i, _ in group for strip in _strips(summary, columns, i)]
        if tables and _width(labels, [*tables[-1], *strips]) <= WIDEST:
            tables[-1] += strips
        else:
            tables.append(strips)
    return [
        pipes(["row", *(head for head, _ in strips)], list(zip(labels, *(texts for _, texts in strips), strict=True)))
        for strips in tables
    ]


def _width(labels: Sequence[str], strips: Sequence[Strip]) -> int:
    return 2 + sum(2 + max(len(text) for text in texts) + 1 for texts in [labels, *([h, *t] for h, t in strips)]) - 1


def _strips(summary: Summary, columns: Sequence[Column], i: int) -> list[Strip]:
    """What is printed of one column: figures, ranks, ratios, and the paper's figures where they follow."""
    column = columns[i]
    cells = [summary.cells[row.label, column] for row in wording.rows(summary)]
    strips = [(wording.column_name(summary, column), _figures(summary, column, cells))]
    if wording.has_ranks(summary, column) and column.variant in (None, "centred"):
        strips.append(("#", [wording.rank_text(cell.rank) for cell in cells]))
    if any(cell.ratio is not None for cell in cells):
        ratios = [wording.NOTHING if cell.ratio is None else f"{cell.ratio:.3f}" for cell in cells]
        strips.append((f"/ {summary.experiment.normalise_by}", ratios))
    if wording.paper_follows(summary, columns, i):
        strips.append((wording.paper_name(summary, column), [wording.paper_text(column, cell) for cell in cells]))
    return strips


def _figures(summary: Summary, column: Column, cells: Sequence[Cell]) -> list[str]:
    """The cells of a column; figures get room for stars and marks, so that their digits stand under each other."""
    places = wording.decimals(summary, column)
    stars = any(cell.verdict == "best" for cell in cells)
    marks = any(cell.verdict in wording.MARKS for cell in cells)
    texts = []
    for cell in cells:
        if cell.mean is None:
            texts.append(wording.without_figure(cell))
            continue
        text = wording.figure(column, cell.mean, places)
        if stars:
            text = f"**{text}**" if cell.verdict == "best" else f"{text}  "
        text = f"{text} {wording.spread(column, cell, places)}".rstrip() if cell.sd is not None else text
        short = wording.incomplete(cell, summary.trials)
        text += f" ({short})" if short else ""
        texts.append(f"{text} {wording.MARKS.get(cell.verdict, ' ')}" if marks else text)
    return texts


def _ranks(summary: Summary) -> str:
    header = ["row", "method", "whose", *(wording.MEASURES[m].removesuffix(" %") for m in summary.mean_ranks)]
    body = []
    for row in wording.rows(summary):
        ranks = [by_row.get(row.label) for by_row in summary.mean_ranks.values()]
        body.append([row.label, row.method, row.origin, *(wording.mean_rank_text(rank) for rank in ranks)])
    return pipes(header, body, left=3)


def _reading(summary: Summary) -> list[str]:
    return [*footer.units(summary), *footer.legend(summary), *summary.notes]


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _line(text: str) -> str:
    """Text on one line."""
    return " ".join(text.split())

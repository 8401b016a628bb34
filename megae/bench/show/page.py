"""A table as a page of HTML that stands on its own; wide tables scroll."""

from __future__ import annotations

from collections.abc import Sequence

from megae.bench.show import footer, wording
from megae.bench.show.samples import Column
from megae.bench.show.summary import Cell, Summary
from megae.report.html import Markup, Page, escape, facts, join, notice, paragraph, table


def page(summary: Summary) -> str:
    """Write a summary as HTML."""
    experiment = summary.experiment
    sheet = Page(
        experiment.title,
        eyebrow=f"{experiment.name}, ours beside the paper",
        lead=footer.lead(summary),
        generator="megae bench show",
    )
    for block, columns in wording.blocks(summary).items():
        reference = [paragraph(sentence, css="under") for sentence in wording.full_features(summary, block[0])]
        sheet.section(wording.heading(summary, block), _table(summary, columns), *reference)
    if summary.mean_ranks:
        sheet.section("Mean ranks", _ranks(summary), intro="Over the columns in which a row has all trials.")
    if summary.errors:
        sheet.section("Errors", *(notice(error) for error in summary.errors))
    reading = [*footer.units(summary), *footer.legend(summary), *summary.notes]
    sheet.section("How to read it", *(paragraph(sentence) for sentence in reading))
    sheet.section("Where it was measured", facts(footer.origins(summary.records)))
    if unsure := footer.doubts(experiment):
        sheet.section("Doubts", *(paragraph(doubt) for doubt in unsure))
    return sheet.render()


def _table(summary: Summary, columns: Sequence[Column]) -> Markup:
    rows = wording.rows(summary)
    headers: list[tuple[object, str]] = [("row", "text")]
    body: list[list[object]] = [[row.label] for row in rows]
    for i, column in enumerate(columns):
        cells = [summary.cells[row.label, column] for row in rows]
        headers.append((wording.column_name(summary, column), "num"))
        places = wording.decimals(summary, column)
        for line, cell in zip(body, cells, strict=True):
            line.append(_cell(summary, column, cell, places))
        if wording.paper_follows(summary, columns, i):
            headers.append((wording.paper_name(summary, column), "num"))
            for line, cell in zip(body, cells, strict=True):
                line.append(wording.paper_text(column, cell))
    return table(headers, body)


def _cell(summary: Summary, column: Column, cell: Cell, places: int) -> Markup:
    if cell.mean is None:
        return escape(wording.without_figure(cell))
    text = escape(wording.figure(column, cell.mean, places))
    if cell.verdict == "best":
        text = Markup(f"<b>{text}</b>")
    after = [wording.spread(column, cell, places), wording.MARKS.get(cell.verdict, "")]
    small = [
        wording.incomplete(cell, summary.trials),
        "" if cell.rank is None else f"rank {wording.rank_text(cell.rank)}",
        "" if cell.p is None else wording.p_text(cell.p),
        "" if cell.ratio is None else f"{cell.ratio:.3f} × {summary.experiment.normalise_by}",
    ]
    below = ", ".join(part for part in small if part)
    above = join([text, *(part for part in after if part)], " ")
    return join([above, Markup(f"<small>{escape(below)}</small>") if below else ""])


def _ranks(summary: Summary) -> Markup:
    headers = [("row", "text"), ("method", "text"), ("whose", "text")]
    headers += [(wording.MEASURES[m].removesuffix(" %"), "num") for m in summary.mean_ranks]
    body = [
        [row.label, row.method, row.origin]
        + [wording.mean_rank_text(by_row.get(row.label)) for by_row in summary.mean_ranks.values()]
        for row in wording.rows(summary)
    ]
    return table(headers, body)

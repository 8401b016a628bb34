"""How figures, cells and columns of a table are put into words, alike on every kind of page."""

from __future__ import annotations

from collections.abc import Sequence

from megae.bench.catalogue import FULL, Row
from megae.bench.show.samples import Column
from megae.bench.show.summary import Cell, MeanRank, Summary

NOTHING = "–"
MARKS = {"level": "≈", "open": "?"}
MEASURES = {"rmse": "RMSE", "accuracy": "accuracy %", "entropy_change": "entropy change %"}
FINE = 0.02
"""RMSE below this is shown with five decimals instead of the paper's four."""

Block = tuple[str, str]
"""Dataset and mechanism: one table on the page."""


def blocks(summary: Summary) -> dict[Block, list[Column]]:
    """Columns with a missing rate, by dataset and mechanism, in the experiment's order.

    What is measured beside the table, where the paper has no figure, is left out as long as none of it was run.
    """
    found: dict[Block, list[Column]] = {}
    for column in summary.columns:
        if column.rate is None:
            continue
        shown = found.setdefault((column.dataset, column.mechanism), [])
        run = any(summary.cells[row.label, column].state not in ("none", "not run") for row in summary.experiment.rows)
        if run or not shown or has_paper(summary, column):
            shown.append(column)
    return found


def rows(summary: Summary) -> list[Row]:
    """Rows that stand in the tables; full features have a sentence of their own."""
    return [row for row in summary.experiment.rows if row.method != FULL]


def heading(summary: Summary, block: Block) -> str:
    """Name of a table."""
    rates = summary.experiment.rates
    return f"{block[0]}, {block[1]}" + (f", {rates[0]:g} missing" if len(rates) == 1 else "")


def column_name(summary: Summary, column: Column) -> str:
    """Name of a column within its table."""
    if len(summary.experiment.rates) == 1:
        return " ".join([MEASURES[column.measure], *([column.prepared] if column.prepared else [])])
    return f"{column.rate:g}: {'% ' + column.prepared if column.prepared else MEASURES[column.measure]}"


def has_paper(summary: Summary, column: Column) -> bool:
    """Whether the paper prints any figure for a column."""
    return any(summary.cells[row.label, column].paper is not None for row in summary.experiment.rows)


def paper_follows(summary: Summary, columns: Sequence[Column], i: int) -> bool:
    """Whether the paper's figures stand behind the i-th column: after the last variant of a measure it prints."""
    column, after = columns[i], columns[i + 1 : i + 2]
    if after and (after[0].rate, after[0].measure) == (column.rate, column.measure):
        return False
    return has_paper(summary, column)


def paper_name(summary: Summary, column: Column) -> str:
    """Name of the column of the paper's figures; where units differ, it says so."""
    return "paper, its unit" if column.measure == "rmse" and summary.unit != "paper" else "paper"


def paper_text(column: Column, cell: Cell) -> str:
    """What the paper prints, to as many digits as it does."""
    return figure(column, cell.paper, {"rmse": 4, "accuracy": 2}.get(column.measure, 0))


def has_ranks(summary: Summary, column: Column) -> bool:
    """Whether any row is ranked in a column."""
    return any(summary.cells[row.label, column].rank is not None for row in summary.experiment.rows)


def decimals(summary: Summary, column: Column) -> int:
    """Decimals of the figures in a column."""
    if column.measure != "rmse":
        return 2 if column.measure == "accuracy" else 1
    means = [c.mean for row in rows(summary) if (c := summary.cells[row.label, column]).mean is not None]
    return 5 if any(0 < mean < FINE for mean in means) else 4


def figure(column: Column, value: float | None, places: int) -> str:
    """A figure of a column: RMSE as it is, shares in percent, changes with their sign."""
    if value is None:
        return NOTHING
    if column.measure == "rmse":
        return f"{value:.{places}f}"
    return f"{100 * value:.{places}f}" if column.measure == "accuracy" else f"{100 * value:+.{places}f}"


def spread(column: Column, cell: Cell, places: int) -> str:
    """The standard deviation, with its sign before it; empty for a single trial."""
    if cell.sd is None:
        return ""
    return f"± {cell.sd * (1 if column.measure == 'rmse' else 100):.{places}f}"


def incomplete(cell: Cell, trials: int) -> str:
    """What is missing from a cell, or nothing."""
    if cell.state != "partial":
        return ""
    errors = f", {cell.failed} {'error' if cell.failed == 1 else 'errors'}" if cell.failed else ""
    return f"{cell.n} of {trials}{errors}"


def without_figure(cell: Cell) -> str:
    """What stands in a cell that has no mean."""
    return {"none": NOTHING}.get(cell.state, cell.state)


def rank_text(rank: float | None) -> str:
    """A rank, shared ones as 2.5."""
    return NOTHING if rank is None else f"{rank:g}"


def p_text(p: float) -> str:
    """A p-value, short."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def mean_rank_text(rank: MeanRank | None) -> str:
    """A mean rank and over how many columns."""
    return NOTHING if rank is None else f"{rank.rank:.2f} ({rank.columns} of {rank.of})"


def full_features(summary: Summary, dataset: str) -> list[str]:
    """What full features reach on a dataset, one sentence for each row of that kind."""
    sentences = []
    columns = [c for c in summary.columns if c.dataset == dataset and c.rate is None]
    for row in summary.experiment.rows:
        if row.method == FULL and columns:
            sentences.append(_reference(summary, row, columns))
    return sentences


def _reference(summary: Summary, row: Row, columns: Sequence[Column]) -> str:
    parts = []
    cells = [summary.cells[row.label, column] for column in columns]
    for column, cell in zip(columns, cells, strict=True):
        text = without_figure(cell)
        if cell.mean is not None:
            short = incomplete(cell, summary.trials)
            text = f"{figure(column, cell.mean, 2)} {spread(column, cell, 2)}".strip()
            text += f" ({short})" if short else ""
        parts.append(f"{text} {column.prepared}")
    if all(cell.mean is None and cell.state == cells[0].state for cell in cells):
        parts = [without_figure(cells[0])]
    paper = "" if cells[0].paper is None else f"; the paper has {figure(columns[0], cells[0].paper, 2)}"
    return f"Accuracy % with {row.label}, a reference out of the ranking: {', '.join(parts)}{paper}."

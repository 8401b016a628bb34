"""A summary as text: Markdown, CSV or HTML."""

from __future__ import annotations

import csv
import io

from megae.bench.show.markdown import markdown
from megae.bench.show.page import page
from megae.bench.show.samples import asked
from megae.bench.show.summary import Summary
from megae.io.errors import InputError

CSV_COLUMNS = (
    "row", "method", "dataset", "mechanism", "rate", "measure", "unit", "mean", "sd", "n", "rank", "p_vs_best", "paper",
)  # fmt: skip


def render(summary: Summary, format: str = "markdown") -> str:
    """Write a summary as text.

    Parameters
    ----------
    summary : Summary
    format : "markdown", "csv" or "html"
        CSV has one line for each row and column of the table, figures unrounded, shares as shares; an empty cell
        where there is no figure.
    """
    if format not in FORMATS:
        raise InputError(f"format must be one of {', '.join(FORMATS)}; got {format!r}")
    return FORMATS[format](summary)


def long_csv(summary: Summary) -> str:
    """Write a summary as long CSV; where the experiment normalises by a row, ratios have lines of their own.

    The unit is that of mean and sd; the paper's RMSE is in the unit of the paper always.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    by = summary.experiment.normalise_by
    for row in summary.experiment.rows:
        for column in summary.columns:
            if not asked(row, column):
                continue
            cell = summary.cells[row.label, column]
            where = [row.label, row.method, column.dataset, column.mechanism, column.rate]
            unit = column.unit(summary.unit)
            figures = [cell.mean, cell.sd, cell.n, cell.rank, cell.p, cell.paper]
            writer.writerow([*where, column.measure_name, unit, *figures])
            if by is not None and column.measure == "rmse":
                writer.writerow([*where, f"rmse / {by}", "ratio", cell.ratio, None, cell.n, None, None, None])
    return buffer.getvalue()


FORMATS = {"markdown": markdown, "csv": long_csv, "html": page}

"""What a comparison says: the winner, how sure it is, and the figures as text and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from megae.bench.ranking import FLOOR, Entry, Scored
from megae.report.html import decimals_for

UNIT_NAMES = {"range": "each column's observed range", "std": "each column's standard deviation"}


@dataclass(frozen=True)
class Comparison:
    """Methods ranked on hidden cells.

    Parameters
    ----------
    entries : list of Entry
        By rank, then the reference, then methods that failed.
    scored : Scored
        The cells.
    settings : dict
        How it was done.
    observed : int
        Observed cells of the table.
    notes : list of str
        What a reader should know beside the figures.
    """

    entries: list[Entry]
    scored: Scored
    settings: dict[str, Any]
    observed: int
    notes: list[str]

    @property
    def winner(self) -> Entry:
        """The method with the lowest score."""
        return self.entries[0]

    @property
    def tied(self) -> list[Entry]:
        """Ranked methods that are not distinguishable from the winner."""
        return [e for e in self.entries if e.rank is not None and e.tied]

    @property
    def failed(self) -> list[Entry]:
        """Methods that could not be scored."""
        return [e for e in self.entries if e.error is not None]

    @property
    def kinds(self) -> list[str]:
        """What was scored: "numbers", "categories" or both."""
        found = {"numbers": self.winner.rmse, "categories": self.winner.error_rate}
        return [kind for kind, figure in found.items() if figure is not None]

    def verdict(self) -> str:
        """The winner and how sure, in a few sentences."""
        best, figure = self.winner, self._figure
        others = [e for e in self.entries[1:] if e.rank is not None]
        text = f"{best.method} has the lowest error, {figure(best.score)} (95 % interval {self._interval(best)})"
        if self.tied:
            text += f", but {_listed([e.method for e in self.tied])} {_are(self.tied)} not distinguishable from it"
        elif others:
            lead = f"{figure(others[0].difference)} ({figure(others[0].difference_low)} to "
            lead += f"{figure(others[0].difference_high)})"
            text += f", ahead of every other method; its lead over {others[0].method} is {lead}"
        text += "."
        if others:
            text += f" {best.method} is first in {100 * (best.best or 0.0):.0f} % of resamples."
        return f"{text}{self._floor()}"

    def _floor(self) -> str:
        """A sentence where filling each column by itself does as well."""
        if self.winner.method in FLOOR:
            return (
                f" {self.winner.method} looks at one column alone: nothing shows that the graph or a model helps on "
                "this table."
            )
        better = [e for e in self.entries if e.rank is None and e.difference_high is not None and e.difference_high < 0]
        if better:
            return f" {better[0].method}, which was not asked for, has a lower error still: prefer it."
        simple = [e.method for e in self.entries if e.tied and e.method in FLOOR]
        if simple:
            return (
                f" {_listed(simple)} cannot be told from the winner here: these cells do not show that the graph or a "
                "model helps on this table; more repeats would narrow the intervals."
            )
        return ""

    def lines(self) -> list[str]:
        """The ranking as aligned text."""
        head = ["rank", "method", "RMSE" if self.kinds == ["numbers"] else "score", "95 % interval", "to the winner"]
        head += ["RMSE"] * (len(self.kinds) == 2) + ["wrong"] * ("categories" in self.kinds) + ["seconds"]
        cells = [head] + [self._cells(e) for e in self.entries if e.error is None]
        widths = [max(len(row[k]) for row in cells) for k in range(len(head))]
        widths[1] = max(len(name) for name in (head[1], *(e.method for e in self.entries)))
        left = (head.index("method"), head.index("to the winner"))
        lines = [
            "  ".join(c.ljust(w) if k in left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
            for row in cells
        ]
        lines += [f"{'-':>{widths[0]}}  {e.method:<{widths[1]}}  failed: {e.error}" for e in self.failed]
        if any(e.tied for e in self.entries):
            lines.append("~ not distinguishable from the winner: the 95 % interval of the difference holds 0")
        if any(e.status == "reference" for e in self.entries):
            lines.append("A method without a rank was not asked for; it runs beside the others as a reference.")
        return [line.rstrip() for line in lines]

    def heading(self) -> str:
        """What was measured, in a sentence."""
        s = self.settings
        times = "once" if s["repeats"] == 1 else f"{s['repeats']} times"
        return (
            f"error in {self.what_counts()}, over {len(self.scored.rows):,} cells hidden on purpose "
            f"({100 * s['rate']:g} % of {self.observed:,} observed cells, {times}, {s['mechanism']})"
        )

    def what_counts(self) -> str:
        """The unit of the score, in words."""
        unit = self.settings["unit"]
        if "categories" not in self.kinds:
            return UNIT_NAMES[unit]
        wrong = "a wrong category is 1" if unit == "range" else "categories as columns of 0 and 1"
        return f"{UNIT_NAMES[unit]} ({wrong})"

    def __str__(self) -> str:
        return "\n".join([self.heading(), *self.lines(), self.verdict()])

    def columns(self) -> list[dict[str, Any]]:
        """For every column with a scored cell: name, kind, cells, the figure of each method, the best method."""
        ranked = [e for e in self.entries if e.error is None]
        found = []
        for j in np.flatnonzero(self.scored.counts).tolist():
            figures = {e.method: float(e.by_column[j]) for e in ranked}
            found.append(
                {
                    "name": self.scored.names[j],
                    "measure": "error_rate" if self.scored.categorical[j] else "rmse",
                    "cells": int(self.scored.counts[j]),
                    "figures": figures,
                    "winner": min((e.method for e in ranked if e.rank is not None), key=lambda m: figures[m]),
                }
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, for JSON and for the page."""
        return {
            "winner": self.winner.method,
            "tied": [e.method for e in self.tied],
            "verdict": self.verdict(),
            "heading": self.heading(),
            "units": self.what_counts(),
            "kinds": self.kinds,
            "methods": [e.to_dict() for e in self.entries],
            "columns": self.columns(),
            "cells": {
                "observed": self.observed,
                "hidden": len(self.scored.rows),
                "rows": len(np.unique(self.scored.rows)),
            },
            "settings": self.settings,
            "notes": self.notes,
        }

    def _cells(self, entry: Entry) -> list[str]:
        figure = self._figure
        away = "winner"
        if entry.rank != 1:
            away = (
                f"{figure(entry.difference, '+')} ({figure(entry.difference_low)} to {figure(entry.difference_high)})"
            )
        cells = ["-" if entry.rank is None else str(entry.rank), entry.method, figure(entry.score)]
        cells += [self._interval(entry), away + " ~" * entry.tied]
        if len(self.kinds) == 2:
            cells.append(figure(entry.rmse))
        if entry.error_rate is not None:
            cells.append(f"{100 * entry.error_rate:.1f} %")
        return [*cells, f"{entry.seconds:.1f}"]

    def _interval(self, entry: Entry) -> str:
        return f"{self._figure(entry.low)} to {self._figure(entry.high)}"

    def _figure(self, value: float | None, sign: str = "") -> str:
        if value is None:
            return "-"
        places = decimals_for(self.winner.score or 1.0)
        return f"{round(value, places) + 0.0:{sign}.{places}f}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _are(several: Sequence[object]) -> str:
    return "is" if len(several) == 1 else "are"

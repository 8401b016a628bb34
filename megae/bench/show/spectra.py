"""Figure 1 again: where on the spectrum the energy of input, latent code and output lies."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from megae.bench.catalogue import Experiment
from megae.io.errors import InputError

STAGES = ("truth", "input", "latent", "output")


def render_spectra(experiment: Experiment, records: Iterable[dict[str, Any]], format: str = "markdown") -> str:
    """Write the spectra of an experiment's records as text.

    Parameters
    ----------
    experiment : Experiment of kind "spectra"
    records : records of its trials
    format : "markdown" (entropies and the energy below and above eigenvalue 1), "csv" (every interval), or "html"
        (the curves)
    """
    found = _by_row(experiment, records)
    if not found:
        raise InputError(f"no record of {experiment.name} holds spectra; run it: megae bench run {experiment.name}")
    if format == "csv":
        return _csv(found)
    if format == "html":
        return _page(experiment, found)
    return _markdown(experiment, found)


Spectra = dict[str, Any]


def _by_row(experiment: Experiment, records: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Spectra]:
    """(row, dataset) -> mean spectra over seeds."""
    gathered: dict[tuple[str, str], list[Spectra]] = {}
    given = list(records)
    for row in experiment.rows:
        for record in given:
            trial = record["trial"]
            if (trial["method"], trial["settings"]) == (row.method, row.settings) and record.get("spectra"):
                gathered.setdefault((row.label, trial["dataset"]), []).append(record["spectra"])
    return {
        place: {
            "edges": many[0]["edges"],
            **{s: np.mean([one[s] for one in many], axis=0).tolist() for s in STAGES},
            "entropy": {s: float(np.mean([one["entropy"][s] for one in many])) for s in STAGES},
            "trials": len(many),
        }
        for place, many in gathered.items()
    }


def _halves(spectra: Spectra, stage: str) -> tuple[float, float]:
    """Shares of energy below and above eigenvalue 1."""
    low = np.asarray(spectra["edges"][1:]) <= 1.0 + 1e-9
    shares = np.asarray(spectra[stage])
    return float(shares[low].sum()), float(shares[~low].sum())


def _markdown(experiment: Experiment, found: dict[tuple[str, str], Spectra]) -> str:
    lines = [f"# {experiment.name}: {experiment.title}", ""]
    lines += ["| row | dataset | trials | signal | spectral entropy | energy at or below 1 | energy above 1 |"]
    lines += ["|---|---|---:|---|---:|---:|---:|"]
    for (label, dataset), spectra in found.items():
        for stage in STAGES:
            low, high = _halves(spectra, stage)
            lines.append(
                f"| {label} | {dataset} | {spectra['trials']} | {stage} | {spectra['entropy'][stage]:.3f} "
                f"| {100 * low:.1f} % | {100 * high:.1f} % |"
            )
    lines += [
        "",
        "Means over test graphs and columns (dimensions of the latent code); eigenvalues lie in [0, 2].",
        "",
    ]
    return "\n".join([*lines, *(f"- {doubt}" for doubt in experiment.doubts), ""])


def _csv(found: dict[tuple[str, str], Spectra]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["row", "dataset", "signal", "from", "to", "share"])
    for (label, dataset), spectra in found.items():
        for stage in STAGES:
            for low, high, share in zip(spectra["edges"], spectra["edges"][1:], spectra[stage], strict=False):
                writer.writerow([label, dataset, stage, low, high, share])
    return buffer.getvalue()


def _page(experiment: Experiment, found: dict[tuple[str, str], Spectra]) -> str:
    from megae.report.charts import line_chart
    from megae.report.html import Page, card, grid, paragraph

    page = Page(experiment.title, eyebrow=experiment.name, generator="megae bench show")
    for (label, dataset), spectra in found.items():
        middles = (np.asarray(spectra["edges"][:-1]) + np.asarray(spectra["edges"][1:])) / 2
        cards = []
        for stage in STAGES:
            alt = f"share of the energy of the {stage} by eigenvalue, {label} on {dataset}"
            chart = line_chart(middles.tolist(), spectra[stage], alt=alt, x_name="eigenvalue")
            cards.append(card(stage, f"entropy {spectra['entropy'][stage]:.3f}", chart))
        page.section(f"{label}, {dataset}", grid(cards, width=320))
    page.section("What is doubtful", *(paragraph(doubt) for doubt in experiment.doubts))
    return page.render()

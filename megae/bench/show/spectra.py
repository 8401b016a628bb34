"""Figure 1 again: where on the spectrum the energy of input, latent code and output lies."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from megae.bench.catalogue import Experiment, Row
from megae.bench.show import footer, wording
from megae.bench.show.markdown import pipes
from megae.io.errors import InputError

STAGES = ("truth", "input", "latent", "output")

Spectra = dict[str, Any]
Place = tuple[str, str]
"""Label of a row, and dataset."""


def render_spectra(experiment: Experiment, records: Iterable[dict[str, Any]], format: str = "markdown") -> str:
    """Write the spectra of an experiment's records as text.

    Parameters
    ----------
    experiment : Experiment of kind "spectra"
    records : records of its trials
    format : "markdown" (entropies and the energy below and above eigenvalue 1), "csv" (every interval), or "html"
        (the curves); all but "csv" name the rows that have not been run
    """
    found: dict[Place, Spectra] = {}
    missing: dict[Place, str] = {}
    used: list[dict[str, Any]] = []
    given = list(records)
    for row in experiment.rows:
        for dataset in experiment.datasets:
            own = _of(row, dataset, given)
            used += own
            if shown := [record for record in own if record["status"] == "ok"]:
                found[row.label, dataset] = _means(shown)
            else:
                missing[row.label, dataset] = "error" if own else "not run"
    if not found:
        raise InputError(f"no record of {experiment.name} holds spectra; run it: megae bench run {experiment.name}")
    if format == "csv":
        return _csv(found)
    if format == "html":
        return _page(experiment, found, missing, used)
    return _markdown(experiment, found, missing, used)


def _of(row: Row, dataset: str, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records of a row that hold spectra, or the error that came instead."""
    what = [row.method, row.settings, dataset]
    own = [r for r in records if [r["trial"][name] for name in ("method", "settings", "dataset")] == what]
    return [record for record in own if record["status"] != "ok" or record.get("spectra")]


def _means(records: Sequence[dict[str, Any]]) -> Spectra:
    """Mean spectra over seeds."""
    many = [record["spectra"] for record in records]
    return {
        "edges": many[0]["edges"],
        **{s: np.mean([one[s] for one in many], axis=0).tolist() for s in STAGES},
        "entropy": {s: float(np.mean([one["entropy"][s] for one in many])) for s in STAGES},
        "seeds": sorted(record["trial"]["seed"] for record in records),
    }


def _halves(spectra: Spectra, stage: str) -> tuple[float, float]:
    """Shares of energy below and above eigenvalue 1."""
    low = np.asarray(spectra["edges"][1:]) <= 1.0 + 1e-9
    shares = np.asarray(spectra[stage])
    return float(shares[low].sum()), float(shares[~low].sum())


def _reading(experiment: Experiment, found: dict[Place, Spectra]) -> list[str]:
    """How to read the figures, and what they say of the entropy term."""
    lines = ["Means over test graphs and columns (dimensions of the latent code); eigenvalues lie in [0, 2]."]
    for dataset in experiment.datasets:
        rows = [row for row in experiment.rows if (row.label, dataset) in found]
        for row in rows:
            settings = {**row.settings, "regularize": False}
            for bare in rows:
                if bare != row and (bare.method, bare.settings) == (row.method, settings):
                    one, other = found[row.label, dataset], found[bare.label, dataset]
                    lines.append(f"On {dataset}, {_effect(one, other)} ({row.label} against {bare.label}).")
    return lines


def _effect(one: Spectra, other: Spectra) -> str:
    """What the entropy term did to the latent code of the one; the other is without it."""
    trained, bare = one["entropy"]["latent"], other["entropy"]["latent"]
    way = "lower" if trained < bare else "higher"
    trials = "one trial each" if len(one["seeds"]) == len(other["seeds"]) == 1 else "means over trials"
    return (
        f"the spectral entropy of the latent code is {way} with L_S, which rewards entropy of that code in training, "
        f"than without: {trained:.3f} against {bare:.3f}, {trials}"
    )


def _markdown(
    experiment: Experiment, found: dict[Place, Spectra], missing: dict[Place, str], used: Sequence[dict[str, Any]]
) -> str:
    header = ["row", "dataset", "signal", "trials", "spectral entropy", "energy at or below 1", "energy above 1"]
    lines = []
    for row in experiment.rows:
        for dataset in experiment.datasets:
            place = row.label, dataset
            if place in missing:
                lines.append([*place, missing[place], "0", *[wording.NOTHING] * 3])
                continue
            for stage in STAGES:
                shares = [f"{100 * share:.1f} %" for share in _halves(found[place], stage)]
                entropy = f"{found[place]['entropy'][stage]:.3f}"
                lines.append([*place, stage, str(len(found[place]["seeds"])), entropy, *shares])
    sections = {
        "How to read it": _reading(experiment, found),
        "Where it was measured": [f"{name}: {fact}" for name, fact in footer.origins(used)],
        "Doubts": footer.doubts(experiment),
    }
    parts = [f"# {experiment.name}: {experiment.title}", pipes(header, lines, left=3)]
    parts += [f"## {name}\n\n" + "\n".join(f"- {line}" for line in text) for name, text in sections.items()]
    return "\n\n".join(parts) + "\n"


def _csv(found: dict[Place, Spectra]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["row", "dataset", "signal", "from", "to", "share"])
    for (label, dataset), spectra in found.items():
        for stage in STAGES:
            for low, high, share in zip(spectra["edges"], spectra["edges"][1:], spectra[stage], strict=False):
                writer.writerow([label, dataset, stage, low, high, share])
    return buffer.getvalue()


def _page(
    experiment: Experiment, found: dict[Place, Spectra], missing: dict[Place, str], used: Sequence[dict[str, Any]]
) -> str:
    from megae.report.charts import line_chart
    from megae.report.html import Page, card, facts, grid, paragraph

    page = Page(experiment.title, eyebrow=experiment.name, generator="megae bench show")
    for (label, dataset), spectra in found.items():
        middles = (np.asarray(spectra["edges"][:-1]) + np.asarray(spectra["edges"][1:])) / 2
        cards = []
        for stage in STAGES:
            alt = f"share of the energy of the {stage} by eigenvalue, {label} on {dataset}"
            chart = line_chart(middles.tolist(), spectra[stage], alt=alt, x_name="eigenvalue")
            cards.append(card(stage, f"entropy {spectra['entropy'][stage]:.3f}", chart))
        page.section(f"{label}, {dataset}", grid(cards, width=320))
    for (label, dataset), why in missing.items():
        page.section(f"{label}, {dataset}", paragraph(why))
    page.section("How to read it", *(paragraph(line) for line in _reading(experiment, found)))
    page.section("Where it was measured", facts(footer.origins(used)))
    page.section("Doubts", *(paragraph(doubt) for doubt in footer.doubts(experiment)))
    return page.render()

"""Spectra of input, latent code and output as text, as CSV and as a page."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from show_cases import SURROUNDINGS

from megae.bench.catalogue import load_experiment
from megae.bench.show import render_spectra

FIGURE1 = load_experiment("figure1")


def record(label: str, seed: int, latent: list[float], entropy: float | None = None) -> dict:
    row = FIGURE1.row(label)
    stages = {"truth": [0.5, 0.5], "input": [0.4, 0.6], "latent": latent, "output": [0.7, 0.3]}
    entropies = {stage: 1.0 + seed for stage in stages} | ({} if entropy is None else {"latent": entropy})
    return {
        "trial": {"dataset": "ENZYMES", "method": row.method, "settings": dict(row.settings), "seed": seed},
        "status": "ok",
        "spectra": {"edges": [0.0, 1.0, 2.0], **stages, "entropy": entropies},
        "device": "cpu",
        "surroundings": {**SURROUNDINGS, "command": "megae bench run figure1"},
    }


RECORDS = [record("GAE", 0, [0.9, 0.1]), record("GAE", 1, [0.7, 0.3]), record("MEGAE", 0, [0.5, 0.5])]


def cells_of(text: str) -> list[list[str]]:
    """Lines of the table, cell by cell."""
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines() if line.startswith("|")]


def test_shares_and_entropies_are_means_over_seeds():
    lines = cells_of(render_spectra(FIGURE1, RECORDS))
    assert ["GAE", "ENZYMES", "latent", "2", "1.500", "80.0 %", "20.0 %"] in lines
    assert ["MEGAE", "ENZYMES", "latent", "1", "1.000", "50.0 %", "50.0 %"] in lines


def test_every_row_of_the_figure_is_there_run_or_not():
    failed = {**RECORDS[0], "spectra": None, "status": "error"}
    failed["trial"] = {**record("MEGAE (default)", 0, [1.0, 0.0])["trial"]}
    without = {**record("MEGAE without L_S", 0, [1.0, 0.0]), "spectra": None}
    lines = cells_of(render_spectra(FIGURE1, [*RECORDS, failed, without]))
    assert list(dict.fromkeys(line[0] for line in lines[2:])) == [row.label for row in FIGURE1.rows]
    assert ["MEGAE without L_S", "ENZYMES", "not run", "0", "–", "–", "–"] in lines
    assert ["MEGAE (default)", "ENZYMES", "error", "0", "–", "–", "–"] in lines
    page = render_spectra(FIGURE1, [*RECORDS, failed, without], "html")
    assert page.count("<p>not run</p>") == page.count("<p>error</p>") == 1


@pytest.mark.parametrize("form", ["markdown", "html"])
def test_where_it_was_measured_and_what_is_doubtful_stand_below(form):
    unused = {**record("MEGAE", 1, [1.0, 0.0]), "spectra": None}
    unused["surroundings"] = {**SURROUNDINGS, "command": "another"}
    text = render_spectra(FIGURE1, [*RECORDS, unused], form)
    assert "Test CPU, 2 cores, no GPU, trained on cpu" in text
    assert "megae bench run figure1" in text
    assert "another" not in text
    assert "no number of it is known" in text
    assert "GAE: The figure shows a GAE with a GCN encoder" in text


@pytest.mark.parametrize(("entropy", "way"), [(0.24, "lower"), (0.81, "higher")])
def test_what_the_entropy_term_did_is_said_as_it_came(entropy, way):
    made = [record("MEGAE", 0, [1.0, 0.0], entropy), record("MEGAE without L_S", 0, [1.0, 0.0], 0.46)]
    text = render_spectra(FIGURE1, made)
    assert f"the spectral entropy of the latent code is {way} with L_S" in text
    assert f"than without: {entropy:.3f} against 0.460, one trial each (MEGAE against MEGAE without L_S)." in text
    assert "with L_S, which" not in render_spectra(FIGURE1, made[:1])


def test_csv_has_every_interval():
    frame = pd.read_csv(io.StringIO(render_spectra(FIGURE1, RECORDS, "csv")))
    latent = frame[(frame.row == "GAE") & (frame.signal == "latent")]
    assert latent.share.tolist() == pytest.approx([0.8, 0.2])
    assert latent["to"].tolist() == [1.0, 2.0]


def test_the_page_has_a_chart_for_each_stage():
    page = render_spectra(FIGURE1, RECORDS, "html")
    assert page.count("<svg") == 8
    assert "share of the energy of the latent by eigenvalue, GAE on ENZYMES" in page


def test_records_without_spectra_are_told():
    with pytest.raises(ValueError, match="megae bench run figure1"):
        render_spectra(FIGURE1, [{**RECORDS[0], "spectra": None}])

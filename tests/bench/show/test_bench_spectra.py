"""Spectra of input, latent code and output as text, as CSV and as a page."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from megae.bench.catalogue import load_experiment
from megae.bench.show import render_spectra

FIGURE1 = load_experiment("figure1")


def record(label: str, seed: int, latent: list[float]) -> dict:
    row = FIGURE1.row(label)
    stages = {"truth": [0.5, 0.5], "input": [0.4, 0.6], "latent": latent, "output": [0.7, 0.3]}
    entropy = {stage: 1.0 + seed for stage in stages}
    return {
        "trial": {"dataset": "ENZYMES", "method": row.method, "settings": dict(row.settings), "seed": seed},
        "spectra": {"edges": [0.0, 1.0, 2.0], **stages, "entropy": entropy},
    }


RECORDS = [record("GAE", 0, [0.9, 0.1]), record("GAE", 1, [0.7, 0.3]), record("MEGAE", 0, [0.5, 0.5])]


def test_shares_and_entropies_are_means_over_seeds():
    lines = render_spectra(FIGURE1, RECORDS).splitlines()
    assert "| GAE | ENZYMES | 2 | latent | 1.500 | 80.0 % | 20.0 % |" in lines
    assert "| MEGAE | ENZYMES | 1 | latent | 1.000 | 50.0 % | 50.0 % |" in lines
    assert any("no number of it is known" in line for line in lines)


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

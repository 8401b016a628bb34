"""The page of ``megae impute --report`` says what happened to the table."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from test_report_html import EVIL, Outline

from megae.io.errors import InputError
from megae.report.impute import count_edges, write_report

DIAGNOSTICS = {
    "rmse": {"megae": 0.5, "graph_free": 0.625, "mean": 1.0, "propagation": None},
    "units": "standard deviations",
    "warnings": ["the graph does not help: " + EVIL],
    "n_held_out": 1234,
    "steps": 300,
    "best_step": 200,
    "history": [{"step": s, "loss": 1.0 / (s + 1), "val_rmse": 0.5, "entropy": 1.7} for s in range(0, 300, 100)],
}


def table(n: int = 30, d: int = 3) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    after = pd.DataFrame(rng.normal(10.0, 2.0, (n, d)), columns=[f"c{j}" for j in range(d)])
    mask = rng.random((n, d)) < 0.25
    return after.mask(mask), after, mask


def ring(n: int) -> sp.csr_array:
    i = np.arange(n)
    return sp.csr_array((np.ones(n), (i, (i + 1) % n)), shape=(n, n))


def write(path: Path, **changes: object) -> tuple[str, Outline]:
    before, after, mask = table()
    arguments: dict[str, object] = dict(before=before, after=after, mask=mask, adjacency=ring(30), method="megae")
    write_report(path, **(arguments | changes))  # type: ignore[arg-type]
    text = path.read_text(encoding="utf-8")
    return text, Outline(text)


def test_page_shows_counts_and_figures(tmp_path: Path) -> None:
    before, after, mask = table()
    text, outline = write(tmp_path / "r.html", diagnostics=DIAGNOSTICS, intervals=(after - 1.5, after + 1.5))
    tiles = re.findall(r'class="value">([^<]+)</div>', text)
    assert tiles == [str(mask.sum()), "30", "3", "30"]
    rows = re.findall(r"<tr><td class=\"text\">(c\d)</td>(.*?)</tr>", text)
    assert [name for name, _ in rows] == ["c0", "c1", "c2"]
    for j, (name, cells) in enumerate(rows):
        values = re.findall(r">([^<]+)</td>", cells)
        assert values[0] == str(mask[:, j].sum())
        filled = after[name].to_numpy()[mask[:, j]]
        expected = [before[name].mean(), before[name].std(ddof=0), filled.mean(), filled.std(), 1.5]
        assert [float(v) for v in values[2:]] == pytest.approx(expected, abs=6e-4)
    assert "1,234 cells hidden on purpose, in standard deviations" in text
    order = [text.index(f"{label}<small>") for label in ("MEGAE", "MEGAE without the graph", "Column mean")]
    assert order == sorted(order)
    assert "Feature propagation<small>" not in text
    assert "0.63×" in text or "0.62×" in text
    assert "marks step 200" in text
    assert all(attributes.get("alt") for tag, attributes in outline.tags if tag == "img")
    assert sum(tag == "svg" for tag, _ in outline.tags) == 6


def test_the_page_names_the_method_and_the_ids(tmp_path: Path) -> None:
    text, _ = write(tmp_path / "r.html", diagnostics=DIAGNOSTICS, method="inv-mlp", ids="column 'fips'")
    assert "inv-mlp<small>as used here" in text
    assert "inv-mlp without the graph<small>" in text
    assert "MEGAE<small>" not in text
    assert "<dt>Ids</dt><dd>column &#x27;fips&#x27;</dd>" in text


def test_user_text_is_escaped(tmp_path: Path) -> None:
    before, after, _ = table()
    before.columns = after.columns = [EVIL, "b", "c"]
    _, outline = write(
        tmp_path / "r.html", before=before, after=after, title=EVIL, method=EVIL, diagnostics=DIAGNOSTICS
    )
    assert not any(tag == "script" for tag, _ in outline.tags)
    assert sum(EVIL in words for words in outline.words) >= 5


@pytest.mark.parametrize("diagnostics", [None, {}, {"warnings": []}, {"rmse": {}}, {"rmse": {"megae": float("nan")}}])
def test_missing_diagnostics_leave_sections_out(tmp_path: Path, diagnostics: dict[str, object] | None) -> None:
    text, _ = write(tmp_path / "r.html", diagnostics=diagnostics, adjacency=None)
    assert "How far to trust it" not in text
    assert "How it trained" not in text
    assert "Column by column" in text
    assert "were given" in text
    assert "rows without any" not in text


def test_partial_diagnostics_are_tolerated(tmp_path: Path) -> None:
    text, _ = write(tmp_path / "r.html", diagnostics={"rmse": {"megae": 0.5, "other-method": 2.0}})
    assert "other-method" in text
    text, _ = write(tmp_path / "s.html", diagnostics={"warnings": ["only a warning"]})
    assert "only a warning" in text


def test_no_holes_and_extreme_shapes(tmp_path: Path) -> None:
    _, after, _ = table()
    text, _ = write(tmp_path / "a.html", before=after, mask=np.zeros((30, 3), dtype=bool))
    assert "Where the holes are" not in text
    before, after, mask = table(2, 400)
    text, _ = write(tmp_path / "b.html", before=before, after=after, mask=mask, adjacency=ring(2))
    assert "first 200 of 400 columns" in text
    assert "The first 12 of" in text
    before, after, mask = table(2000, 1)
    text, _ = write(tmp_path / "c.html", before=before, after=after, mask=mask, adjacency=ring(2000))
    assert "averaged to 360 × 1" in text


def test_notes_and_columns_without_a_value_are_shown_once(tmp_path: Path) -> None:
    before, _, mask = table()
    before, mask = before.assign(c1=np.nan), mask.copy()
    mask[:, 1] = True
    notes = ["weights: column 'km' " + EVIL, *DIAGNOSTICS["warnings"]]  # type: ignore[misc]
    text, outline = write(tmp_path / "r.html", before=before, mask=mask, notes=notes, diagnostics=DIAGNOSTICS)
    assert text.count('class="notice"') == 3
    assert any("weights: column 'km' " + EVIL in words for words in outline.words)
    assert "no value is observed in &#x27;c1&#x27;: what stands there is a placeholder" in text
    assert " and 1 column had no observed cell" in text


def test_edges_count_once() -> None:
    rows, columns = [0, 1, 0, 2, 3, 3], [1, 0, 1, 2, 4, 5]
    A = sp.coo_array(([1.0, 1.0, 2.0, 1.0, 0.5, 0.0], (rows, columns)), shape=(7, 7))
    assert count_edges(A) == (2, 3)
    assert count_edges(sp.csr_array((4, 4))) == (0, 4)


def test_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("mine")
    with pytest.raises(InputError, match="--force"):
        write(path)
    assert path.read_text() == "mine"
    before, _, mask = table()
    with pytest.raises(ValueError, match="still has"):
        write_report(path, before=before, after=before, mask=mask, adjacency=None, method="mean", force=True)
    assert path.read_text() == "mine"
    text, _ = write(path, force=True)
    assert "holes filled" in text
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]

"""The page of the demo: pictures and figures are the ones it was given."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
from test_report_html import EVIL, Outline

from megae.report.demo import GENERATOR, Pictures, choose_pictures, write_demo_report
from megae.report.html import generator_of
from megae.report.pixels import ink


def pictures(n: int = 40) -> Pictures:
    rng = np.random.default_rng(0)
    original = rng.random((n, 8, 8))
    holes = rng.random((n, 8, 8)) < 0.3
    filled = np.where(holes, original + rng.normal(0, 0.1, (n, 8, 8)), original)
    return Pictures(original, filled, holes, np.arange(n)[::-1] % 10)


def result() -> dict[str, Any]:
    scores = {"megae": 0.12, "feature-propagation": 0.24, "image-knn": 0.16, "zero": 0.48}
    rows = [
        dict(method=name, label=name.upper(), note=EVIL, rmse=rmse, mae=rmse / 2, seconds=1.26)
        for name, rmse in scores.items()
    ]
    return dict(
        rows=rows,
        split=dict(train=1258, validation=180, test=359),
        rate=0.3,
        n_holes=6543,
        seed=11,
        device="cpu",
        settings=dict(max_steps=300, preset="default"),
        history=[dict(step=s, loss=1.0 / (1 + s), val_rmse=0.3 - s / 1000) for s in (0, 100, 200)],
        best_step=200,
        seconds=99.6,
        report="report.html",
        versions={"torch": "2.13.0"},
        command_line="megae demo --seed 11",
    )


def test_rmse_is_over_holes_alone() -> None:
    p = pictures()
    error = (p.filled - p.original)[3][p.holes[3]]
    np.testing.assert_allclose(p.rmse()[3], np.sqrt(np.mean(error**2)))
    whole = Pictures(p.original, p.filled, np.zeros_like(p.holes), p.labels)
    assert (whole.rmse() == 0).all()


def test_choice_is_blind_first_and_worst_last() -> None:
    p = pictures()
    first, worst = choose_pictures(p, n_worst=4)
    assert p.labels[first].tolist() == list(range(10))
    assert all(p.labels[:i].tolist().count(p.labels[i]) == 0 for i in first)
    errors = p.rmse()
    np.testing.assert_array_equal(errors[worst], np.sort(errors)[::-1][:4])


def test_page_holds_figures_and_pictures(tmp_path: Path) -> None:
    p = pictures()
    path = write_demo_report(tmp_path / "report.html", result(), p)
    assert generator_of(path) == GENERATOR
    text = path.read_text(encoding="utf-8")
    outline = Outline(text)
    assert not any(tag == "script" for tag, _ in outline.tags)
    assert re.findall(r'class="value">([^<]+)</div>', text) == ["0.120", "0.50×", "0.75×", "1 s"]
    labels = re.findall(r'<td class="text">([A-Z-]+)<small>', text)
    assert labels == ["MEGAE", "IMAGE-KNN", "FEATURE-PROPAGATION", "ZERO"]
    widths = [float(w) for w in re.findall(r'class="bar" style="width:([\d.]+)%', text)]
    np.testing.assert_allclose(widths, [25.0, 100 / 3, 50.0, 100.0], atol=0.01)
    for fact in ("megae demo --seed 11", "6,543", "max_steps=300", "torch 2.13.0", "100 seconds"):
        assert fact in text
    first, worst = choose_pictures(p)
    shown = [a for tag, a in outline.tags if tag == "img"]
    assert len(shown) == 3 * (len(first) + len(worst))
    data = [base64.b64decode(str(a["src"]).partition(",")[2]) for a in shown]
    decoded = [np.rint(matplotlib.image.imread(io.BytesIO(b), "png")[..., :3] * 255) for b in data]
    i = first[2]
    np.testing.assert_array_equal(decoded[2], ink(p.original[i]))
    np.testing.assert_array_equal(decoded[10 + 2], ink(p.original[i], p.holes[i]))
    np.testing.assert_array_equal(decoded[20 + 2], ink(p.filled[i]))
    np.testing.assert_array_equal(decoded[30], ink(p.original[worst[0]]))
    assert all(a["alt"] for a in shown)
    assert "How it trained" in text


def test_a_training_cut_short_by_its_budget_is_said(tmp_path: Path) -> None:
    def page(**settings: Any) -> str:
        made = result() | dict(settings=dict(max_steps=300) | settings)
        return write_demo_report(tmp_path / "r.html", made, pictures()).read_text(encoding="utf-8")

    assert "Training ended at step 200 of 300, when its 1.25 seconds were used up" in page(time_budget=1.25)
    assert "were used up" not in page(time_budget=60.0)  # it ended for lack of progress
    assert "were used up" not in page(time_budget=1.25, max_steps=200)
    assert "were used up" not in page()


def test_page_without_history_has_no_curve(tmp_path: Path) -> None:
    bare = result() | dict(history=[], best_step=None)
    text = write_demo_report(tmp_path / "r.html", bare, pictures()).read_text(encoding="utf-8")
    assert "How it trained" not in text

"""The demo: honest holes, fair scoring, its own report and nothing else; run in small and in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from megae import demo
from megae.datasets import load_digits_graphs
from megae.io.errors import InputError
from megae.report.html import Page

METHODS = {"zero", "mean", "position-mean", "feature-propagation", "knn", "image-knn", "megae"}


def test_holes_are_nan_in_copies_of_intensity_alone() -> None:
    graphs = load_digits_graphs()[:5]
    holes = np.random.default_rng(0).random((5, 64)) < 0.3
    before = [graph.x.clone() for graph in graphs]
    out = demo.with_holes(graphs, holes)
    assert all(torch.equal(graph.x, x) for graph, x in zip(graphs, before, strict=True))
    assert np.array_equal(np.isnan(demo.intensities(out)), holes)
    for copy, x in zip(out, before, strict=True):
        assert torch.equal(copy.x[:, 1:], x[:, 1:])
        seen = ~copy.x[:, 0].isnan()
        assert torch.equal(copy.x[seen], x[seen])


def test_position_mean_is_the_training_mean_of_the_place() -> None:
    rng = np.random.default_rng(0)
    train, test = rng.random((20, 64)), rng.random((3, 64))
    holes = rng.random((3, 64)) < 0.5
    filled = demo.fill_position_mean(train, np.where(holes, np.nan, test))
    i, j = np.argwhere(holes)[7]
    assert filled[i, j] == pytest.approx(sum(train[:, j]) / 20)
    assert np.array_equal(filled[~holes], test[~holes])


def test_image_knn_matches_brute_force() -> None:
    rng = np.random.default_rng(1)
    train, test = rng.random((30, 64)), rng.random((4, 64))
    holes = rng.random((4, 64)) < 0.3
    filled = demo.fill_image_knn(train, np.where(holes, np.nan, test), n_neighbors=5)
    for i in range(4):
        distance = ((train - test[i])[:, ~holes[i]] ** 2).sum(axis=1)
        nearest = np.argsort(distance)[:5]
        np.testing.assert_allclose(filled[i, holes[i]], train[nearest][:, holes[i]].mean(axis=0))


def test_score_pools_over_holes_and_refuses_cheats() -> None:
    truth = np.zeros((2, 4))
    holes = np.array([[True, False, False, False], [True, True, True, False]])
    filled = np.where(holes, np.array([[1.0] * 4, [3.0] * 4]), truth)
    rmse, mae = demo.score(filled, truth, holes)
    assert rmse == pytest.approx(np.sqrt((1 + 9 * 3) / 4))
    assert mae == pytest.approx((1 + 3 * 3) / 4)
    with pytest.raises(ValueError, match="changed observed"):
        demo.score(filled + 1, truth, holes)
    with pytest.raises(ValueError, match="left holes open"):
        demo.score(np.where(holes, np.nan, truth), truth, holes)


def test_target_replaces_its_own_report_alone(tmp_path: Path) -> None:
    assert demo.check_target(tmp_path / "new", False) == tmp_path / "new" / "report.html"
    assert not (tmp_path / "new").exists()
    Page("old", generator="megae demo").write(tmp_path / "report.html")
    assert demo.check_target(tmp_path, False) == tmp_path / "report.html"
    Page("other", generator="megae impute").write(tmp_path / "report.html", force=True)
    with pytest.raises(InputError, match="--force"):
        demo.check_target(tmp_path, False)
    assert demo.check_target(tmp_path, True) == tmp_path / "report.html"
    with pytest.raises(InputError, match="is a file"):
        demo.check_target(tmp_path / "report.html", True)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The real demo on 120 images, two training steps."""
    graphs = load_digits_graphs()[:120]
    monkeypatch.setattr(demo, "load_digits_graphs", lambda: graphs)
    monkeypatch.setattr(demo, "DEMO_SETTINGS", dict(max_steps=2, diagnose=False))
    monkeypatch.setattr(demo, "NODE_KNN", dict(n_neighbors=5, max_donors=500))
    return graphs


def test_small_run_writes_report_and_result(tmp_path: Path, small: list[Any]) -> None:
    out = tmp_path / "deep" / "megae-demo"
    result = demo.run_demo(out, seed=3, device="cpu", verbose=0)
    assert [path.name for path in out.iterdir()] == ["report.html"]
    assert {row["method"] for row in result["rows"]} == METHODS
    assert result["split"] == dict(train=84, validation=12, test=24)
    assert 0.25 < result["n_holes"] / (24 * 64) < 0.35
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    rmse = {row["method"]: row["rmse"] for row in result["rows"]}
    assert rmse["image-knn"] < rmse["position-mean"] < rmse["mean"] < rmse["zero"]
    text = (out / "report.html").read_text(encoding="utf-8")
    assert all(f"{row['rmse']:.4f}" in text for row in result["rows"])
    again = demo.run_demo(out, seed=3, device="cpu", verbose=0)
    assert [row["rmse"] for row in again["rows"]] == [row["rmse"] for row in result["rows"]]


def test_no_method_sees_what_is_hidden(tmp_path: Path, small: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Changing the hidden truth of test and validation images changes no filled value."""
    seen: list[np.ndarray] = []
    honest_score = demo.score

    def keep(filled: np.ndarray, truth: np.ndarray, holes: np.ndarray) -> tuple[float, float]:
        seen.append(np.where(holes, filled, 0.0))
        return honest_score(filled, truth, holes)

    hidden: list[tuple[Any, np.ndarray]] = []
    honest_holes = demo.with_holes

    def remember(graphs: list[Any], holes: np.ndarray) -> list[Any]:
        hidden.extend(zip(graphs, holes, strict=True))
        return honest_holes(graphs, holes)

    monkeypatch.setattr(demo, "score", keep)
    monkeypatch.setattr(demo, "with_holes", remember)
    demo.run_demo(tmp_path, seed=0, device="cpu", verbose=0)
    assert len(hidden) == 12 + 24
    for graph, gaps in hidden:
        graph.x[torch.from_numpy(gaps), 0] = 0.123
    demo.run_demo(tmp_path, seed=0, device="cpu", verbose=0)
    half = len(METHODS)
    assert len(seen) == 2 * half
    for first, second in zip(seen[:half], seen[half:], strict=True):
        assert np.array_equal(first, second)


def example_result() -> dict[str, Any]:
    rows = [
        dict(method="feature-propagation", label="Feature propagation", rmse=0.25, mae=0.2, seconds=0.04),
        dict(method="image-knn", label="KNN over whole images", rmse=0.125, mae=0.08, seconds=12.3),
        dict(method="megae", label="MEGAE", rmse=0.15, mae=0.1, seconds=99.0),
    ]
    settings = dict(max_steps=2200, time_budget=140.0)
    said = dict(rate=0.3, n_holes=6900, seed=0, report="megae-demo/report.html", settings=settings)
    return dict(rows=rows, split=dict(test=359), history=[dict(step=2200)], **said)


def test_table_is_plain_text_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    demo.print_table(example_result())
    out = capsys.readouterr().out
    assert "\x1b" not in out
    lines = out.splitlines()
    assert lines[0].startswith("6,900 hidden pixels (30 %) of 359 test digits")
    assert [line[:21].strip() for line in lines[3:6]] == [
        "KNN over whole images",
        "MEGAE",
        "Feature propagation",
    ]
    assert lines[4].split() == ["MEGAE", "0.1500", "0.1000", "99.0"]
    assert len({len(line) for line in lines[2:6]}) == 1
    assert "0.60 times that of feature propagation and 1.20 times" in out
    assert lines[-1] == "Report: megae-demo/report.html"


def test_a_training_cut_short_is_said_with_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    result = example_result()
    demo.print_table(result)
    assert "Training ended" not in capsys.readouterr().out
    next(row for row in result["rows"] if row["method"] == "megae")["seconds"] = 141.0
    result["history"] = [dict(step=568)]
    demo.print_table(result)
    assert "Training ended at step 568 of 2,200, when its 140 seconds were used up." in capsys.readouterr().out


def test_table_is_drawn_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    demo.print_table(example_result())
    out = capsys.readouterr().out
    assert "│" in out
    assert "\x1b[1;36m" in out
    assert out.index("KNN over whole images") < out.index("MEGAE") < out.index("Feature propagation")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_figures_of_the_full_demo_hold(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "DEMO_SETTINGS", {**demo.DEMO_SETTINGS, "time_budget": None})  # steps alone decide
    result = demo.run_demo(tmp_path, device="cpu", verbose=0)
    rmse = {row["method"]: row["rmse"] for row in result["rows"]}
    assert rmse["megae"] <= 0.65 * rmse["feature-propagation"]
    assert all(rmse["megae"] < value for name, value in rmse.items() if name not in ("megae", "image-knn"))


def test_altering_hidden_pixels_changes_no_filled_bit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graphs = load_digits_graphs()[:160]
    tiny = dict(hidden=8, band_width=2, blocks=1, max_steps=4, diagnose=False)
    monkeypatch.setattr(demo, "DEMO_SETTINGS", tiny)
    monkeypatch.setattr(demo, "load_digits_graphs", lambda: [graph.clone() for graph in graphs])
    score, scored = demo.score, []

    def spy(filled: np.ndarray, truth: np.ndarray, holes: np.ndarray) -> tuple[float, float]:
        scored.append((filled.copy(), holes))
        return score(filled, truth, holes)

    monkeypatch.setattr(demo, "score", spy)
    first = demo.run_demo(tmp_path / "a", device="cpu", verbose=0)
    before, holes = [filled for filled, _ in scored], scored[0][1]
    for i, hidden in zip(demo.split_indices(160, random_state=np.random.default_rng(0))[2], holes, strict=True):
        graphs[i].x[torch.from_numpy(hidden), 0] = 1 - graphs[i].x[torch.from_numpy(hidden), 0]
    scored.clear()
    second = demo.run_demo(tmp_path / "b", device="cpu", verbose=0)
    assert len(before) == len(METHODS)
    for old, (new, _) in zip(before, scored, strict=True):
        assert old.tobytes() == new.tobytes()
    assert [row["rmse"] for row in first["rows"]] != [row["rmse"] for row in second["rows"]]

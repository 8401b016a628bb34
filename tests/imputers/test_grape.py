"""GRAPE on tables whose columns tell of each other."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from imputer_cases import same_bits, table

from megae.imputers import GRAPEImputer, MeanImputer
from megae.imputers import grape as module
from megae.imputers.build import seed_from
from megae.training.hiding import step_generator


def correlated(n: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(n, 5) out of two hidden factors, and a quarter of its cells as holes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 5)) + 0.05 * rng.standard_normal((n, 5))
    return X, rng.random(X.shape) < 0.2


def rmse(filled: np.ndarray, X: np.ndarray, holes: np.ndarray) -> float:
    return float(np.sqrt(np.mean((filled - X)[holes] ** 2)))


def test_beats_the_mean_on_a_correlated_table_and_on_new_rows():
    X, holes = correlated()
    new, new_holes = X[200:], holes[200:]
    X, holes = X[:200], holes[:200]
    shown = np.where(holes, np.nan, X)
    imputer = GRAPEImputer(max_steps=500, hidden=32, batch_edges=1000, learning_rate=1e-2, random_state=0).fit(shown)
    mean = MeanImputer().fit(shown)
    assert rmse(imputer.transform(shown), X, holes) < 0.7 * rmse(mean.transform(shown), X, holes)
    shown = np.where(new_holes, np.nan, new)
    assert rmse(imputer.transform(shown), new, new_holes) < 0.7 * rmse(mean.transform(shown), new, new_holes)


def test_a_zero_is_an_edge_and_a_hole_is_none():
    X = table(rate=0.0)
    X[3, 0] = 1.0
    X[:, 1] = 0.0
    imputer = GRAPEImputer(max_steps=5, hidden=8, random_state=0).fit(X)
    with_hole = X[:6].copy()
    with_hole[:, 0] = np.nan
    without_zero = with_hole.copy()
    without_zero[:, 1] = np.nan
    assert not np.allclose(imputer.transform(with_hole)[:, 0], imputer.transform(without_zero)[:, 0])


def test_rows_are_filled_alike_in_any_company(monkeypatch):
    X = table(60, 4)
    imputer = GRAPEImputer(max_steps=5, hidden=8, random_state=0).fit(X)
    whole = imputer.transform(X)
    np.testing.assert_allclose(imputer.transform(X[10:20]), whole[10:20], rtol=1e-5)
    monkeypatch.setattr(module, "CHUNK_EDGES", 8)
    np.testing.assert_allclose(imputer.transform(X), whole, rtol=1e-5)


def test_a_step_embeds_no_more_cells_than_asked(monkeypatch):
    sizes = []
    forward = module.BipartiteNetwork.forward

    def watched(self, values, shown):
        sizes.append(tuple(values.shape))
        return forward(self, values, shown)

    monkeypatch.setattr(module.BipartiteNetwork, "forward", watched)
    GRAPEImputer(max_steps=3, hidden=4, batch_edges=400, random_state=0).fit(table(500, 4))
    assert sizes == [(100, 4)] * 3
    sizes.clear()
    GRAPEImputer(max_steps=64, hidden=4, batch_edges=4, random_state=0).fit(table(500, 4))
    assert sizes == [(module.LEAST_ROWS, 4)] * 2  # as many cells as 64 steps of four


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.8])
def test_a_step_drops_that_share_of_the_cells_and_asks_for_all(dropout, monkeypatch):
    calls = []
    forward = module.BipartiteNetwork.forward

    def watched(self, values, shown):
        calls.append((values, shown, forward(self, values, shown)))
        return calls[-1][2]

    monkeypatch.setattr(module.BipartiteNetwork, "forward", watched)
    X = correlated(2000)[0]
    imputer = GRAPEImputer(max_steps=1, hidden=4, batch_edges=10_000, edge_dropout=dropout, validation_fraction=0.0)
    found = imputer.set_params(random_state=0).fit(X).outcome_.history[0]["loss"]
    values, shown, filled = (t.detach().numpy() for t in calls[0])
    order = torch.randperm(2000, generator=step_generator(seed_from(0), 0, torch.device("cpu"))).numpy()
    truth = ((X - X.min(axis=0)) / np.ptp(X, axis=0))[order]
    assert 1 - shown.mean() == pytest.approx(dropout, abs=0.02)
    np.testing.assert_allclose(values, np.where(shown, truth, 0.0), rtol=1e-5, atol=1e-6)
    assert found == pytest.approx(np.mean((filled - truth) ** 2), rel=1e-4)


def test_the_cells_of_a_category_are_dropped_together(monkeypatch):
    frame = pd.DataFrame({"c": pd.Categorical(list("abc") * 20), "x": np.arange(60.0)})
    masks = []
    forward = module.BipartiteNetwork.forward

    def watched(self, values, shown):
        masks.append(shown)
        return forward(self, values, shown)

    monkeypatch.setattr(module.BipartiteNetwork, "forward", watched)
    GRAPEImputer(max_steps=4, hidden=4, validation_fraction=0.0, random_state=0).fit(frame)
    hot = torch.cat(masks)[:, :3]
    assert (hot == hot[:, :1]).all()
    assert (hot == 0).any()


def test_time_budget_ends_training(ticking):
    imputer = GRAPEImputer(max_steps=200, hidden=8, time_budget=600.0, random_state=0).fit(table())
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 10


def test_same_seed_same_bits():
    X = table()
    a, b, c = (GRAPEImputer(max_steps=5, hidden=8, random_state=s).fit_transform(X) for s in (0, 0, 1))
    assert same_bits(a, b)
    assert not same_bits(a, c)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"layers": 0}, "layers must be at least 1"),
        ({"edge_dropout": 1.0}, "edge_dropout must lie in"),
        ({"max_steps": 0}, "max_steps must be"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        GRAPEImputer(**setting).fit(table())

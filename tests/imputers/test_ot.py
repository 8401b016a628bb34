from __future__ import annotations

import numpy as np
import pytest
import torch
from imputer_cases import same_bits, table
from row_cases import as_graphs, correlated, graphs_error, punched, table_error

from megae.imputers import OTImputer

FAST = {
    "batch": {"form": "batch", "max_steps": 800, "batch_size": 64, "visits": 60, "learning_rate": 0.03},
    "round-robin": {"form": "round-robin", "max_steps": 600, "batch_size": 64, "pairs": 3, "model": "linear"},
}


@pytest.mark.parametrize("form", FAST)
def test_beats_the_mean_clearly_on_a_table_and_on_new_graphs(form):
    assert table_error(OTImputer(random_state=0, **FAST[form])) < 0.6
    assert graphs_error(OTImputer(random_state=0, **FAST[form])) < 0.6


def test_perceptrons_in_round_robin():
    assert table_error(OTImputer(random_state=0, **{**FAST["round-robin"], "model": "mlp"})) < 0.6


def test_auto_takes_the_form_with_the_lower_held_out_error():
    X = punched(correlated(300))
    kw = {"max_steps": 200, "batch_size": 32, "pairs": 2, "random_state": 0}
    auto = OTImputer(**kw).fit(X)
    assert auto.outcome_.best_rmse == min(h["val_rmse"] for h in auto.outcome_.history)
    poor = OTImputer(**{**kw, "noise": 50.0, "learning_rate": 1e-3}).fit(X)
    assert poor.form_ == "round-robin"
    assert OTImputer(**{**kw, "max_steps": 80}).fit(X).form_ == "batch", "80 steps do not reach six columns"
    assert OTImputer(**{**kw, "validation_fraction": 0.0}).fit(X).form_ == "batch"


def test_auto_judges_both_forms_where_training_graphs_have_holes():
    """At this learning rate models learn nothing; values of new graphs have a rate of their own."""
    kw = {"max_steps": 90, "batch_size": 32, "pairs": 2, "visits": 30, "learning_rate": 1e-9, "random_state": 0}
    imputer = OTImputer(**kw).fit(as_graphs(punched(correlated(400)), size=16))
    assert imputer.form_ == "batch"
    assert np.isfinite(imputer.outcome_.best_rmse)
    alone = OTImputer(form="round-robin", **kw).fit(as_graphs(punched(correlated(400)), size=16))
    assert imputer.outcome_.best_rmse < alone.outcome_.best_rmse


def test_rows_of_the_fitted_table_come_back_as_fitted_and_new_ones_do_not_move_them():
    X = punched(correlated(100))
    imputer = OTImputer(form="batch", max_steps=20, visits=3, random_state=0).fit(X)
    donors = imputer.donors_.clone()
    out = imputer.transform(X)
    np.testing.assert_allclose(out, imputer.scaler_.backward(donors), rtol=1e-4)
    other = X.copy()
    other[0, :] = np.nan_to_num(other[0], nan=5.0) + 0.1
    other[0, 0] = np.nan
    assert not np.allclose(imputer.transform(other), out)
    assert torch.equal(imputer.donors_, donors)


def test_training_graphs_without_holes_are_the_donors_as_they_are():
    items = as_graphs(correlated(200))
    imputer = OTImputer(form="batch", random_state=0).fit(items, validation=as_graphs(punched(correlated(60, seed=2))))
    rows = torch.cat([g.x for g in items])
    torch.testing.assert_close(imputer.donors_, imputer.scaler_.forward(rows))


@pytest.mark.parametrize("form", FAST)
def test_graphs_are_filled_apart(form):
    imputer = OTImputer(random_state=0, **{**FAST[form], "max_steps": 30, "visits": 5}).fit(as_graphs(correlated(200)))
    new = as_graphs(punched(correlated(60, seed=2)))
    together = imputer.transform(new)
    torch.testing.assert_close(together[2].x, imputer.transform(new[2:])[0].x, rtol=1e-5, atol=1e-5)


def test_blur_is_five_percent_of_the_median_cost_in_standard_deviations():
    X = correlated(300)
    imputer = OTImputer(form="batch", validation_fraction=0.0, random_state=0).fit(X)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    cost = ((z[:, None] - z[None]) ** 2).sum(axis=2)[~np.eye(300, dtype=bool)] / 2
    assert imputer.blur_ == pytest.approx(0.05 * np.median(cost), rel=1e-3)
    assert OTImputer(form="batch", epsilon=0.7, max_steps=1, random_state=0).fit(X).blur_ == 0.7


@pytest.mark.parametrize("form", FAST)
def test_geomloss_gives_the_same_fill(form):
    pytest.importorskip("geomloss")
    X = punched(correlated(100))
    kw = {**FAST[form], "max_steps": 20, "epsilon": 0.5, "random_state": 0}
    own, theirs = (OTImputer(solver=s, **kw).fit_transform(X) for s in ("own", "geomloss"))
    holes = np.isnan(X)
    assert not np.allclose(own[holes], OTImputer(**{**kw, "max_steps": 1}).fit_transform(X)[holes], rtol=1e-2)
    np.testing.assert_allclose(((own - theirs) / np.nanstd(X, axis=0))[holes], 0.0, atol=1e-3)


@pytest.mark.parametrize("form", ["auto", *FAST])
def test_keeps_to_the_time_budget(form, ticking):
    imputer = OTImputer(form=form, max_steps=200, time_budget=3600.0, random_state=0).fit(punched(correlated(200)))
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 60
    assert 3600 <= ticking.passed < 5400, "two forms share the budget"


def test_same_seed_same_bits_other_seed_other_fill():
    X = punched(correlated(100))
    a, b, c = (OTImputer(max_steps=100, pairs=2, random_state=s).fit_transform(X) for s in (0, 0, 1))
    assert same_bits(a, b)
    assert not np.allclose(a, c)


@pytest.mark.parametrize(
    "setting",
    [{"form": "both"}, {"model": "tree"}, {"solver": "pot"}, {"batch_size": 0}, {"visits": 0}, {"epsilon": 0.0}],
)
def test_bad_settings_are_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        OTImputer(**setting).fit(table())

from __future__ import annotations

import numpy as np
import pytest
import torch
from imputer_cases import same_bits, table
from row_cases import as_graphs, correlated, error, graphs_error, punched, table_error

from megae.imputers import MICEImputer, MIRACLEImputer

FAST = {"max_steps": 1000, "batch_size": 64, "random_state": 0}
QUICK = {
    "mice": {"n_imputations": 1, "max_iter": 2},
    "gain": {"max_steps": 100},
    "ot": {"form": "batch", "max_steps": 50, "visits": 5},
    "mean": {},
}


def test_refines_the_mean_clearly_on_a_table_and_on_new_graphs():
    assert table_error(MIRACLEImputer(baseline="mean", **FAST)) < 0.5
    assert graphs_error(MIRACLEImputer(baseline="mean", **FAST)) < 0.5


@pytest.mark.parametrize("baseline", ["mice", "gain", "ot"])
def test_refines_every_baseline(baseline):
    imputer = MIRACLEImputer(baseline=baseline, baseline_settings=QUICK[baseline], **{**FAST, "max_steps": 800})
    assert table_error(imputer) < 0.6
    assert imputer.baseline_.get_params().items() >= QUICK[baseline].items()
    assert imputer.baseline_errors_ == {}


def test_auto_takes_the_baseline_with_the_lowest_held_out_error(monkeypatch):
    monkeypatch.setattr("megae.imputers.miracle.CANDIDATES", {k: QUICK[k] for k in ("mice", "gain", "ot")})
    imputer = MIRACLEImputer(max_steps=20, random_state=0).fit(punched(correlated(300)))
    errors = imputer.baseline_errors_
    assert set(errors) == {"mice", "gain", "ot"}
    assert len(set(errors.values())) == 3
    best = min(errors, key=errors.get)
    assert type(imputer.baseline_).__name__.removesuffix("Imputer").lower() == best
    alone = MIRACLEImputer(max_steps=20, validation_fraction=0.0, random_state=0).fit(punched(correlated(60)))
    assert type(alone.baseline_) is MICEImputer
    assert alone.baseline_errors_ == {}


def test_the_baseline_is_fitted_to_what_may_be_seen(monkeypatch):
    given = []
    original = MICEImputer.fit
    monkeypatch.setattr(
        MICEImputer, "fit", lambda self, X, **kw: given.append(torch.cat([g.x for g in X])) or original(self, X, **kw)
    )
    X = punched(correlated(200))
    MIRACLEImputer(baseline="mice", baseline_settings=QUICK["mice"], max_steps=5, random_state=0).fit(X)
    hidden = given[0].isnan().numpy()
    assert (hidden >= np.isnan(X)).all()
    assert 0.05 < hidden[~np.isnan(X)].mean() < 0.2, "held-out cells must be holes to the baseline"


def test_new_rows_start_at_the_baseline_and_are_refined():
    X = correlated(200, seed=3)
    given = punched(X, seed=4)
    imputer = MIRACLEImputer(baseline="mean", **FAST).fit(as_graphs(correlated()))
    start = torch.cat([g.x for g in imputer.baseline_.transform(as_graphs(given))]).numpy()
    refined = torch.cat([g.x for g in imputer.transform(as_graphs(given))]).numpy()
    holes = np.isnan(given)
    assert error(refined, X, holes) < 0.6 * error(start, X, holes)


def test_dual_steps_push_the_graph_towards_no_cycle():
    X = correlated()
    kw = {**FAST, "baseline": "mean", "validation_fraction": 0.0, "sparsity": 0.0}
    free, soft, hard = (MIRACLEImputer(dual_steps=k, **kw).fit(punched(X)).acyclicity_ for k in (0, 3, 10))
    assert hard < 0.3 * free
    assert hard <= soft <= free


def test_holes_move_with_the_predictions_of_the_window():
    X = punched(correlated(128))
    kw = {"baseline": "mean", "batch_size": 64, "validation_fraction": 0.0, "random_state": 0}
    never = MIRACLEImputer(max_steps=40, window=50, **kw).fit(X)
    often = MIRACLEImputer(max_steps=40, window=2, **kw).fit(X)
    pairs = zip(never.network_.parameters(), often.network_.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in pairs)


@pytest.mark.filterwarnings("ignore:mice")
@pytest.mark.parametrize("baseline", ["auto", "mean"])
def test_keeps_to_the_time_budget(baseline, ticking):
    imputer = MIRACLEImputer(baseline=baseline, max_steps=200, time_budget=7200.0, random_state=0)
    imputer.fit(punched(correlated()))
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 120
    assert 7200 <= ticking.passed < 10_800, "baselines take their time from the same budget"


def test_same_seed_same_bits_other_seed_other_fill():
    X = punched(correlated(100))
    a, b, c = (MIRACLEImputer(baseline="mean", max_steps=30, random_state=s).fit_transform(X) for s in (0, 0, 1))
    assert same_bits(a, b)
    assert not np.allclose(a, c)


@pytest.mark.parametrize(
    "setting", [{"baseline": "knn"}, {"window": 0}, {"sweeps": 0}, {"hidden": 0}, {"sparsity": -1.0}]
)
def test_bad_settings_are_refused(setting):
    with pytest.raises(ValueError, match=f"{next(iter(setting))} must be"):
        MIRACLEImputer(**setting).fit(table())

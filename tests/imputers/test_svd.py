import numpy as np
import pytest
import torch
from imputer_cases import table
from torch_geometric.data import Data

from megae.imputers import MeanImputer, SVDImputer, svd
from megae.models import low_rank


def low_rank_table(n: int = 200, e: int = 12, rank: int = 3, rate: float = 0.2, noise: float = 0.0):
    """A table of that rank beside its means and units, and the same with holes."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, e)) + noise * rng.standard_normal((n, e))
    truth = truth * 10.0 ** rng.integers(-1, 2, e) + rng.standard_normal(e)
    return truth, np.where(rng.random((n, e)) < rate, np.nan, truth)


def error(filled: np.ndarray, truth: np.ndarray, X: np.ndarray) -> float:
    return float(np.sqrt(np.mean(((filled - truth) / truth.std(axis=0))[np.isnan(X)] ** 2)))


@pytest.mark.parametrize("settings", [{"rank": 3}, {}, {"form": "soft"}, {"form": "soft", "shrinkage": 1e-4}])
def test_a_table_of_low_rank_is_recovered(settings):
    truth, X = low_rank_table(e=30)
    imputer = SVDImputer(random_state=0, tol=1e-7, max_iter=3000, **settings)
    assert error(imputer.fit_transform(X), truth, X) < 0.01
    assert imputer.rank_ == 3 or settings.get("form") == "soft"


@pytest.mark.parametrize("form", ["iterative", "soft"])
def test_new_graphs_are_projected_on_what_training_graphs_taught(form):
    truth, X = low_rank_table(n=600)
    train = [Data(x=torch.from_numpy(truth[i : i + 20])) for i in range(0, 400, 20)]
    new = [Data(x=torch.from_numpy(X[i : i + 20])) for i in range(400, 600, 20)]
    imputer = SVDImputer(form=form, random_state=0).fit(train)
    filled = np.concatenate([g.x for g in imputer.transform(new)])
    assert error(filled, truth[400:], X[400:]) < 0.01
    assert imputer.components_.shape[1] == 12
    np.testing.assert_allclose(imputer.components_ @ imputer.components_.T, np.eye(len(imputer.components_)), atol=1e-9)


@pytest.mark.parametrize("form", ["iterative", "soft"])
def test_the_setting_is_the_one_with_the_least_held_out_error(form):
    truth, X = low_rank_table(n=300, noise=0.5)
    imputer = SVDImputer(form=form, random_state=0).fit(X)
    assert len(imputer.validation_rmse_) > 4
    best = imputer.shrinkage_ if form == "soft" else imputer.rank_
    assert imputer.validation_rmse_[best] <= 1.002 * min(imputer.validation_rmse_.values())
    assert max(imputer.validation_rmse_.values()) > 1.2 * imputer.validation_rmse_[best]
    fixed = SVDImputer(form=form, random_state=0, **({"shrinkage": best} if form == "soft" else {"rank": best})).fit(X)
    assert fixed.validation_rmse_ == {}
    np.testing.assert_allclose(imputer.transform(X), fixed.transform(X), rtol=1e-9)
    assert error(imputer.transform(X), truth, X) < 0.6 * error(MeanImputer().fit_transform(X), truth, X)


def test_the_noise_as_ridge_beats_plain_least_squares_where_rows_show_little():
    truth, X = low_rank_table(n=300, noise=0.5, rate=0.5)
    with_noise, without = (SVDImputer(rank=3, ridge=r).fit_transform(X) for r in (None, 0.0))
    assert error(with_noise, truth, X) < 0.9 * error(without, truth, X)


def test_columns_weigh_the_same_in_any_units():
    _, X = low_rank_table(noise=0.3)
    units = 10.0 ** np.arange(-6, 6)
    for settings in ({"rank": 3}, {"rank": 3, "scaling": "range"}, {"form": "soft", "shrinkage": 0.1}):
        plain = SVDImputer(**settings).fit_transform(X)
        np.testing.assert_allclose(SVDImputer(**settings).fit_transform(X * units) / units, plain, rtol=1e-6)


def test_without_scaling_columns_of_large_numbers_come_first():
    truth = np.repeat(np.random.default_rng(0).standard_normal((100, 2)), 3, axis=1) * [1, 1, 1, 1000, 1000, 1000]
    X = truth.copy()
    X[20:40, 3] = np.nan
    raw, scaled = (SVDImputer(rank=1, scaling=s).fit(X) for s in ("none", "standard"))
    assert (raw.scale_ == 1).all()
    assert abs(raw.components_[0, :3]).max() < 0.01
    assert abs(scaled.components_[0, :3]).max() > 0.1
    assert error(raw.transform(X), truth, X) < 0.01


def test_large_tables_take_subspace_iteration_to_the_same_place(monkeypatch):
    _, X = low_rank_table(n=120, e=60, rank=4, noise=0.2)
    exact = SVDImputer(rank=4, tol=1e-8, max_iter=2000).fit_transform(X)
    monkeypatch.setattr(low_rank, "EXACT", 0)
    np.testing.assert_allclose(SVDImputer(rank=4, tol=1e-8, max_iter=2000).fit_transform(X), exact, atol=1e-4)


def test_time_budget(ticking, monkeypatch):
    monkeypatch.setattr(svd, "time", ticking)
    _, X = low_rank_table(n=200, e=30, rank=10, noise=0.3)
    imputer = SVDImputer(time_budget=1200.0, tol=0.0, max_iter=200).fit(X)
    assert 1200 <= ticking.passed < 2000
    assert 0 < imputer.n_iter_ < 25
    assert np.isfinite(imputer.transform(X)).all()


@pytest.mark.parametrize(("form", "what"), [("iterative", "rank"), ("soft", "shrinkage")])
def test_errors_that_are_not_finite_are_told(monkeypatch, form, what):
    monkeypatch.setattr("megae.imputers.selection.Choice.error", lambda self, filled: float("nan"))
    with pytest.raises(FloatingPointError, match=f"no {what} could be chosen.*not a finite number.*give {what}"):
        SVDImputer(form=form, random_state=0).fit(table(60, 5))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"form": "hard"}, "form must be 'iterative' or 'soft', got 'hard'"),
        ({"rank": 0}, "rank must be an integer and at least 1, got 0"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"shrinkage": 2.0}, r"shrinkage must lie in \(0, 1\], or be None, got 2.0"),
        ({"ridge": -1.0}, "ridge must be at least 0"),
        ({"scaling": "unit"}, "scaling must be 'standard', 'range' or 'none', got 'unit'"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie in"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        SVDImputer(**setting).fit(table())

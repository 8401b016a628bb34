import numpy as np
import pandas as pd
import pytest
import torch
from imputer_cases import graphs, mixed_frame, same_bits, table
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

from megae.imputers import MICEImputer, mice
from megae.models.chained_equations import stream

PLAIN = {"n_nearest_features": None, "squeeze": False, "random_state": 7}


def gaussian(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """n correlated rows (n, 4), and their covariance."""
    rng = np.random.default_rng(seed)
    root = np.array([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [0.5, 0.5, 0.7, 0], [-0.2, 0.8, 0.3, 0.4]])
    return rng.standard_normal((n, 4)) @ root.T, root @ root.T


def twin(imputer: MICEImputer, k: int, X: np.ndarray) -> IterativeImputer:
    """scikit-learn's imputer with the random numbers of imputation k."""
    draws = stream(imputer.seed_, k, X)
    return IterativeImputer(sample_posterior=True, max_iter=imputer.max_iter, random_state=draws)


@pytest.mark.parametrize("standardize", [False, True])
def test_imputations_are_those_of_scikit_learn_with_the_same_seed(standardize):
    X = table(80, 5, seed=1)
    imputer = MICEImputer(n_imputations=3, max_iter=4, standardize=standardize, **PLAIN).fit(X)
    shift, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0) if standardize else 1.0
    for k, draw in enumerate(imputer.sample(X)):
        oracle = twin(imputer, k, X).fit_transform((X - shift) / scale) * scale + shift
        np.testing.assert_allclose(draw, oracle, rtol=1e-6)


def test_new_rows_go_through_the_regressions_of_fit():
    X, new = table(80, 5, seed=1), table(30, 5, seed=2)
    imputer = MICEImputer(n_imputations=2, max_iter=4, standardize=False, **PLAIN).fit(X)
    shift = np.nanmean(X, axis=0)
    for k, draw in enumerate(imputer.sample(new)):
        oracle = twin(imputer, k, X).fit(X - shift)
        oracle.random_state_ = stream(imputer.seed_, k, new)
        np.testing.assert_allclose(draw, oracle.transform(new - shift) + shift, rtol=1e-6)


def test_complete_training_rows_need_one_round_of_regressions():
    X, new = table(80, 4, rate=0.0), table(30, 4, seed=2)
    X[3, 0] = 2.0
    imputer = MICEImputer(n_imputations=2, max_iter=6, standardize=False, **PLAIN).fit(X)
    assert imputer.n_iter_ == 6
    assert all(r is imputer.chains_[0][0] for r in imputer.chains_[0])
    oracle = twin(imputer, 1, X).fit(X - X.mean(axis=0))
    oracle.random_state_ = stream(imputer.seed_, 1, new)
    expected = oracle.transform(new - X.mean(axis=0)) + X.mean(axis=0)
    np.testing.assert_allclose(imputer.sample(new)[1], expected, rtol=1e-6)


def test_pooling_gives_the_conditional_mean_and_variance_of_a_gaussian():
    train, covariance = gaussian(20_000)
    rows, _ = gaussian(400, seed=1)
    rows[:, [1, 3]] = np.nan
    imputer = MICEImputer(n_imputations=40, max_iter=15, **PLAIN).fit(train)
    estimate, variance, within, between = imputer.pooled(rows)
    seen, lost = [0, 2], [1, 3]
    slope = covariance[np.ix_(lost, seen)] @ np.linalg.inv(covariance[np.ix_(seen, seen)])
    np.testing.assert_allclose(estimate[:, lost], rows[:, seen] @ slope.T, atol=0.35)
    residual = (estimate[:, lost] - rows[:, seen] @ slope.T).std()
    assert residual < 0.1
    true = np.diag(covariance[np.ix_(lost, lost)] - slope @ covariance[np.ix_(seen, lost)])
    np.testing.assert_allclose(variance[:, lost].mean(axis=0), true, rtol=0.08)
    assert (within[:, lost].mean(axis=0) < 0.9 * true).all(), "one imputation alone knows too little about its doubt"
    assert (between[:, lost] > 0).all()
    assert (variance[:, seen] == 0).all()


def test_rubin_rules():
    X = table(40, 4, seed=3)
    imputer = MICEImputer(n_imputations=6, max_iter=3, random_state=0).fit(X)
    pooled = imputer.pooled(X)
    assert same_bits(pooled.estimate, imputer.transform(X))
    done = imputer._imputations([X], 6, imputer.seed_)
    means = np.stack([i.mean for i in done]) * imputer.scale_ + imputer.mean_
    variances = np.stack([i.variance for i in done]) * imputer.scale_**2
    holes = np.isnan(X)
    np.testing.assert_allclose(pooled.estimate[holes], means.mean(axis=0)[holes])
    between = ((means - means.mean(axis=0)) ** 2).sum(axis=0) / 5
    np.testing.assert_allclose(pooled.within[holes], variances.mean(axis=0)[holes])
    np.testing.assert_allclose(pooled.between[holes], between[holes])
    np.testing.assert_allclose(pooled.variance[holes], (variances.mean(axis=0) + 7 / 6 * between)[holes])


def test_draws_spread_as_the_variance_says():
    train, _ = gaussian(2000)
    rows, _ = gaussian(200, seed=1)
    rows[:, [1, 3]] = np.nan
    imputer = MICEImputer(n_imputations=5, **PLAIN).fit(train)
    draws = np.stack(imputer.sample(rows, n=60))
    assert draws.shape == (60, 200, 4)
    spread = draws.var(axis=0, ddof=1)[:, [1, 3]].mean(axis=0)
    np.testing.assert_allclose(spread, imputer.pooled(rows).variance[:, [1, 3]].mean(axis=0), rtol=0.15)
    assert same_bits(draws[:3], np.stack(imputer.sample(rows, n=3)))
    assert not np.array_equal(draws[0], imputer.sample(rows, n=1, random_state=1)[0])
    with pytest.raises(ValueError, match="n must be at least 1"):
        imputer.sample(rows, n=0)


def test_graphs_draw_apart_and_alike_wherever_they_stand():
    imputer = MICEImputer(random_state=0).fit(graphs(6))
    a, b = graphs(2, n=40, seed=30)
    b.x = torch.where(a.x.isnan(), torch.nan, b.x.nan_to_num(3.0))
    both, alone = imputer.sample([a, b], n=1)[0], imputer.sample([b], n=1)[0]
    torch.testing.assert_close(both[1].x, alone[0].x)
    mean = imputer.pooled([a, b]).estimate
    holes = a.x.isnan()
    noise = np.corrcoef(*((one.x - other.x)[holes].numpy() for one, other in zip(both, mean, strict=True)))
    assert abs(noise[0, 1]) < 0.7


def test_pooled_over_graphs_and_frames():
    items = graphs(3)
    pooled = MICEImputer(random_state=0).fit(items).pooled(items)
    assert [v.shape for v in pooled.variance] == [(8, 3)] * 3
    frame = mixed_frame()
    pooled = MICEImputer(random_state=0).fit(frame).pooled(frame)
    assert isinstance(pooled.estimate, pd.DataFrame)
    assert np.isnan(pooled.variance[:, frame.columns.get_loc("colour")]).all()
    seen = frame.notna().to_numpy()
    seen[:, frame.columns.get_loc("colour")] = False
    assert (pooled.variance[seen] == 0).all()


def test_a_category_is_not_regressed_on_itself():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, 300)
    frame = pd.DataFrame({"c": pd.Categorical(np.array(list("abc"))[code]), "x": np.array([0.0, 5.0, -5.0])[code]})
    frame["y"] = (code == 1) * 2.0 + rng.standard_normal(300) * 0.01
    truth = frame["c"].copy()
    hidden = rng.random(300) < 0.3
    frame.loc[hidden, "c"] = np.nan
    out = MICEImputer(random_state=0).fit_transform(frame)
    assert (out["c"] == truth).mean() > 0.99


def test_nearest_features_are_drawn_by_correlation():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3)) @ rng.standard_normal((3, 52)) + 0.3 * rng.standard_normal((100, 52))
    X[:, 1] = X[:, 0] + 0.01 * rng.standard_normal(100)
    X[rng.random(X.shape) < 0.05] = np.nan
    imputer = MICEImputer(n_imputations=1, max_iter=1, random_state=0).fit(X)
    links = [e for r in imputer.chains_[0] for e in r]
    assert {len(e.predictors) for e in links} == {25}
    assert all(len(set(e.predictors)) == 25 and e.column not in e.predictors for e in links)
    everything = MICEImputer(n_imputations=1, max_iter=1, n_nearest_features=None, random_state=0).fit(X)
    assert len(everything.chains_[0][0][0].predictors) == 51


def test_time_budget(ticking, monkeypatch):
    monkeypatch.setattr(mice, "time", ticking)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 20))
    X[rng.random(X.shape) < 0.1] = np.nan
    imputer = MICEImputer(n_imputations=5, time_budget=3600.0, random_state=0)
    with pytest.warns(UserWarning, match=r"mice ran out of its 3600 s, \d+ regressions short"):
        imputer.fit(X)
    assert 3600 <= ticking.passed < 5000
    assert np.isfinite(imputer.set_params(n_imputations=3).transform(X)).all()
    with pytest.warns(UserWarning, match="mice ran out"):
        hurried = MICEImputer(time_budget=1e-9, random_state=0).fit(X)
    assert np.isfinite(hurried.transform(X)).all()


def hurried(X: np.ndarray, budget: float) -> MICEImputer:
    """Fitted under the ticking clock, where a regression takes two minutes or three."""
    settings = {"n_imputations": 5, "max_iter": 10, "n_nearest_features": None, "random_state": 0}
    with pytest.warns(UserWarning, match="mice ran out"):
        return MICEImputer(time_budget=budget, **settings).fit(X)


def with_rounds(imputer: MICEImputer, rounds: list[int]) -> MICEImputer:
    """The first imputations of a fit, each with so many of its rounds."""
    imputer.chains_ = [chain[:n] for chain, n in zip(imputer.chains_, rounds, strict=False)]
    return imputer.set_params(n_imputations=len(rounds))


def test_imputations_take_turns_so_that_all_are_there_when_time_is_over(ticking):
    X = table(80, 10, seed=1)
    imputer = hurried(X, 120.0 * 0.3 * 500)
    rounds = [len(chain) for chain in imputer.chains_]
    assert len(rounds) == 5
    assert 1 < min(rounds) == imputer.n_iter_ < 5
    assert max(rounds) - min(rounds) <= 1
    whole = MICEImputer(max_iter=10, n_nearest_features=None, random_state=0).fit(X)
    twin, found = with_rounds(whole, rounds).pooled(X), imputer.pooled(X)
    assert same_bits(found.estimate, twin.estimate)
    assert same_bits(found.variance, twin.variance)


def test_no_imputation_is_pooled_twice_when_time_lasts_for_less_than_a_round(ticking):
    X = table(80, 10, seed=1)
    imputer = hurried(X, 120.0 * 25)
    assert len(imputer.chains_) == 2
    whole = MICEImputer(max_iter=1, n_nearest_features=None, random_state=0).fit(X)
    twin, found = with_rounds(whole, [1, 1]).pooled(X), imputer.pooled(X)
    assert same_bits(found.estimate, imputer.transform(X))
    assert same_bits(found.estimate, twin.estimate)
    assert same_bits(found.between, twin.between)
    assert len(imputer.sample(X)) == 2
    with pytest.warns(UserWarning, match=r"short; 2 of 5 imputations are pooled; what there is, is used"):
        imputer.fit(X)


def test_draws_are_squeezed_into_the_observed_range():
    X = np.minimum(np.abs(gaussian(300)[0]), 1.0)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    for draw in MICEImputer(random_state=0).fit(X).sample(X):
        assert (draw >= np.nanmin(X, axis=0) - 1e-12).all()
        assert (draw <= np.nanmax(X, axis=0) + 1e-12).all()
    free = np.stack(MICEImputer(**PLAIN).fit(X).sample(X))
    assert (free > np.nanmax(X, axis=0)).any()


def dependent(n: int, seed: int) -> np.ndarray:
    """(n, 6) whose last three columns are sums of the first three: a chain over all of them hardly moves."""
    base = np.random.default_rng(seed).standard_normal((n, 3)) @ [[1, 0.9, 0.8], [0, 0.4, 0.1], [0, 0, 0.5]]
    return np.hstack([base, base[:, [0, 1, 2]] + base[:, [1, 2, 0]]])


def test_the_number_of_predictors_is_chosen_on_held_out_cells():
    train, truth = dependent(2000, 0), dependent(400, 1)
    imputer = MICEImputer(random_state=0).fit(train)
    assert set(imputer.validation_rmse_) == {5, 4}
    assert imputer.validation_rmse_[4] < imputer.validation_rmse_[5]
    assert {len(e.predictors) for r in imputer.chains_[0] for e in r} == {4}
    holes = np.random.default_rng(2).random(truth.shape) < 0.1
    seen = np.where(holes, np.nan, truth)

    def error(n: int | None) -> float:
        filled = MICEImputer(n_nearest_features=n, random_state=0).fit(train).transform(seen)
        return float(np.mean((filled - truth)[holes] ** 2))

    assert error(4) < error(None)
    mixed = np.random.default_rng(0).standard_normal((2000, 6)) @ np.random.default_rng(1).random((6, 6))
    apart = MICEImputer(random_state=0).fit(mixed)
    assert apart.validation_rmse_[5] < apart.validation_rmse_[4]
    assert {len(e.predictors) for r in apart.chains_[0] for e in r} == {5}


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_imputations": 0}, "n_imputations must be an integer and at least 1, got 0"),
        ({"max_iter": 1.5}, "max_iter must be an integer"),
        ({"n_nearest_features": "some"}, "n_nearest_features must be 'auto', None or an integer"),
        ({"n_nearest_features": 0}, "n_nearest_features must be"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie in"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        MICEImputer(**setting).fit(table())

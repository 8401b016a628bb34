import numpy as np
import pandas as pd
import pytest
import torch
from imputer_cases import graphs, same_bits, table
from sklearn.ensemble import RandomForestRegressor
from torch_geometric.data import Data

from megae.imputers import MeanImputer, MICEImputer, MissForestImputer


def curved(n: int = 120, seed: int = 0) -> np.ndarray:
    """(n, 4) columns that are curved functions of two numbers."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((2, n))
    return np.stack([a, 10 * np.sin(6 * a), b, (a - b) ** 2], axis=1)


def with_holes(X: np.ndarray, rate: float = 0.15, seed: int = 0) -> np.ndarray:
    holes = np.random.default_rng(seed).random(X.shape) < rate
    return np.where(holes, np.nan, X)


def plain_missforest(X: np.ndarray, n_estimators: int, max_iter: int, seed: int) -> tuple[np.ndarray, list[float]]:
    """The paper's algorithm 1, line by line, for numbers."""
    draws = np.random.default_rng(seed)
    holes = np.isnan(X)
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    old, gammas = np.where(holes, mean, X), []
    for _ in range(max_iter):
        new = old.copy()
        for j in np.argsort(holes.mean(axis=0), kind="stable"):
            forest = RandomForestRegressor(n_estimators, max_features="sqrt", random_state=int(draws.integers(2**31)))
            rest = [k for k in range(X.shape[1]) if k != j]
            inputs = ((new - mean) / scale)[:, rest]
            forest.fit(inputs[~holes[:, j]], X[~holes[:, j], j])
            new[holes[:, j], j] = forest.predict(inputs[holes[:, j]])
        gammas.append(((new - old) ** 2).sum() / (new**2).sum())
        if len(gammas) > 1 and gammas[-1] >= gammas[-2]:
            break
        old = new
    return old, gammas


def test_the_table_of_fit_gets_the_result_of_the_paper():
    X = with_holes(curved())
    imputer = MissForestImputer(n_estimators=20, random_state=3)
    filled = imputer.fit_transform(X)
    expected, gammas = plain_missforest(X, 20, 10, 3)
    assert len(gammas) < 10, "the rule never fired: the test would not see it"
    np.testing.assert_allclose(filled, expected, rtol=1e-9)
    np.testing.assert_allclose([d[0] for d in imputer.differences_], gammas, rtol=1e-9)
    assert imputer.n_iter_ == len(gammas) - 1 == len(imputer.rounds_)


def test_max_iter_bounds_the_rounds():
    imputer = MissForestImputer(n_estimators=5, max_iter=1, random_state=3).fit(with_holes(curved()))
    assert imputer.n_iter_ == len(imputer.differences_) == 1


def test_complete_training_rows_make_one_forest_per_column_and_each_graph_stops_by_itself():
    train = [Data(x=torch.from_numpy(curved(100, seed=s))) for s in range(3)]
    new = [Data(x=torch.from_numpy(with_holes(curved(30, seed=s), 0.4, s))) for s in (10, 11, 12)]
    imputer = MissForestImputer(n_estimators=10, random_state=0).fit(train)
    assert imputer.rounds_ == []
    assert sorted(imputer.forests_) == [0, 1, 2, 3]
    rows = np.concatenate([g.x for g in train])
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    taken = []
    for g, out in zip(new, imputer.transform(new), strict=True):
        x = g.x.numpy()
        old, gammas = np.where(np.isnan(x), mean, x), []
        while True:
            now = old.copy()
            for j in range(4):
                inputs = np.delete((now - mean) / scale, j, axis=1)
                now[:, j] = np.where(np.isnan(x[:, j]), imputer.forests_[j].predict(inputs), x[:, j])
            gammas.append(((now - old) ** 2).sum() / (now**2).sum())
            if len(gammas) > 10 or (len(gammas) > 1 and gammas[-1] >= gammas[-2]):
                break
            old = now
        taken.append(len(gammas))
        np.testing.assert_allclose(out.x, old, rtol=1e-9)
    assert len(set(taken)) > 1, "all graphs stopped in the same round: the test would not see a common rule"


def test_new_rows_go_through_every_round_of_fit():
    X, new = with_holes(curved()), with_holes(curved(40, seed=1), 0.3, 1)
    imputer = MissForestImputer(n_estimators=5, random_state=0).fit(X)
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    expected = np.where(np.isnan(new), mean, new)
    assert len(imputer.rounds_) > 1
    for forests in imputer.rounds_:
        for j in np.argsort(np.isnan(X).mean(axis=0), kind="stable"):
            said = forests[j].predict(np.delete((expected - mean) / scale, j, axis=1))
            expected[:, j] = np.where(np.isnan(new[:, j]), said, expected[:, j])
    np.testing.assert_allclose(imputer.transform(new), expected, rtol=1e-12)


def test_curved_relations_are_found():
    truth = curved(400)
    X = with_holes(truth, 0.1)
    holes = np.isnan(X)

    def error(imputer) -> np.ndarray:
        return np.sqrt(np.mean(((imputer.fit_transform(X) - truth) / truth.std(axis=0))[holes] ** 2))

    linear = error(MICEImputer(random_state=0))
    assert linear < error(MeanImputer())
    assert error(MissForestImputer(n_estimators=30, random_state=0)) < 0.85 * linear
    assert error(MissForestImputer(n_estimators=30, forest="extra-trees", random_state=0)) < 0.85 * linear


def test_categories_and_numbers_together():
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, 200)
    truth = pd.Series(pd.Categorical(np.array(list("abc"))[code]))
    frame = pd.DataFrame({"c": truth, "x": code**2 + 0.1 * rng.standard_normal(200), "y": rng.standard_normal(200)})
    frame.loc[rng.random(200) < 0.2, "c"] = None
    frame.loc[rng.random(200) < 0.2, "x"] = np.nan
    imputer = MissForestImputer(n_estimators=20, random_state=0)
    out = imputer.fit_transform(frame)
    known = frame["x"].notna()
    assert (out["c"] == truth)[known].mean() > 0.99
    assert out["c"].dtype == frame["c"].dtype
    assert np.isfinite(imputer.differences_).all()


def test_threads_change_no_bit():
    X = with_holes(curved())
    one, two = (MissForestImputer(n_estimators=10, n_jobs=n, random_state=0).fit_transform(X) for n in (1, 2))
    assert same_bits(one, two)


def test_max_samples_makes_smaller_trees():
    sizes = []
    for share in (None, 0.2):
        for forest in ("random", "extra-trees"):
            imputer = MissForestImputer(n_estimators=3, forest=forest, max_samples=share, random_state=0).fit(curved())
            sizes.append(imputer.forests_[0].nbytes)
    assert sizes[2] < 0.5 * sizes[0]
    assert sizes[3] < 0.5 * sizes[1]


def test_time_budget(ticking):
    X = with_holes(np.random.default_rng(0).random((200, 12)))
    imputer = MissForestImputer(time_budget=3600.0, n_estimators=3, random_state=0)
    with pytest.warns(UserWarning, match=r"missforest ran out of its 3600 s after [12]\d forests"):
        imputer.fit(X)
    assert 3600 <= ticking.passed < 5000
    assert np.isfinite(imputer.transform(X)).all()
    small = with_holes(curved())
    hurried = MissForestImputer(time_budget=1e-9, n_estimators=2, random_state=0)
    with pytest.warns(UserWarning, match="ran out"):
        hurried.fit(small)
    lone = next(iter(hurried.rounds_[0]))
    filled = hurried.transform(small)
    for j in set(range(4)) - {lone}:
        np.testing.assert_allclose(filled[np.isnan(small[:, j]), j], np.nanmean(small[:, j]))
    with pytest.warns(UserWarning, match="ran out"):
        assert len(hurried.fit(graphs(3)).forests_) <= 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_estimators": 0}, "n_estimators must be an integer and at least 1, got 0"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"min_samples_leaf": 0.5}, "min_samples_leaf must be"),
        ({"forest": "birch"}, "forest must be 'random' or 'extra-trees', got 'birch'"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        MissForestImputer(**setting).fit(table())

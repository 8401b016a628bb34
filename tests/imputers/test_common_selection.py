"""One body over all imputers: pipelines and grid search through scikit-learn's metadata routing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from imputer_cases import edge_index, graphs, make, ring, same_bits, table
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

pytestmark = pytest.mark.filterwarnings("ignore:the (model|graph) does not help")


@pytest.fixture(autouse=True)
def _routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def labelled() -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Rows named n0.., edges by those names (fewer than rows times two, more than rows), a target."""
    X = pd.DataFrame(table(24, 4, seed=2), columns=list("abcd"), index=[f"n{i}" for i in range(24)])
    ends = edge_index(ring())
    edges = pd.DataFrame({"from": X.index[ends[0]], "to": X.index[ends[1]]})
    assert len(edges) != len(X)
    return X, edges, np.cos(2 * np.pi * np.arange(24) / 24)


def routed(name: str):
    imputer = make(name, unknown_nodes="drop")
    return imputer.set_fit_request(graph=True).set_transform_request(graph=True).set_score_request(graph=True)


def test_pipeline_hands_the_graph_to_the_imputer(name):
    X, edges, y = labelled()
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), routed(name), Ridge())
    pipe.fit(X, y, graph=edges)
    scaled = StandardScaler().set_output(transform="pandas").fit_transform(X)
    filled = make(name, unknown_nodes="drop").fit_transform(scaled, graph=edges)
    np.testing.assert_array_equal(pipe.predict(X, graph=edges), Ridge().fit(filled, y).predict(filled))


def test_grid_search_over_an_imputer_cuts_the_graph_with_the_rows(name):
    X, edges, _ = labelled()
    cv = KFold(3)
    search = GridSearchCV(routed(name), {"clip": [False, True]}, cv=cv).fit(X, graph=edges)
    for k, (train, test) in enumerate(cv.split(X)):
        for setting, score in zip(
            search.cv_results_["params"], search.cv_results_[f"split{k}_test_score"], strict=True
        ):
            twin = clone(routed(name)).set_params(**setting)
            assert score == twin.fit(X.iloc[train], graph=edges).score(X.iloc[test], graph=edges)
    assert same_bits(search.transform(X), search.best_estimator_.transform(X))


def test_grid_search_over_a_pipeline(name):
    X, edges, y = labelled()
    pipe = make_pipeline(StandardScaler().set_output(transform="pandas"), routed(name), Ridge())
    search = GridSearchCV(pipe, {"ridge__alpha": [0.1, 10.0]}, cv=3, error_score="raise").fit(X, y, graph=edges)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_[1].graph_.nnz == edge_index(ring()).shape[1]


def test_grid_search_over_graphs(name):
    items = graphs(6)
    search = GridSearchCV(make(name), {"clip": [False, True]}, cv=3, error_score="raise").fit(items)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    train, test = next(KFold(3).split(items))
    twin = make(name, **search.cv_results_["params"][0]).fit([items[i] for i in train])
    assert search.cv_results_["split0_test_score"][0] == twin.score([items[i] for i in test])


def test_score_is_the_rmse_of_hidden_cells_in_standard_deviations():
    X = table(200, 3, rate=0.0)
    score = make("mean").fit(X).score(X)
    assert -1.2 < score < -0.8
    assert make("zero").fit(X).score(X) < score


def test_edge_table_as_long_as_the_table_needs_one_edge_twice():
    """scikit-learn cuts whatever is as long as X; an edge given twice counts once, so it may pad."""
    X = pd.DataFrame(table(24, 4, seed=2), index=[f"n{i}" for i in range(24)])
    X.columns = list("abcd")
    plain = pd.DataFrame({"from": X.index, "to": np.roll(X.index, -1)})
    padded = pd.concat([plain, plain.iloc[:1]])
    cv = KFold(3)
    search = GridSearchCV(routed("feature-propagation"), {"clip": [False]}, cv=cv).fit(X, graph=padded)
    train, test = next(cv.split(X))
    twin = make("feature-propagation", unknown_nodes="drop").fit(X.iloc[train], graph=plain)
    assert search.cv_results_["split0_test_score"][0] == twin.score(X.iloc[test], graph=plain)


def test_score_builds_its_knn_graph_without_the_cells_it_asks_for():
    X = table(60, 3, rate=0.1)
    imputer = make("feature-propagation").fit(X)
    asked = (np.random.default_rng(0).random(X.shape) < 0.1) & ~np.isnan(X)
    filled = imputer.transform(np.where(asked, np.nan, X))
    expected = -np.sqrt(np.mean((((filled - X) / np.nanstd(X, axis=0))[asked]) ** 2))
    assert imputer.score(X) == pytest.approx(expected, rel=1e-12)


def test_score_hides_a_category_whole():
    class Watching(type(make("mean"))):  # type: ignore[misc]
        def _fill(self, items):
            hot = items[0].x[:, :3].isnan()
            assert hot.any()
            assert (hot.all(dim=1) == hot.any(dim=1)).all()
            return super()._fill(items)

    frame = pd.DataFrame({"c": pd.Categorical(list("abc") * 20), "x": np.arange(60.0)})
    assert np.isfinite(Watching().fit(frame).score(frame))

"""Compact forests against the forests of scikit-learn that they are made of."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from megae.models import compact_forest
from megae.models.compact_forest import CompactForest


def rows(n: int, seed: int = 0) -> np.ndarray:
    """Numbers of few digits, so that some of them lie on thresholds."""
    return np.random.default_rng(seed).normal(size=(n, 6)).round(1)


@pytest.mark.parametrize("kind", [RandomForestRegressor, ExtraTreesRegressor])
def test_numbers_are_those_of_scikit_learn_to_the_bit(kind):
    X = rows(300)
    forest = kind(25, random_state=0).fit(X, np.sin(X[:, 0]) * X[:, 1])
    new, compact = np.concatenate([rows(200, 1), X]), CompactForest.of(forest)
    whole = forest.predict(new)
    assert np.array_equal(compact.predict(new), whole)
    assert [compact.predict(new[i : i + 1])[0] for i in range(50)] == whole[:50].tolist(), "one row at a time"


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_classes_are_those_of_scikit_learn(kind):
    X = rows(300)
    y = np.array([3, 7, 8])[(np.abs(X[:, 0]) + np.random.default_rng(2).random(300)).astype(int).clip(0, 2)]
    forest = kind(25, min_samples_leaf=5, random_state=0).fit(X, y)
    new = rows(200, 1)
    found = CompactForest.of(forest).predict(new)
    assert np.array_equal(found, forest.predict(new))
    assert len(set(found.tolist())) == 3


def test_a_threshold_between_two_single_precision_numbers():
    """scikit-learn splits half way in double precision; rounded up, the larger number would go the other way."""
    low = np.nextafter(np.float32(4), np.float32(5))
    high = np.nextafter(low, np.float32(5))
    assert np.float32((float(low) + float(high)) / 2) == high
    X = np.array([[low], [high]] * 4, dtype=np.float32)
    y = np.array([0.0, 1.0] * 4)
    forest = RandomForestRegressor(5, bootstrap=False, random_state=0).fit(X, y)
    assert set(forest.predict(X)) == {0.0, 1.0}
    assert np.array_equal(CompactForest.of(forest).predict(X), y)


def test_a_forest_of_bare_leaves_and_no_rows():
    forest = RandomForestRegressor(3, random_state=0).fit(rows(10), np.full(10, 2.5))
    compact = CompactForest.of(forest)
    assert np.array_equal(compact.predict(rows(4)), np.full(4, 2.5))
    assert compact.predict(rows(0)).shape == (0,)


@pytest.mark.parametrize("rows_at_a_time", [7, 1])
def test_pieces_change_nothing(rows_at_a_time, monkeypatch):
    X = rows(100)
    compact = CompactForest.of(RandomForestRegressor(10, random_state=0).fit(X, X.sum(axis=1)))
    whole = compact.predict(X)
    monkeypatch.setattr(compact_forest, "CELLS", 10 * rows_at_a_time)
    assert np.array_equal(compact.predict(X), whole)


def test_memory_is_a_quarter_of_that_of_scikit_learn():
    X = rows(500)
    forest = RandomForestRegressor(20, random_state=0).fit(X, X[:, 0] * X[:, 1])
    theirs = sum(t.tree_.__getstate__()["nodes"].nbytes + t.tree_.value.nbytes for t in forest.estimators_)
    assert CompactForest.of(forest).nbytes < theirs / 3.5

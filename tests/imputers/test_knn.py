import sys
import tracemalloc

import numpy as np
import pytest
from imputer_cases import graphs, same_bits, table
from sklearn.impute import KNNImputer as Oracle

from megae.imputers import KNNImputer
from megae.training.progress import Silent


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_agrees_with_scikit_learn_on_raw_units(weights):
    X, new = table(60, 5, seed=1) * [1, 10, 100, 1, 1], table(20, 5, seed=2)
    imputer = KNNImputer(n_neighbors=3, weights=weights).fit(X)
    oracle = Oracle(n_neighbors=3, weights=weights).fit(X)
    np.testing.assert_allclose(imputer.transform(X), oracle.transform(X), rtol=1e-8)
    np.testing.assert_allclose(imputer.transform(new), oracle.transform(new), rtol=1e-8)


def test_standardize_measures_in_standard_deviations():
    X = table(60, 5, seed=1) * [1, 10, 100, 1, 1]
    scale = np.nanstd(X, axis=0)
    out = KNNImputer(standardize=True).fit_transform(X)
    np.testing.assert_allclose(out, Oracle().fit_transform(X / scale) * scale, rtol=1e-10)
    assert not np.allclose(out, KNNImputer().fit_transform(X))


def test_donors_are_training_rows_only():
    train, new = graphs(4), graphs(3, seed=40)
    rows = np.concatenate([g.x.numpy() for g in train]).astype(float)
    out = KNNImputer().fit(train).transform(new)
    for before, after in zip(new, out, strict=True):
        np.testing.assert_allclose(after.x, Oracle().fit(rows).transform(before.x.numpy().astype(float)), rtol=1e-5)


def test_max_donors_draws_a_seeded_sample_of_rows():
    X = table(80, 3)
    a, b, c = (KNNImputer(max_donors=20, random_state=s).fit(X) for s in (0, 0, 1))
    assert a.donors_.shape == (20, 3)
    assert same_bits(a.donors_, b.donors_)
    assert not np.array_equal(a.donors_, c.donors_, equal_nan=True)
    rows = {row.tobytes() for row in X}
    assert all(row.tobytes() in rows for row in a.donors_)
    np.testing.assert_allclose(a.transform(X), Oracle().fit(a.donors_).transform(X), rtol=1e-12)
    assert KNNImputer(max_donors=None).fit(X).donors_.shape == (80, 3)


def test_a_column_no_donor_shows_gets_the_training_mean():
    X = table(60, 3)
    X[2:, 1] = np.nan
    imputer = KNNImputer(max_donors=3, random_state=0).fit(X)
    assert np.isnan(imputer.donors_[:, 1]).all()
    np.testing.assert_allclose(imputer.transform(X)[2:, 1], np.nanmean(X[:, 1]))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"weights": "best"}, "weights"),
        ({"max_donors": 0}, "max_donors"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=f"{message} must be"):
        KNNImputer(**setting).fit(table())


def test_progress_counts_the_rows_with_holes(monkeypatch):
    seen = []

    class Recorder(Silent):
        def advance(self, step, remaining):
            seen.append(step)

    def recorder(verbose, what, total):
        seen.append((verbose, what, total))
        return Recorder()

    X = table(3000, 3)
    asked = int(np.isnan(X).any(axis=1).sum())
    plain = KNNImputer().fit_transform(X)
    monkeypatch.setattr("megae.imputers.knn.make_progress", recorder)
    monkeypatch.setattr("megae.imputers.knn.CHUNK_MEGABYTES", 8)
    np.testing.assert_allclose(KNNImputer(verbose=1).fit_transform(X), plain, rtol=1e-9)
    size = 2**20 // int((~np.isnan(X).all(axis=1)).sum())
    assert seen[0] == (1, "knn", asked)
    assert seen[1:] == [*range(size, asked, size), asked]
    assert len(seen) > 4


@pytest.mark.skipif(sys.gettrace() is not None, reason="tracing tools allocate too")
def test_memory_does_not_grow_with_rows_times_donors():
    rng = np.random.default_rng(0)
    X = rng.random((6000, 3))  # all distances at once take 300 MB
    X[rng.random(X.shape) < 0.2] = np.nan
    imputer = KNNImputer().fit(X)
    tracemalloc.start()
    imputer.transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


@pytest.mark.skipif(sys.gettrace() is not None, reason="tracing tools allocate too")
def test_the_chunk_size_bounds_the_memory(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.random((4000, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    imputer = KNNImputer(max_donors=None).fit(X)

    def peak(megabytes: int) -> float:
        monkeypatch.setattr("megae.imputers.knn.CHUNK_MEGABYTES", megabytes)
        tracemalloc.start()
        imputer.transform(X)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most / 2**20

    small, large = peak(4), peak(32)
    assert small < 5 * 4
    assert 1.5 * small < large < 5 * 32

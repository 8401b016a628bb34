import numpy as np
import pandas as pd
import torch
from imputer_cases import graphs, table
from sklearn.impute import SimpleImputer

from megae.imputers import MeanImputer


def test_agrees_with_scikit_learn():
    X, new = table(seed=1), table(10, seed=2)
    imputer, oracle = MeanImputer().fit(X), SimpleImputer(strategy="mean").fit(X)
    np.testing.assert_allclose(imputer.transform(new), oracle.transform(new), rtol=1e-14)


def test_the_mean_is_over_all_training_graphs_and_none_to_fill():
    train = graphs(4, seed=0)
    mean = torch.cat([g.x for g in train]).double().nanmean(dim=0)
    for before in graphs(2, seed=30):
        after = MeanImputer().fit(train).transform([before])[0]
        expected = torch.where(before.x.isnan(), mean.float(), before.x)
        torch.testing.assert_close(after.x, expected, rtol=1e-6, atol=0)


def test_validation_graphs_are_not_learnt_from():
    far = graphs(2, seed=9)
    for g in far:
        g.x = g.x + 100
    plain, given = MeanImputer().fit(graphs()), MeanImputer().fit(graphs(), validation=far)
    np.testing.assert_array_equal(plain.mean_, given.mean_)


def test_a_category_becomes_the_most_frequent_and_a_whole_number_stays_whole():
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(["b", "a", "b", None]),
            "k": pd.array([1, 2, 5, None], dtype="Int64"),
            "f": pd.array([True, True, False, None], dtype="boolean"),
        }
    )
    out = MeanImputer().fit_transform(frame)
    assert out.iloc[3].tolist() == ["b", 3, True]

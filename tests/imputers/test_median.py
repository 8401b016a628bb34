import numpy as np
import pandas as pd
from imputer_cases import table
from sklearn.impute import SimpleImputer

from megae.imputers import MedianImputer


def test_agrees_with_scikit_learn():
    X, new = np.exp(table(25, seed=1)), table(10, seed=2)
    imputer, oracle = MedianImputer().fit(X), SimpleImputer(strategy="median").fit(X)
    np.testing.assert_array_equal(imputer.transform(new), oracle.transform(new))


def test_a_category_becomes_the_most_frequent_even_without_a_majority():
    frame = pd.DataFrame({"c": pd.Categorical([*"abbcd", None]), "x": [1.0, 2, 3, 4, 5, 6]})
    assert MedianImputer().fit_transform(frame)["c"].iloc[5] == "b"

import numpy as np
import pandas as pd
from imputer_cases import ring, table

from megae.imputers import ZeroImputer


def test_holes_become_zero():
    X = table()
    np.testing.assert_array_equal(ZeroImputer().fit_transform(X, graph=ring()), np.nan_to_num(X))


def test_clip_moves_zero_into_the_observed_range():
    X = np.array([[2.0, -3.0], [5.0, 4.0], [np.nan, np.nan]])
    np.testing.assert_array_equal(ZeroImputer(clip=True).fit_transform(X)[2], [2.0, 0.0])


def test_a_category_becomes_the_first():
    frame = pd.DataFrame({"c": pd.Categorical(["b", "b", None], categories=["a", "b"])})
    assert list(ZeroImputer().fit_transform(frame)["c"]) == ["b", "b", "a"]

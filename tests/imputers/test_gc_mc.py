"""GC-MC: levels of real tables, and its settings."""

from __future__ import annotations

import numpy as np
import pytest
from imputer_cases import ring, table

from megae.imputers import GCMCImputer


def small(**kw):
    return GCMCImputer(**{"max_steps": 5, "hidden": 8, "code": 4, "random_state": 0, **kw})


def test_binary_columns_have_two_levels_and_are_filled_with_probabilities():
    rng = np.random.default_rng(0)
    X = (rng.random((40, 3)) < 0.4).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    imputer = small().fit(X, graph=ring(40))
    assert imputer.network_.body.centres.shape == (3, 2)
    filled = imputer.transform(X)[np.isnan(X)]
    assert ((filled > 0) & (filled < 1)).all()


def test_fills_stay_between_the_outermost_levels():
    X = table(60, 4)
    filled = small(levels=4).fit_transform(X, graph=ring(60))
    assert (filled >= np.nanmin(X, axis=0)).all()
    assert (filled <= np.nanmax(X, axis=0)).all()


def test_neighbours_are_side_information():
    X = table()
    X[5] = np.nan
    imputer = small(max_steps=50).fit(X, graph=ring())
    other = X.copy()
    other[[4, 6]] += 1.0
    assert not np.allclose(imputer.transform(X)[5], imputer.transform(other)[5])
    far = X.copy()
    far[20] += 1.0
    np.testing.assert_allclose(imputer.transform(X)[5], imputer.transform(far)[5], rtol=1e-6)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"levels": 1}, "levels must be at least 2"),
        ({"bases": 0}, "bases must be at least 1"),
        ({"dropout": 1.0}, "dropout must lie in"),
        ({"accumulation": "mean"}, "accumulation must be 'sum' or 'stack'"),
    ],
)
def test_bad_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        small(**setting).fit(table(), graph=ring())

"""Binary, categorical, count and mixed columns come back in range and in their own dtype."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from imputer_cases import ring
from megae_cases import holes, megae, mixed, punched, waves

FRAME = mixed()
A = ring(60)
COUNT = {"visits": "count"}


@pytest.fixture(scope="module")
def fitted():
    return megae(column_types=COUNT, max_steps=30, learning_rate=1e-2).fit(FRAME, graph=A)


def test_kinds(fitted):
    assert fitted.column_types_ == {
        "size": "continuous",
        "flag": "binary",
        "colour": "categorical",
        "visits": "count",
        "rank": "continuous",
    }


def test_values_in_range_and_dtypes_kept(fitted):
    out = fitted.transform(FRAME)
    assert (out.dtypes == FRAME.dtypes).all()
    assert not out.isna().any().any()
    assert out["flag"].between(0, 1).all()
    filled = out["flag"][FRAME["flag"].isna()]
    assert ((filled > 0) & (filled < 1)).any()
    assert (out["visits"] >= 0).all()
    assert out["colour"].isin(["red", "green", "blue"]).all()
    assert out["rank"].dtype == "Int64"
    for name in FRAME:
        seen = FRAME[name].notna()
        assert (out[name][seen] == FRAME[name][seen]).all()


@pytest.mark.parametrize("settings", [{}, {"preset": "paper"}, {"binary_loss": "cross-entropy"}])
def test_ranges_hold_after_a_wild_fit(settings):
    wild = megae(column_types=COUNT, max_steps=25, learning_rate=0.3, **settings).fit(FRAME, graph=A)
    out = wild.transform(FRAME)
    assert out["flag"].between(0, 1).all()
    assert (out["visits"] >= 0).all()
    assert not out.isna().any().any()
    for draw in wild.sample(FRAME, graph=A, n=3):
        assert draw["flag"][FRAME["flag"].isna()].isin([0.0, 1.0]).all()
        assert (draw["visits"] >= 0).all()
        assert draw["colour"].isin(["red", "green", "blue"]).all()


def test_categories_are_learnt():
    n = 120
    blocks = np.repeat(["red", "blue"], n // 2)
    lost = holes((n,), 0.2)
    colour = pd.Series(blocks).mask(lost).astype(pd.CategoricalDtype(["blue", "red"]))
    frame = pd.DataFrame({"colour": colour, "size": np.where(blocks == "red", 1.0, -1.0)})
    out = megae(max_steps=60, learning_rate=1e-2).fit_transform(frame, graph=ring(n))
    assert (out["colour"].astype(str)[lost] == blocks[lost]).mean() > 0.9


def test_list_and_mapping_say_the_same():
    by_name = megae(column_types={"visits": "count", "flag": "continuous"}).fit(FRAME, graph=A)
    kinds = ["continuous", "continuous", "categorical", "count", "continuous"]
    by_position = megae(column_types=kinds).fit(FRAME, graph=A)
    assert by_name.column_types_ == by_position.column_types_
    assert by_name.transform(FRAME).equals(by_position.transform(FRAME))
    assert not by_name.transform(FRAME)["flag"].equals(megae().fit_transform(FRAME, graph=A)["flag"])


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("numbers", "column_types must be 'auto', a mapping or a list"),
        ({"colours": "count"}, "names 'colours', which is not a column"),
        (["count"], "1 entries for 5 columns"),
        ({"size": "integer"}, "'integer'; known kinds are"),
        ({"size": "binary"}, "'size' was declared binary but holds values other than 0 and 1"),
        ({"rank": "count"}, "'rank' was declared count but holds negative values"),
        ({"size": "categorical"}, "give it pandas dtype 'category'"),
    ],
)
def test_types_that_do_not_fit_are_refused(types, message):
    with pytest.raises(ValueError, match=message):
        megae(column_types=types).fit(FRAME, graph=A)


def test_clip_keeps_to_the_observed_range():
    X = punched(waves(), holes((40, 4)))
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    wild = {
        "max_steps": 30,
        "learning_rate": 0.5,
        "preset": "paper",
        "patience": 1000,
        "validation_fraction": 0.0,
    }
    free = megae(**wild).fit(X, graph=ring(40))
    kept = megae(clip=True, **wild).fit(X, graph=ring(40))
    inside = lambda Y: ((low <= Y) & (high >= Y)).all()  # noqa: E731
    assert not inside(free.transform(X))
    assert inside(kept.transform(X))
    assert all(inside(end) for end in kept.intervals(X, coverage=0.8))
    assert all(inside(draw) for draw in kept.sample(X, n=3))
    assert not all(inside(draw) for draw in free.sample(X, n=3))


def test_a_binary_column_alone():
    flags = np.where(holes((50, 1), 0.2), np.nan, (np.arange(50) < 25)[:, None].astype(float))
    path = sp.diags_array([np.ones(49), np.ones(49)], offsets=[-1, 1])
    out = megae(max_steps=40, learning_rate=1e-2, dropout=0.0).fit_transform(flags, graph=path)
    assert ((out >= 0) & (out <= 1)).all()
    lost = np.isnan(flags[:, 0])
    assert out[lost & (np.arange(50) < 25)].mean() > out[lost & (np.arange(50) >= 25)].mean() + 0.2

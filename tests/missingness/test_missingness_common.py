"""What every mechanism promises: the rate, the seed, the table left alone, and errors that say what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from missingness_cases import MECHANISMS, assert_binomial, correlated, counted, digest

import megae.missingness

ROOT = Path(__file__).resolve().parents[2]
every = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
BY_CELL = [name for name in MECHANISMS if name != "whole-node"]
RATES = (0.01, 0.1, 0.3, 0.5, 0.9, 0.99)
CEILING = 0.6
"""Of ``mar`` on five columns, two of which drive."""

MASKS = {
    "mcar": "321c893a2d0e28d2",
    "mar": "18fe4b6cc1a86788",
    "mar-degree": "3d0cb33856a4d6d3",
    "mnar-self": "bef00d9b2690175c",
    "mnar-quantile": "d4b621c7f98dacdd",
    "whole-node": "bc0362621ac81c1c",
}
"""Of the table ``counted()`` at rate 0.3 and seed 2023: the same on every platform."""


@pytest.mark.parametrize(
    ("name", "rate"), [(name, rate) for name in BY_CELL for rate in RATES if name != "mar" or rate < CEILING]
)
def test_rate_is_met_within_binomial_bounds(name, rate):
    X = correlated(4000)
    X[::7] = np.nan
    holes = MECHANISMS[name](X, rate, 1)
    assert_binomial(int(holes.sum()), int((~np.isnan(X)).sum()), rate)


@pytest.mark.parametrize("name", BY_CELL)
@settings(max_examples=25)
@given(
    rate=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**40),
    n=st.integers(1, 300),
    shape=st.sampled_from(["normal", "binary", "constant", "cauchy", "huge", "offset", "tiny"]),
)
def test_rate_is_met_on_any_table(name, rate, seed, n, shape):
    rng = np.random.default_rng(seed + 1)
    X = {
        "normal": lambda: rng.normal(size=(n, 4)),
        "binary": lambda: (rng.random((n, 4)) < 0.05).astype(float),
        "constant": lambda: np.full((n, 4), 3.0),
        "cauchy": lambda: rng.standard_cauchy((n, 4)),
        "huge": lambda: np.where(rng.random((n, 4)) < 0.5, -1.7e308, 1.7e308),
        "offset": lambda: 1e12 + rng.normal(size=(n, 4)),
        "tiny": lambda: rng.normal(size=(n, 4)) * 1e-300,
    }[shape]()
    X[rng.random((n, 4)) < 0.2] = np.nan
    observed = ~np.isnan(X)
    if name == "mar":
        rate *= 0.5 * observed[:, 1:].sum() / max(observed.sum(), 1)
        assume(rate > 0)
    with np.errstate(all="raise", under="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="what drives the holes")
        if name == "mar":
            holes = megae.missingness.mar(X, rate, seed, drivers=[0])
        else:
            holes = MECHANISMS[name](X, rate, seed)
    assert not (holes & ~observed).any()
    assert_binomial(int(holes.sum()), int(observed.sum()), rate)


@every
def test_old_holes_are_not_in_the_mask(mechanism):
    X = counted()
    holes = mechanism(X, 0.5, 0)
    assert holes.dtype == bool
    assert holes.shape == X.shape
    assert holes.any()
    assert not holes[np.isnan(X)].any()


@pytest.mark.parametrize("name", MECHANISMS)
def test_mask_of_a_seed_is_the_stored_one(name):
    assert digest(MECHANISMS[name](counted(), 0.3, 2023)) == MASKS[name]


OTHER_CODE_PATHS = """
import json, sys
import numpy as np
sys.path[:0] = sys.argv[1:]
from missingness_cases import MECHANISMS, correlated, counted, digest
from megae.missingness.exact import exact_product, probabilities, sigmoid, standardize
Z = standardize(correlated(3000, 40))
W = (2 * np.floor(np.random.default_rng(1).random((40, 30)) * 256) - 255) / 256
parts = {
    "sigmoid": sigmoid(np.linspace(-45, 45, 100_001)),
    "standardize": Z,
    "exact_product": exact_product(Z, W),
    "probabilities": probabilities(2 * Z, np.ones(Z.shape, dtype=bool), 0.3),
}
X = counted()
figures = {name: digest(part) for name, part in parts.items()}
print(json.dumps(figures | {name: digest(mechanism(X, 0.3, 2023)) for name, mechanism in MECHANISMS.items()}))
"""


def test_other_code_paths_of_numpy_and_blas_give_the_same_bits():
    """Without its vector instructions numpy runs other loops and BLAS another kernel, as another machine would."""
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    environments = [{}, {"NPY_DISABLE_CPU_FEATURES": " ".join(found), "OPENBLAS_CORETYPE": "Prescott"}]
    plain, other = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", OTHER_CODE_PATHS, str(ROOT), str(Path(__file__).parent)],
                capture_output=True,
                text=True,
                timeout=240,
                check=True,
                env={**os.environ, **environment},
            ).stdout
        )
        for environment in environments
    )
    assert plain == other
    assert {name: plain[name] for name in MASKS} == MASKS


@every
def test_seeds_repeat_and_differ(mechanism):
    X = correlated(300)
    again = [mechanism(X, 0.3, 5) for _ in range(2)]
    np.testing.assert_array_equal(*again)
    assert (mechanism(X, 0.3, 6) != again[0]).any()
    assert (mechanism(X, 0.3) != mechanism(X, 0.3)).any()
    np.testing.assert_array_equal(mechanism(X, 0.3, np.int64(5)), again[0])


@every
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"])
def test_generators_are_drawn_from_and_move_on(mechanism, make):
    X = correlated(300)
    source = make(7)
    first, second = mechanism(X, 0.3, source), mechanism(X, 0.3, source)
    assert (first != second).any()
    np.testing.assert_array_equal(mechanism(X, 0.3, make(7)), first)


def test_a_table_drawn_with_the_same_seed_is_independent_of_the_holes():
    X = np.random.default_rng(0).random((2000, 5))
    holes = megae.missingness.mcar(X, 0.3, 0)
    assert abs(X[holes].mean() - X[~holes].mean()) < 0.03


@every
def test_table_and_global_random_state_are_left_alone(mechanism):
    X = counted()
    before = X.copy()
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random(4)  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    expected_torch = torch.rand(4)
    torch.manual_seed(3)
    mechanism(X, 0.3)
    mechanism(X, 0.3, 1)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(np.random.random(4), expected)  # noqa: NPY002
    assert torch.equal(torch.rand(4), expected_torch)


@every
def test_every_kind_of_table_gives_the_same_mask(mechanism):
    X = counted()
    expected = mechanism(X, 0.3, 4)
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    stored = sp.csr_array(X)
    for other in (frame, torch.from_numpy(X), torch.from_numpy(X).float(), X.tolist(), np.asfortranarray(X)):
        np.testing.assert_array_equal(mechanism(other, 0.3, 4), expected)
    if mechanism is not MECHANISMS["mar-degree"]:
        np.testing.assert_array_equal(mechanism(stored, 0.3, 4), expected)
    assert int(frame.mask(expected).isna().to_numpy().sum()) == int(expected.sum() + np.isnan(X).sum())


@every
@pytest.mark.parametrize("rate", [0, 1, 0.0, 1.0, -0.1, 1.5, float("nan"), "0.3", None])
def test_rates_outside_the_open_interval_are_refused(mechanism, rate):
    with pytest.raises(ValueError, match="rate must be a number strictly between 0 and 1, got"):
        mechanism(correlated(20), rate, 0)


@every
@pytest.mark.parametrize("random_state", ["0", 0.5, True, -1, np.random])
def test_what_is_no_random_state_is_refused(mechanism, random_state):
    with pytest.raises(ValueError, match="random_state must be an integer"):
        mechanism(correlated(20), 0.3, random_state)


@every
def test_a_table_that_is_not_two_dimensional_is_refused(mechanism):
    with pytest.raises(ValueError, match="two-dimensional"):
        mechanism(np.zeros(5), 0.3, 0)


@every
def test_a_table_without_an_observed_cell_loses_none(mechanism):
    X = np.full((6, 3), np.nan)
    assert not mechanism(X, 0.5, 0).any()


@pytest.mark.parametrize("name", ["mar", "mnar-self", "mnar-quantile"])
def test_infinities_are_refused_with_their_place(name):
    X = pd.DataFrame(correlated(10), columns=list("abcde"))
    X.iloc[3, 2] = np.inf
    with pytest.raises(ValueError, match="X holds inf in row 3 of column 'c'"):
        MECHANISMS[name](X, 0.3, 0)


@pytest.mark.parametrize("name", ["mar", "mnar"])
@pytest.mark.parametrize("slope", [0, float("nan"), float("inf"), 1000, "2"])
def test_slopes_that_mean_nothing_are_refused(name, slope):
    with pytest.raises(ValueError, match="slope must be a number between -100 and 100 other than 0"):
        megae.missingness.MECHANISMS[name](correlated(10), 0.3, 0, slope=slope)


def test_catalogue_names_every_mechanism():
    functions = {megae.missingness.mcar, megae.missingness.mar, megae.missingness.mnar, megae.missingness.whole_node}
    assert set(megae.missingness.MECHANISMS.values()) == functions
    assert list(megae.missingness.MECHANISMS) == ["mcar", "mar", "mnar", "whole-node"]

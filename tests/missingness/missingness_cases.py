"""Tables, graphs and bounds that the tests of all mechanisms share."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.stats import binom

from megae.missingness import mar, mcar, mnar, whole_node


def path_and_star(n: int) -> sp.csr_array:
    """A path over n nodes whose every third node is also joined to node 0: degrees vary."""
    row = np.concatenate([np.arange(n - 1), np.zeros(len(range(3, n, 3)), dtype=int)])
    col = np.concatenate([np.arange(1, n), np.arange(3, n, 3)])
    return sp.csr_array((np.ones(row.size), (row, col)), shape=(n, n))


def mar_by_degree(X: np.ndarray, rate: float, random_state: object = None) -> np.ndarray:
    return mar(X, rate, random_state, drivers="degree", graph=path_and_star(len(X)))


def mnar_by_quantile(X: np.ndarray, rate: float, random_state: object = None) -> np.ndarray:
    return mnar(X, rate, random_state, form="quantile")


MECHANISMS: dict[str, Callable[..., np.ndarray]] = {
    "mcar": mcar,
    "mar": mar,
    "mar-degree": mar_by_degree,
    "mnar-self": mnar,
    "mnar-quantile": mnar_by_quantile,
    "whole-node": whole_node,
}


def correlated(n: int, D: int = 5, seed: int = 0) -> np.ndarray:
    """(n, D) normal columns that share half of their variance."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, 1)) + rng.normal(size=(n, D))) / np.sqrt(2)


def counted(n: int = 400, D: int = 7) -> np.ndarray:
    """(n, D) numbers made of integers alone, with old holes, so that every platform holds the same."""
    i, j = np.arange(n)[:, None], np.arange(D)[None, :]
    X = ((i * i * 7919 + i * (j + 3) * 104729 + j * 31) % 1009) / 64.0
    X[(i * 13 + j * 7) % 11 == 0] = np.nan
    return X


def digest(array: np.ndarray) -> str:
    """Short hash of the bits of an array in a fixed byte order; a boolean one is packed first."""
    plain = np.packbits(array) if array.dtype == bool else array.astype(array.dtype.newbyteorder("<"))
    return hashlib.sha256(np.ascontiguousarray(plain).tobytes()).hexdigest()[:16]


def assert_binomial(count: int, n: int, rate: float) -> None:
    """Count is one that a binomial of n and rate leaves unseen with a chance of one in a billion at each end."""
    low, high = binom.ppf(1e-9, n, rate), binom.ppf(1 - 1e-9, n, rate)
    assert low <= count <= high, f"{count} of {n} at rate {rate}: outside {low:.0f}..{high:.0f}"

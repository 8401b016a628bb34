"""Tables, graphs and stand-in methods for the tests of ``compare``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp


def wave(n: int = 60, d: int = 4, rate: float = 0.1, seed: int = 0) -> np.ndarray:
    """(n, d) smooth along a ring, columns on different scales, NaN at ``rate``."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n)[:, None] / n
    X = (3 + np.cos(angle + np.arange(d)) + 0.1 * rng.standard_normal((n, d))) * 10.0 ** np.arange(d)
    X[rng.random((n, d)) < rate] = np.nan
    return X


def ring(n: int = 60) -> sp.csr_array:
    """Ring over n nodes, weights 1."""
    A = np.roll(np.eye(n), 1, axis=1)
    return sp.csr_array(A + A.T)


def mixed(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """A column of each dtype, holes in each, rows labelled."""
    rng = np.random.default_rng(seed)
    wave = np.cos(2 * np.pi * np.arange(n) / n)
    holes = rng.random((n, 5)) < 0.1
    frame = pd.DataFrame(
        {
            "double": pd.Series(wave + 0.1 * rng.standard_normal(n)).mask(holes[:, 0]),
            "whole": pd.Series(np.rint(9 * wave), dtype="Int64").mask(holes[:, 1]),
            "flag": pd.Series(wave > 0, dtype="boolean").mask(holes[:, 2]),
            "colour": pd.Series(np.where(wave > 0.5, "red", np.where(wave < -0.5, "blue", "green")))
            .mask(holes[:, 3])
            .astype("category"),
            "single": pd.Series(2 + wave, dtype="float32").mask(holes[:, 4]),
            "sure": wave > 0.2,
            "count": np.arange(n, dtype=np.uint16),
        }
    )
    return frame.set_axis([f"n{i}" for i in range(n)], axis=0)


def oracle(truth: np.ndarray, noise: float, seed: int = 0) -> type[Any]:
    """A method that knows the answers and errs by a normal deviate times ``noise`` and the column's range."""
    span = np.nanmax(truth, axis=0) - np.nanmin(truth, axis=0)
    error = np.random.default_rng(seed).standard_normal(truth.shape) * noise * span

    class Oracle:
        def fit_transform(self, X: Any, *, graph: Any = None) -> np.ndarray:
            guess = np.where(np.isnan(truth), 0.0, truth + error)
            return np.where(np.isnan(X), guess, X)

    return Oracle

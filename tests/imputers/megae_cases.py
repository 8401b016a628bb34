"""Small data and small networks for the tests of MEGAE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from imputer_cases import edge_index, ring
from torch_geometric.data import Data

from megae import MEGAEImputer

TINY: dict[str, Any] = {"hidden": 16, "band_width": 4, "max_steps": 12, "random_state": 0, "n_jobs": 1}


def megae(**kw: Any) -> MEGAEImputer:
    """A small imputer without its graph-free twin."""
    return MEGAEImputer(**{**TINY, "diagnose": False, **kw})


def waves(n: int = 40, d: int = 4, seed: int = 0) -> np.ndarray:
    """(n, d), complete, smooth along a ring."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n)[:, None] / n
    return 3 + np.cos(angle + np.arange(d) + rng.random()) + 0.05 * rng.standard_normal((n, d))


def holes(shape: tuple[int, ...], rate: float = 0.25, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < rate


def punched(truth: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return np.where(mask, np.nan, truth)


def collection(k: int = 24, n: int = 9, d: int = 3, rate: float = 0.2, seed: int = 0) -> list[Data]:
    """k rings with holes, float64."""
    edges = torch.from_numpy(edge_index(ring(n)))
    tables = [punched(waves(n, d, seed + i), holes((n, d), rate, seed + i)) for i in range(k)]
    return [Data(x=torch.from_numpy(x), edge_index=edges) for x in tables]


def weights(imputer: MEGAEImputer) -> list[torch.Tensor]:
    return [w.detach().clone() for w in imputer.network_.parameters()]


def same_weights(a: MEGAEImputer, b: MEGAEImputer) -> bool:
    return all(torch.equal(x, y) for x, y in zip(weights(a), weights(b), strict=True))


def mixed(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Continuous, binary, category, count and nullable integer columns with holes in each."""
    rng = np.random.default_rng(seed)
    wave = np.cos(2 * np.pi * np.arange(n) / n)
    lost = rng.random((n, 5)) < 0.25
    lost[:6] = False
    return pd.DataFrame(
        {
            "size": pd.Series(wave + 5).mask(lost[:, 0]),
            "flag": pd.Series((wave > 0).astype(float)).mask(lost[:, 1]),
            "colour": pd.Series(np.choose(np.digitize(wave, [-0.4, 0.4]), ["red", "green", "blue"]))
            .mask(lost[:, 2])
            .astype(pd.CategoricalDtype(["red", "green", "blue"])),
            "visits": pd.Series(rng.poisson(2 + wave).astype(float)).mask(lost[:, 3]),
            "rank": pd.Series(np.rint(9 * wave), dtype="Int64").mask(lost[:, 4]),
        }
    )

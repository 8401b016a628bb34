"""Tables with holes, graphs over them and small settings of every method, for the tests of imputers."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from megae.imputers import REGISTRY, GraphImputer, get_imputer

SMALL: dict[str, dict[str, Any]] = {
    "mice": {"n_imputations": 2, "max_iter": 2},
    "svd": {"max_iter": 20},
    "missforest": {"n_estimators": 2, "max_iter": 3},
    "megae": {"max_steps": 5, "hidden": 16},
    "vgae": {"max_steps": 5},
    "grape": {"max_steps": 5, "hidden": 8},
    "gdn": {"max_steps": 5, "hidden": 16},
    "gc-mc": {"max_steps": 5, "hidden": 16, "code": 8, "levels": 5},
    "srmgcnn": {"max_steps": 5, "diffusion_steps": 2, "features": 8},
    "graphvae": {"max_steps": 3, "max_nodes": 12, "latent": 4},
    "gain": {"max_steps": 5},
    "ot": {"max_steps": 5, "visits": 2},
    "miracle": {"max_steps": 5, "baseline": "mean", "sweeps": 2},
    "molgan": {"max_steps": 2, "max_nodes": 12, "n_critic": 1},
    "inv-mlp": {"max_steps": 5, "hidden": 8, "diagnose": False},
    "inv-gcn": {"max_steps": 5, "hidden": 8, "diagnose": False},
}


def make(name: str, **kw: Any) -> GraphImputer:
    """The method, small and seeded."""
    settings = dict(SMALL.get(name, {}))
    accepted = inspect.signature(REGISTRY[name]).parameters
    settings |= {k: v for k, v in {"random_state": 0, "verbose": 0}.items() if k in accepted}
    return get_imputer(name, **{**settings, **kw})


def table(n: int = 24, d: int = 4, rate: float = 0.3, seed: int = 0) -> np.ndarray:
    """(n, d) smooth along a ring, NaN at ``rate``; every column keeps three observed cells or more."""
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * np.arange(n)[:, None] / n
    X = 3 + np.cos(angle + np.arange(d)) + 0.1 * rng.standard_normal((n, d))
    X[rng.random((n, d)) < rate] = np.nan
    X[:3] = np.nan_to_num(X[:3], nan=1.5)
    X[3, 0] = np.nan
    return X


def ring(n: int = 24) -> sp.csr_array:
    """Ring with some chords, (n, n), weights 1."""
    i = np.arange(n)
    A = sp.coo_array((np.ones(n), (i, (i + 1) % n)), shape=(n, n)).toarray()
    A[i[: n // 3], (i[: n // 3] + n // 2) % n] = 1.0
    A = np.maximum(A, A.T)
    np.fill_diagonal(A, 0.0)
    return sp.csr_array(A)


def edge_index(A: sp.csr_array) -> np.ndarray:
    """(2, E), each edge in both directions."""
    return np.stack(A.tocoo().coords).astype(np.int64)


def graphs(k: int = 6, n: int = 8, d: int = 3, seed: int = 0) -> list[Data]:
    """k small graphs with holes, float32."""
    edges = torch.from_numpy(edge_index(ring(n)))
    return [
        Data(x=torch.from_numpy(table(n, d, seed=seed + i)).float(), edge_index=edges, y=torch.tensor([i % 2]))
        for i in range(k)
    ]


def mixed_frame(n: int = 24, seed: int = 0) -> pd.DataFrame:
    """One column of each dtype that must come back, with holes in each but the last."""
    rng = np.random.default_rng(seed)
    holes = rng.random((n, 6)) < 0.3
    holes[:4] = False
    holes[4] = True
    wave = np.cos(2 * np.pi * np.arange(n) / n)
    frame = pd.DataFrame(
        {
            "double": pd.Series(wave).mask(holes[:, 0]),
            "single": pd.Series(2 + wave, dtype="float32").mask(holes[:, 1]),
            "whole": pd.Series(np.rint(9 * wave), dtype="Int64").mask(holes[:, 2]),
            "flag": pd.Series(wave > 0, dtype="boolean").mask(holes[:, 3]),
            "colour": pd.Series(np.where(wave > 0.3, "red", "blue")).mask(holes[:, 4]).astype("category"),
            "nullable": pd.Series(wave, dtype="Float32").mask(holes[:, 5]),
            "complete": np.arange(n),
        }
    )
    return frame.set_axis([f"n{i}" for i in range(n)], axis=0)


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays hold the same bytes, -0.0 and NaN payloads told apart."""
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()

"""Tables whose columns tell about each other, for the tests of methods that look at rows alone."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data


def correlated(n: int = 600, d: int = 6, seed: int = 0) -> np.ndarray:
    """(n, d): two hidden factors seen through d columns of different units, a tenth of noise."""
    rng = np.random.default_rng(7)
    mixing = rng.standard_normal((2, d))
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ mixing + 0.1 * rng.standard_normal((n, d))
    return X * 10.0 ** np.arange(-1, d - 1) + 5.0


def punched(X: np.ndarray, rate: float = 0.2, seed: int = 1) -> np.ndarray:
    """X with NaN at ``rate``."""
    return np.where(np.random.default_rng(seed).random(X.shape) < rate, np.nan, X)


def as_graphs(X: np.ndarray, size: int = 20) -> list[Data]:
    """Rows cut into graphs without edges."""
    edges = torch.empty(2, 0, dtype=torch.long)
    return [Data(x=torch.from_numpy(X[i : i + size].copy()), edge_index=edges) for i in range(0, len(X), size)]


def error(filled: np.ndarray, X: np.ndarray, holes: np.ndarray) -> float:
    """RMSE over holes in standard deviations: about 1 for the column mean."""
    return float(np.sqrt(np.mean(((filled - X) / X.std(axis=0))[holes] ** 2)))


def table_error(imputer, X: np.ndarray | None = None) -> float:
    """Of filling a table with holes that it was fitted to."""
    X = correlated() if X is None else X
    given = punched(X)
    return error(imputer.fit_transform(given), X, np.isnan(given))


def graphs_error(imputer) -> float:
    """Of filling new graphs after fitting complete ones."""
    X = correlated(200, seed=3)
    given = punched(X, seed=4)
    validation = as_graphs(punched(correlated(200, seed=5), seed=6))
    filled = imputer.fit(as_graphs(correlated()), validation=validation).transform(as_graphs(given))
    return error(torch.cat([g.x for g in filled]).numpy(), X, np.isnan(given))

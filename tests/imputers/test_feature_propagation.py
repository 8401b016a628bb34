import numpy as np
import pytest
import scipy.sparse as sp
import torch
from geometric_cases import error_against_mean, geometric
from imputer_cases import edge_index, graphs, ring, table
from torch_geometric.data import Data
from torch_geometric.transforms import FeaturePropagation

from megae.imputers import FeaturePropagationImputer, MeanImputer

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CS")


def by_pyg(X: np.ndarray, A: sp.csr_array, num_iterations: int = 40) -> np.ndarray:
    data = Data(
        x=torch.from_numpy(X.copy()),
        edge_index=torch.from_numpy(edge_index(A)),
        edge_weight=torch.from_numpy(A.tocoo().data),
    )
    return FeaturePropagation(torch.isnan(data.x), num_iterations)(data).x.numpy()


@pytest.mark.parametrize("num_iterations", [1, 7, 40])
def test_agrees_with_pyg(num_iterations):
    X, A = table(40, 5, rate=0.5), ring(40)
    out = FeaturePropagationImputer(num_iterations=num_iterations).fit_transform(X, graph=A)
    reached = np.abs(by_pyg(X, A, num_iterations)) > 0
    assert reached.mean() > 0.9
    np.testing.assert_allclose(out[reached], by_pyg(X, A, num_iterations)[reached], rtol=1e-12)


def test_agrees_with_pyg_on_weighted_edges():
    X, A = table(40, 5, rate=0.5), ring(40).toarray()
    W = np.random.default_rng(0).random(A.shape)
    A = sp.csr_array(A * (W + W.T))
    np.testing.assert_allclose(FeaturePropagationImputer().fit_transform(X, graph=A), by_pyg(X, A), rtol=1e-12)


def test_many_iterations_solve_the_linear_system():
    """At the fixed point the holes h satisfy (I - S_hh) x_h = S_ho x_o."""
    X, A = table(30, 1, rate=0.4), ring(30).toarray()
    root = np.sqrt(A.sum(axis=1))
    S = A / np.outer(root, root)
    h, o = np.isnan(X[:, 0]), ~np.isnan(X[:, 0])
    exact = np.linalg.solve(np.eye(h.sum()) - S[np.ix_(h, h)], S[np.ix_(h, o)] @ X[o, 0])
    out = FeaturePropagationImputer(num_iterations=2000).fit_transform(X, graph=A)
    np.testing.assert_allclose(out[h, 0], exact, rtol=1e-9)


def test_center_propagates_deviations_from_the_training_mean():
    X, A = table(40, 5, rate=0.5), ring(40)
    mean = np.nanmean(X, axis=0)
    out = FeaturePropagationImputer(center=True).fit_transform(X, graph=A)
    np.testing.assert_allclose(out, by_pyg(X - mean, A) + mean, rtol=1e-10)


@pytest.mark.parametrize("center", [False, True])
def test_cells_nothing_reaches_get_the_training_mean(center):
    A = sp.block_diag([ring(12), ring(6), sp.csr_array((2, 2))]).tocsr()
    X = table(20, 2)
    X[12:18, 1] = np.nan
    X[18] = np.nan, 5.0
    X[19] = 5.0, np.nan
    imputer = FeaturePropagationImputer(center=center).fit(X, graph=A)
    out = imputer.transform(X)
    mean = MeanImputer().fit(X).mean_
    np.testing.assert_allclose(out[12:18, 1], mean[1], rtol=1e-12)
    np.testing.assert_allclose([out[18, 0], out[19, 1]], mean, rtol=1e-12)
    np.testing.assert_allclose(
        out[:12],
        FeaturePropagationImputer(center=center).fit(X, graph=A).transform(X[:12], graph=ring(12)),
        rtol=1e-12,
    )


def test_cells_too_far_away_get_the_training_mean():
    n = 12
    path = np.stack([np.arange(n - 1), np.arange(1, n)])
    X = np.full((n, 1), np.nan)
    X[0] = 8.0
    out = FeaturePropagationImputer(num_iterations=4).fit_transform(X, graph=path).ravel()
    assert (out[5:] == 8.0).all()
    assert (out[1:5] > 0).all()
    assert (out[1:5] != 8.0).all()


def test_graphs_are_filled_apart():
    items = graphs(5, seed=3)
    together = FeaturePropagationImputer().fit(items).transform(items)
    imputer = FeaturePropagationImputer().fit(items)
    for a, b in zip(together, items, strict=True):
        assert torch.equal(a.x, imputer.transform([b])[0].x)


def test_beats_the_mean_where_whole_nodes_miss_a_smooth_signal():
    X, A, nodes = geometric()
    filled = FeaturePropagationImputer().fit_transform(np.where(nodes[:, None], np.nan, X), graph=A)
    assert error_against_mean(filled, X, nodes) < 0.4


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="num_iterations must be at least 1, got 0"):
        FeaturePropagationImputer(num_iterations=0).fit(table())

"""At random: what stays observed drives the holes, and given that, the hidden value does not."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from missingness_cases import assert_binomial, correlated, path_and_star
from sklearn.linear_model import LogisticRegression
from torch_geometric.data import Data

from megae.missingness import mar


def fitted(features: np.ndarray, holes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of a logistic regression without penalty, and their standard errors."""
    model = LogisticRegression(C=np.inf, max_iter=500, tol=1e-8).fit(features, holes)
    p = model.predict_proba(features)[:, 1]
    design = np.hstack([features, np.ones((len(features), 1))])
    information = design.T @ (design * (p * (1 - p))[:, None])
    return model.coef_[0], np.sqrt(np.diag(np.linalg.inv(information)))[:-1]


def test_holes_depend_on_drivers_and_given_them_not_on_the_value():
    X = correlated(20_000, 6)
    holes = mar(X, 0.3, 0, drivers=[0, 3])
    assert not holes[:, [0, 3]].any()
    for j in (1, 2, 4, 5):
        h = holes[:, j]
        alone, error = fitted(X[:, [j]], h)
        others = [k for k in (1, 2, 4, 5) if k != j]
        given, errors = fitted(X[:, [0, 3, j, *others]], h)
        assert np.abs(given[:2] / errors[:2]).max() > 10
        assert np.abs(given[2:] / errors[2:]).max() < 4
        score = X[:, [0, 3]] @ given[:2]
        assert abs(score.std() - 2.0) < 0.15
        if abs(np.corrcoef(score, X[:, j])[0, 1]) > 0.3:
            assert abs(alone[0] / error[0]) > 10


def test_within_strata_of_the_only_driver_hidden_and_kept_values_agree():
    X = correlated(40_000, 2)
    h = mar(X, 0.25, 0, drivers=[0])[:, 1]
    assert abs(X[h, 1].mean() - X[~h, 1].mean()) > 0.4
    strata = np.digitize(X[:, 0], np.quantile(X[:, 0], np.linspace(0, 1, 101)[1:-1]))
    gaps = [
        X[s & h, 1].mean() - X[s & ~h, 1].mean()
        for s in (strata == k for k in range(100))
        if 20 < h[s].sum() < s.sum() - 20
    ]
    assert len(gaps) > 50
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(len(gaps)) + 0.01


def test_altering_targets_moves_no_hole_but_altering_drivers_does():
    X = correlated(500)
    holes = mar(X, 0.3, 0, drivers=[1])
    other = X.copy()
    other[:, [0, 2, 3, 4]] = np.random.default_rng(9).normal(size=(500, 4))
    np.testing.assert_array_equal(mar(other, 0.3, 0, drivers=[1]), holes)
    other = X.copy()
    other[:, 1] = np.random.default_rng(9).normal(size=500)
    assert (mar(other, 0.3, 0, drivers=[1]) != holes).any()


@pytest.mark.parametrize(("D", "expected"), [(2, 1), (3, 1), (5, 2), (10, 3), (20, 6)])
def test_by_default_three_columns_in_ten_drive_at_least_one(D, expected):
    chosen = {tuple(np.flatnonzero(~mar(correlated(400, D), 0.3, seed).any(axis=0))) for seed in range(8)}
    assert {len(drivers) for drivers in chosen} == {expected}
    assert len(chosen) > 1


def test_columns_that_vary_are_chosen_first():
    X = correlated(300, 10)
    X[:, 3:] = 1.0
    for seed in range(5):
        assert not mar(X, 0.3, seed)[:, :3].any()


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.5, 0.59])
def test_targets_miss_more_so_that_the_whole_table_meets_the_rate(rate):
    X = correlated(5000, 10)
    X[:2500, :5] = np.nan
    observed = ~np.isnan(X)
    holes = mar(X, rate, 3, drivers=[7, 8, 9])
    assert_binomial(int(holes.sum()), int(observed.sum()), rate)
    for j in range(7):
        assert_binomial(int(holes[:, j].sum()), int(observed[:, j].sum()), rate / 0.6)


@pytest.mark.parametrize("rate", [0.99, 0.75, 0.8])
def test_a_rate_beyond_the_ceiling_is_refused_with_the_ceiling(rate):
    with pytest.raises(ValueError, match=rf"rate {rate} cannot be reached.* must be below 0\.75; hide a smaller share"):
        mar(correlated(50, 4), rate, 0, drivers=[2])
    assert mar(correlated(50, 4), 0.749, 0, drivers=[2]).any()


def test_ceiling_counts_observed_cells():
    X = correlated(100, 2)
    X[:50, 1] = np.nan
    with pytest.raises(ValueError, match=r"below 0\.333333"):
        mar(X, 0.4, 0, drivers=[0])


def test_with_few_drivers_the_highest_rate_is_reached():
    X = correlated(200, 400)
    assert_binomial(int(mar(X, 0.99, 0, drivers=[5]).sum()), X.size, 0.99)


def test_old_holes_of_drivers_count_as_the_mean():
    X = correlated(20_000, 2) + np.array([5.0, 0.0])
    X[::2, 0] = np.nan
    h = mar(X, 0.2, 0, drivers=[0])[:, 1]
    kept = ~np.isnan(X[:, 0])
    filled = np.where(kept, X[:, 0], np.nanmean(X[:, 0]))
    coefficient, error = fitted(np.column_stack([filled - filled.mean(), ~kept]) / [filled.std(), 1], h)
    assert abs(abs(coefficient[0]) - 2.0) < 5 * error[0]
    assert abs(coefficient[1]) < 5 * error[1]


def test_drivers_by_label_and_by_position():
    X = correlated(200, 4)
    frame = pd.DataFrame(X, columns=["a", "b", 0, "d"])
    by_position = mar(X, 0.3, 0, drivers=np.array([2]))
    np.testing.assert_array_equal(mar(frame, 0.3, 0, drivers=[0]), by_position)
    np.testing.assert_array_equal(mar(frame, 0.3, 0, drivers=frame.columns[2:3]), by_position)


@pytest.mark.parametrize(
    ("drivers", "message"),
    [
        (["z"], "drivers names 'z', which is not a column; columns are"),
        ([7], "drivers names 7, which is not a column"),
        ([True, False], "drivers names True, which is not a column"),
        ([0, 1, 2], "names every column"),
        ([], "drivers must be a share, a list of columns, 'degree' or None"),
        (2, "drivers must be a share, a list of columns, 'degree' or None"),
        ("all", "drivers must be a share, a list of columns, 'degree' or None"),
        (1.0, "strictly between 0 and 1"),
        (float("nan"), "strictly between 0 and 1"),
    ],
)
def test_bad_drivers_are_refused(drivers, message):
    with pytest.raises(ValueError, match=message):
        mar(correlated(20, 3), 0.2, 0, drivers=drivers)


def test_share_of_drivers():
    holes = mar(correlated(400, 10), 0.3, 0, drivers=np.float32(0.5))
    assert int((~holes.any(axis=0)).sum()) == 5


def test_constant_drivers_are_warned_of_and_the_rate_holds():
    X = correlated(3000, 3)
    X[:, 0] = 4.0
    with pytest.warns(UserWarning, match="the same in every row, so they depend on nothing"):
        holes = mar(X, 0.3, 0, drivers=[0])
    assert_binomial(int(holes.sum()), X.size, 0.3)


def barabasi(n: int) -> nx.Graph:
    return nx.barabasi_albert_graph(n, 3, seed=0)


def test_degree_drives_a_single_column():
    graph = barabasi(20_000)
    degree = np.array([d for _, d in graph.degree], dtype=float)
    X = (0.1 * degree + np.random.default_rng(0).normal(size=20_000))[:, None]
    h = mar(X, 0.3, 0, graph=graph)[:, 0]
    assert_binomial(int(h.sum()), 20_000, 0.3)
    z = (degree - degree.mean()) / degree.std()
    coefficient, error = fitted(np.column_stack([z, X[:, 0]]), h)
    assert abs(coefficient[0] - 2.0) < 4 * error[0]
    assert abs(coefficient[1]) < 4 * error[1]


@pytest.mark.parametrize("rate", [0.01, 0.5, 0.99])
def test_degree_leaves_no_ceiling(rate):
    X = correlated(5000, 1)
    assert_binomial(int(mar(X, rate, 0, graph=path_and_star(5000)).sum()), 5000, rate)


def test_every_kind_of_graph_gives_the_same_mask():
    A = path_and_star(60)
    X = correlated(60, 1)
    expected = mar(X, 0.4, 0, graph=A)
    edges = np.stack(A.nonzero())
    weighted = sp.coo_array(A * 3.5)
    table = pd.DataFrame(edges.T, columns=["source", "target"])
    for graph in (weighted, edges, torch.from_numpy(edges), table, nx.from_scipy_sparse_array(A)):
        np.testing.assert_array_equal(mar(X, 0.4, 0, graph=graph), expected)
    data = Data(edge_index=torch.from_numpy(edges), num_nodes=60)
    np.testing.assert_array_equal(mar(X, 0.4, 0, graph=data), expected)


def test_degree_needs_a_graph():
    with pytest.raises(ValueError, match=r"has a single column, so the number of neighbours .* needs the edges"):
        mar(correlated(20, 1), 0.3, 0)
    with pytest.raises(ValueError, match=r"drivers is 'degree', so .* give them \(graph in Python, --edges on"):
        mar(correlated(20, 3), 0.3, 0, drivers="degree")
    with pytest.raises(ValueError, match="graph has shape"):
        mar(correlated(20, 1), 0.3, 0, graph=path_and_star(21))
    with pytest.raises(ValueError, match=r"1 column\(s\).*drivers='degree'"):
        mar(correlated(20, 1), 0.3, 0, drivers=0.5)


def test_graph_is_not_looked_at_where_columns_drive():
    X = correlated(100)
    np.testing.assert_array_equal(mar(X, 0.3, 0, graph=path_and_star(100)), mar(X, 0.3, 0))


def test_slope_sets_how_strongly_the_driver_acts():
    X = correlated(20_000, 2)
    for slope in (0.5, 4.0):
        coefficient, error = fitted(X[:, [0]] / X[:, 0].std(), mar(X, 0.2, 0, drivers=[0], slope=slope)[:, 1])
        assert abs(abs(coefficient[0]) - slope) < 4 * error[0]
    h = mar(X, 0.2, 0, drivers=[0], slope=100.0)[:, 1]
    side = np.sign(X[h, 0].mean() - X[~h, 0].mean()) * X[:, 0]
    assert np.quantile(side[h], 0.02) > np.quantile(side[~h], 0.98) - 0.05

import logging

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from geometric_cases import error_against_mean, geometric
from imputer_cases import graphs, ring, same_bits, table
from scipy.sparse.csgraph import shortest_path

from megae.imputers import MeanImputer, PCFIImputer
from megae.imputers.pcfi import CHUNK_CELLS, diffuse, distances

PAPER = {"alpha": 0.9, "beta": 1.0, "standardize": False}


def random_graph(n: int, seed: int, weighted: bool = False) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < 2.5 / n, 1) * (rng.random((n, n)) + 0.1 if weighted else 1.0)
    return sp.csr_array(A + A.T)


def slow(X: np.ndarray, A: sp.csr_array, alpha: float, beta: float, steps: int) -> np.ndarray:
    """The paper's equations cell by cell: one dense transition matrix per channel, one propagation matrix per node.

    A hole that no observed cell reaches gets the column mean.
    """
    n, d = X.shape
    hops = shortest_path(A, unweighted=True, directed=False)
    S = np.stack([hops[:, ~np.isnan(X[:, c])].min(axis=1) for c in range(d)], axis=1)
    S[steps < S] = np.inf
    xi = np.where(np.isinf(S), 0.0, alpha**S)
    out = np.nan_to_num(X)
    for c in range(d):
        W = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                if A[i, j] > 0 and np.isfinite(S[i, c]) and np.isfinite(S[j, c]):
                    W[i, j] = A[i, j] * alpha ** (S[j, c] - S[i, c] + 1)
            if W[i].sum() > 0:
                W[i] /= W[i].sum()
        known = ~np.isnan(X[:, c])
        W[known] = np.eye(n)[known]
        for _ in range(steps):
            out[:, c] = W @ out[:, c]
        out[np.isinf(S[:, c]), c] = np.nanmean(X[:, c])
    R, m = np.corrcoef(out.T), out.mean(axis=0)
    final = out.copy()
    for i in range(n):
        for a in range(d):
            if 0 < xi[i, a] < 1:
                others = [b for b in range(d) if b != a]
                final[i, a] += sum(beta * (1 - xi[i, a]) * xi[i, b] * R[a, b] * (out[i, b] - m[b]) for b in others)
    return final


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_the_equations_cell_by_cell(seed, weighted):
    A = random_graph(22, seed, weighted)
    X = table(22, 4, rate=0.6, seed=seed)
    out = PCFIImputer(alpha=0.7, beta=0.4, num_iterations=12, standardize=False).fit_transform(X, graph=A)
    np.testing.assert_allclose(out, slow(X, A, 0.7, 0.4, 12), rtol=1e-9)


def test_standardised_channels_are_the_equations_on_scaled_channels():
    """Scaling a diffused channel scales its fill; where all deviations are one, both forms are one."""
    X, A = table(30, 3, rate=0.4), ring(30)
    diffused, _ = diffuse(X, A, 0.6, 50, np.nanmean(X, axis=0))
    unit = X / diffused.std(axis=0)
    settings = {"alpha": 0.6, "beta": 0.5, "num_iterations": 50}
    plain = PCFIImputer(**settings, standardize=False).fit_transform(unit, graph=A)
    scaled = PCFIImputer(**settings).fit_transform(X, graph=A)
    np.testing.assert_allclose(scaled, plain * diffused.std(axis=0), rtol=1e-9)
    assert np.abs(scaled - PCFIImputer(**settings, standardize=False).fit_transform(X, graph=A)).max() > 1e-3


@pytest.mark.parametrize("most", [2, 100])
def test_distances_agree_with_scipy(most):
    A = random_graph(120, 1)
    observed = np.random.default_rng(2).random((120, 6)) < [0.01, 0.03, 0.1, 0.5, 1.0, 0.02]
    hops = shortest_path(A, unweighted=True, directed=False)
    expected = np.stack([hops[:, o].min(axis=1, initial=np.inf) for o in observed.T], axis=1)
    expected[expected > most] = -1
    np.testing.assert_array_equal(distances(observed, A, most), expected)
    assert (expected == -1).any()


def test_channels_in_chunks_are_the_channels_one_by_one():
    n = 600
    A = random_graph(n, 3)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2 * CHUNK_CELLS // n + 5))
    X[rng.random(X.shape) < 0.5] = np.nan
    X[:, 7:300] = np.where(np.isnan(X[:, [7]]), np.nan, rng.normal(size=(n, 293)))
    mean = np.nanmean(X, axis=0)
    together, confidence = diffuse(X, A, 0.8, 5, mean)
    for c in (0, 7, 299, X.shape[1] - 1):
        alone, sure = diffuse(X[:, [c]], A, 0.8, 5, mean[[c]])
        np.testing.assert_allclose(together[:, [c]], alone, rtol=1e-12)
        np.testing.assert_array_equal(confidence[:, [c]], sure)


def test_beats_the_mean_on_nodes_without_attributes():
    X, A, lost = geometric()
    holey = np.where(lost[:, None], np.nan, X)
    assert error_against_mean(PCFIImputer(random_state=0).fit_transform(holey, graph=A), X, lost) < 0.3
    assert error_against_mean(PCFIImputer(**PAPER).fit_transform(holey, graph=A), X, lost) < 0.5


def test_cells_nothing_reaches_get_the_training_mean():
    A = sp.block_diag([ring(12), ring(6), sp.csr_array((2, 2))]).tocsr()
    X = table(20, 2)
    X[12:18, 1] = np.nan
    X[18] = np.nan, 5.0
    X[19] = np.nan
    out = PCFIImputer(alpha=0.5, beta=1.0).fit_transform(X, graph=A)
    mean = MeanImputer().fit(X).mean_
    np.testing.assert_allclose(out[12:18, 1], mean[1], rtol=1e-12)
    np.testing.assert_allclose([out[18, 0], *out[19]], [mean[0], *mean], rtol=1e-12)


def test_channels_help_where_edges_do_not():
    """Equal columns over a graph that says nothing: the second stage carries one to the other."""
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.normal(size=(300, 1)), 3, axis=1)
    holes = rng.random(truth.shape) < 0.15
    X = np.where(holes, np.nan, truth)
    imputer = PCFIImputer(random_state=0).fit(X, graph=ring(300))
    assert imputer.beta_ > 0.1
    assert imputer.alpha_ < 0.5
    alone = PCFIImputer(alpha=imputer.alpha_, beta=0.0).fit(X, graph=ring(300))
    error, without = (np.sqrt(np.mean((i.transform(X) - truth)[holes] ** 2)) for i in (imputer, alone))
    assert error < 0.75 * without


def test_the_choice_is_the_best_on_held_out_cells():
    X, A, lost = geometric()
    imputer = PCFIImputer(random_state=0).fit(np.where(lost[:, None], np.nan, X), graph=A)
    assert len(imputer.held_out_) == 9 * 14
    assert imputer.held_out_[imputer.alpha_, imputer.beta_] == min(imputer.held_out_.values())
    assert PCFIImputer(alpha=0.3, beta=0.2).fit(X, graph=A).held_out_ == {}


def test_the_best_so_far_is_taken_when_time_is_over():
    X, A = table(40, 4), ring(40)
    with pytest.warns(UserWarning, match=r"ran out of its 1e-09 s after 1 of 9 values of alpha.*larger time_budget"):
        hurried = PCFIImputer(time_budget=1e-9, random_state=0).fit(X, graph=A)
    assert {alpha for alpha, _ in hurried.held_out_} == {0.9}
    assert hurried.held_out_[hurried.alpha_, hurried.beta_] == min(hurried.held_out_.values())
    free, patient = (PCFIImputer(time_budget=b, random_state=0).fit(X, graph=A) for b in (None, 3600.0))
    assert (patient.alpha_, patient.beta_, patient.held_out_) == (free.alpha_, free.beta_, free.held_out_)
    assert same_bits(patient.transform(X), free.transform(X))


def test_verbose_tells_of_every_value_and_silence_of_none(caplog):
    with caplog.at_level(logging.INFO, logger="megae"):
        PCFIImputer(random_state=0).fit(table(), graph=ring())
        assert not caplog.messages
        PCFIImputer(random_state=0, verbose=1).fit(table(), graph=ring())
    assert [m.split(" loss")[0] for m in caplog.messages] == [f"pcfi step {k}/9" for k in range(1, 10)]
    assert "validation RMSE" in caplog.messages[-1]


def test_correlations_of_new_graphs_are_those_of_the_training_graphs():
    train, test = graphs(6, n=12, d=3), graphs(2, n=12, d=3, seed=50)
    imputer = PCFIImputer(alpha=0.5, beta=0.5).fit(train)
    before = imputer.slopes_.copy()
    filled = imputer.transform(test)
    np.testing.assert_array_equal(imputer.slopes_, before)
    for together, graph in zip(filled, test, strict=True):
        assert torch.equal(together.x, imputer.transform([graph])[0].x)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": 1.0}, "alpha must lie strictly between 0 and 1"),
        ({"beta": -0.1}, "beta must be a number not below 0"),
        ({"num_iterations": 0}, "num_iterations must be at least 1, got 0"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie in"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        PCFIImputer(**settings).fit(table())

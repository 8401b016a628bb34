from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spectral_cases import WARPS, make_frame, make_graph, spectrum

from megae.spectral import TightFrame, chebyshev_coefficients, coverage, normalized_laplacian
from megae.spectral.tight import hann_translates

GRID = np.unique(np.r_[np.linspace(0, 2, 4001), np.geomspace(1e-300, 2, 2000), 2 - np.geomspace(1e-15, 1, 200)])


@pytest.mark.parametrize("M", range(3, 21))
@pytest.mark.parametrize("warp", WARPS)
def test_squares_sum_to_one(warp: str, M: int) -> None:
    frame = make_frame(warp, M, 10.0, make_graph("random", 40, M))
    np.testing.assert_allclose(frame.energy(GRID), 1.0, rtol=0, atol=1e-12)
    assert (frame(GRID) >= 0).all()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.integers(3, 30), st.floats(1e-6, 1e6), st.lists(st.floats(0, 2), min_size=1, max_size=40))
def test_squares_sum_to_one_for_any_warp_strength_and_spectrum(M: int, c: float, values: list) -> None:
    for frame in (TightFrame(M, "log", c=c), TightFrame(M, "adapted", spectrum=values)):
        np.testing.assert_allclose(frame.energy(GRID), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize("M", [3, 6, 9])
def test_translates_follow_the_formula(M: int) -> None:
    """u_m written with R, Q and a_q as in the construction, for R = 3 and the Hann window."""
    gamma, R, a = 1.7, 3, [0.5, 0.5]
    l = np.linspace(0, gamma, 501)
    step = gamma / (M + 1 - R)
    for m, row in enumerate(hann_translates(l, M, gamma), start=1):
        shifted = l - m * step
        u = sum(a[q] * np.cos(2 * np.pi * q * ((M + 1 - R) / (R * gamma) * shifted + 0.5)) for q in (0, 1))
        u = np.where((shifted >= -R * step) & (shifted < 0), u, 0.0)
        energy = R * a[0] ** 2 + R / 2 * a[1] ** 2
        np.testing.assert_allclose(row, u / np.sqrt(energy), atol=1e-12)


def test_at_most_three_kernels_meet() -> None:
    for warp in ("uniform", "log", "paper-log"):
        assert (TightFrame(8, warp)(GRID) > 1e-12).sum(axis=0).max() == 3


def test_log_warp_is_finer_at_low_frequencies() -> None:
    l = np.linspace(0, 2, 2001)
    width = (TightFrame(8, "log")(l) > 1e-12).sum(axis=1)
    whole = slice(2, -2)  # the outer two on either side are cut off by the ends of the spectrum
    assert (np.diff(width[whole]) > 0).all()


@pytest.mark.parametrize("M", [3, 5, 9, 20])
def test_paper_log_is_the_literal_one(M: int) -> None:
    l = np.linspace(1e-9, 2, 5001)
    g = TightFrame(M, "paper-log")(l)
    step = np.log(2) / (M - 2)
    for m in range(2, M + 1):
        shifted = (np.log(l) - m * step) / (3 * step)
        u = np.where((shifted >= -1) & (shifted < 0), 0.5 - 0.5 * np.cos(2 * np.pi * shifted), 0.0) / np.sqrt(9 / 8)
        np.testing.assert_allclose(g[m - 1], u, atol=1e-10)
    literal = np.sqrt(np.maximum(0.0, 1.0 - (g[1:] ** 2).sum(axis=0)))
    np.testing.assert_allclose(g[0], literal, atol=1e-7)


def test_paper_log_scaling_kernel_takes_zero_and_most_of_the_spectrum() -> None:
    frame = TightFrame(6, "paper-log")
    np.testing.assert_array_equal(frame([0.0])[:, 0], [1, 0, 0, 0, 0, 0])
    assert (frame(np.linspace(0, 0.84, 100))[0] == 1.0).all()
    assert frame([2.0])[0, 0] == 0.0


def test_adapted_warp_evens_out_coverage() -> None:
    graph = nx.barabasi_albert_graph(300, 3, seed=0)
    eigenvalues = np.linalg.eigvalsh(normalized_laplacian(graph).toarray())
    uniform = coverage(TightFrame(9), eigenvalues)
    from_graph = coverage(TightFrame(9, "adapted", spectrum=graph), eigenvalues)
    from_values = coverage(TightFrame(9, "adapted", spectrum=eigenvalues), eigenvalues)
    inner = slice(2, -2)
    for adapted in (from_graph, from_values):
        assert adapted.max() < 0.8 * uniform.max()
        assert np.ptp(adapted[inner]) < 0.15 * adapted.max()
        assert np.ptp(uniform[inner]) > 0.35 * uniform.max()


def test_adapted_from_graph_agrees_with_adapted_from_its_eigenvalues() -> None:
    A = make_graph("random", 400, 3)
    l = np.linspace(0, 2, 201)
    a = TightFrame(6, "adapted", spectrum=A)(l)
    b = TightFrame(6, "adapted", spectrum=spectrum(A)[0])(l)
    assert np.abs(a - b).mean() < 0.03
    assert np.abs(a - TightFrame(6)(l)).mean() > 0.1


def test_adapted_is_reproducible_and_leaves_global_random_state_alone() -> None:
    A = make_graph("random", 60, 3)
    np.random.seed(7)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = TightFrame(6, "adapted", spectrum=A)(GRID)
    np.testing.assert_array_equal(first, TightFrame(6, "adapted", spectrum=A)(GRID))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_adapted_stays_within_reach_of_polynomials_on_coinciding_eigenvalues() -> None:
    frame = TightFrame(6, "adapted", spectrum=make_graph("star", 60, 0))
    assert chebyshev_coefficients(frame, tol=1e-2).shape[1] < 120


@pytest.mark.parametrize("values", [[1.0], [0.0], [2.0], [0.0] * 50, [0.0, 2.0]])
def test_adapted_takes_any_spectrum(values: list) -> None:
    frame = TightFrame(4, "adapted", spectrum=values)
    np.testing.assert_allclose(frame.energy(GRID), 1.0, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"M": 2}, "M >= 3"),
        ({"M": 1}, "M >= 3"),
        ({"M": 4, "warp": "linear"}, "warp must be one of 'uniform'"),
        ({"M": 4, "warp": "log", "c": 0.0}, "c must be"),
        ({"M": 4, "warp": "log", "c": np.nan}, "c must be"),
        ({"M": 4, "warp": "adapted"}, "needs spectrum="),
        ({"M": 4, "spectrum": [0.0, 1.0]}, "only used by warp='adapted'"),
        ({"M": 4, "warp": "adapted", "spectrum": []}, "no eigenvalues"),
        ({"M": 4, "warp": "adapted", "spectrum": [0.0, 3.0]}, r"in \[0, 2\]"),
        ({"M": 4, "warp": "adapted", "spectrum": np.zeros((3, 4))}, "square"),
    ],
)
def test_bad_parameters_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TightFrame(**options)

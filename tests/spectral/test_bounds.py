from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spectral_cases import (
    cases,
    dense_wavelet_entropy,
    entropy_of_energies,
    make_graph,
    spectrum,
)

from megae.spectral import (
    HeatFrame,
    SGWTFrame,
    TightFrame,
    chebyshev_coefficients,
    chebyshev_error,
    coverage,
    crossness,
    distinct_eigenvalues,
    entropy_error_bound,
    evaluate_chebyshev,
    polynomial_entropy_term,
    spectral_entropy,
    wavelet_entropy,
)

ROUNDING = 1e-9
PATH = np.array([[0.0, 1.0], [1.0, 0.0]])
hundreds = settings(max_examples=400, deadline=None, derandomize=True)


@hundreds
@given(cases())
def test_energy_parseval_identity(case) -> None:
    """Proposition 1: a tight frame preserves the energy of every signal."""
    A, x, frame = case
    eigenvalues, U = spectrum(A)
    filtered = np.einsum("ij,mj,jd->mid", U, frame(eigenvalues), U.T @ x)
    np.testing.assert_allclose(np.square(filtered).sum(axis=(0, 1)), np.square(x).sum(axis=0), rtol=1e-11)


@hundreds
@given(cases())
def test_proposition_2_with_exact_filters(case) -> None:
    A, x, frame = case
    eigenvalues = spectrum(A)[0]
    error = np.abs(spectral_entropy(x, A) - dense_wavelet_entropy(x, A, frame)).max()
    sharp = entropy_error_bound(frame, distinct_eigenvalues(eigenvalues))
    plain = entropy_error_bound(frame, eigenvalues)
    assert error <= sharp + ROUNDING
    assert sharp <= plain + ROUNDING
    unmerged = entropy_of_energies(np.square(spectrum(A)[1].T @ x))
    assert np.abs(unmerged - dense_wavelet_entropy(x, A, frame)).max() <= plain + ROUNDING


@hundreds
@given(cases(), st.integers(2, 60))
def test_proposition_2_with_polynomials_and_their_extra_term(case, K: int) -> None:
    A, x, frame = case
    eigenvalues = spectrum(A)[0]
    C = chebyshev_coefficients(frame, K)
    polynomial = dense_wavelet_entropy(x, A, lambda l: evaluate_chebyshev(C, l))
    exact = dense_wavelet_entropy(x, A, frame)
    on_spectrum = polynomial_entropy_term(frame, C, eigenvalues)
    everywhere = polynomial_entropy_term(frame, C)
    assert np.abs(polynomial - exact).max() <= on_spectrum + ROUNDING
    assert on_spectrum <= everywhere * (1 + 1e-3) + ROUNDING
    bound = entropy_error_bound(frame, distinct_eigenvalues(eigenvalues))
    assert np.abs(spectral_entropy(x, A) - polynomial).max() <= bound + everywhere * (1 + 1e-3) + ROUNDING


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cases(), st.sampled_from([0.2, 0.05, 0.01]))
def test_proposition_2_for_the_public_wavelet_entropy(case, tol: float) -> None:
    A, x, _ = case
    for frame in (TightFrame(5), TightFrame(6, "log")):
        term = polynomial_entropy_term(frame, chebyshev_coefficients(frame, tol=tol))
        bound = entropy_error_bound(frame, distinct_eigenvalues(spectrum(A)[0]))
        error = np.abs(spectral_entropy(x, A) - wavelet_entropy(x, A, frame, tol=tol)).max()
        assert error <= bound + term * (1 + 1e-3) + ROUNDING


@settings(max_examples=100, deadline=None, derandomize=True)
@given(cases(), st.integers(2, 40), st.sampled_from([HeatFrame(4), SGWTFrame(4), HeatFrame(1)]))
def test_extra_term_for_frames_that_are_not_tight(case, K: int, frame) -> None:
    A, x, _ = case
    C = chebyshev_coefficients(frame, K)
    polynomial = dense_wavelet_entropy(x, A, lambda l: evaluate_chebyshev(C, l))
    error = np.abs(polynomial - dense_wavelet_entropy(x, A, frame)).max()
    assert error <= polynomial_entropy_term(frame, C, spectrum(A)[0]) + ROUNDING


def test_two_nodes_attain_the_bound_and_polynomials_exceed_it() -> None:
    frame = TightFrame(9, "log", c=10.0)
    x = np.array([[1.0], [1.0]])
    bound = entropy_error_bound(frame, [0.0, 2.0])
    assert bound == pytest.approx(np.log(2))
    assert dense_wavelet_entropy(x, PATH, frame)[0] == pytest.approx(bound, abs=1e-9)
    C = chebyshev_coefficients(frame, 10)
    polynomial = dense_wavelet_entropy(x, PATH, lambda l: evaluate_chebyshev(C, l))[0]
    assert polynomial == pytest.approx(0.763, abs=5e-4)
    assert bound < polynomial <= bound + polynomial_entropy_term(frame, C, [0.0, 2.0])


def test_each_half_of_the_bound_is_needed() -> None:
    frame = TightFrame(9, "log")
    assert coverage(frame, [0.0, 2.0]).max() == 1
    assert dense_wavelet_entropy(np.ones((2, 1)), PATH, frame)[0] > 0.69
    A = make_graph("random", 120, 0)
    eigenvalues, U = spectrum(A)
    x = U.sum(axis=1, keepdims=True)
    error = spectral_entropy(x, A)[0] - dense_wavelet_entropy(x, A, TightFrame(4))[0]
    assert error > np.log(crossness(TightFrame(4), eigenvalues).max())
    assert error <= entropy_error_bound(TightFrame(4), eigenvalues)


def test_the_sharp_bound_rests_on_merging() -> None:
    """Unmerged, the entropy on a complete graph hangs on the basis and breaks the bound of distinct ones."""
    A = make_graph("complete", 40, 0)
    eigenvalues, U = spectrum(A)
    x = U.sum(axis=1, keepdims=True)
    frame = TightFrame(6)
    sharp = entropy_error_bound(frame, distinct_eigenvalues(eigenvalues))
    wavelet = dense_wavelet_entropy(x, A, frame)[0]
    unmerged = entropy_of_energies(np.square(U.T @ x))[0]
    assert abs(unmerged - wavelet) > sharp
    assert abs(spectral_entropy(x, A)[0] - wavelet) <= sharp
    assert abs(unmerged - wavelet) <= entropy_error_bound(frame, eigenvalues)


def test_coverage_and_crossness_by_hand() -> None:
    # M = 4 on [0, 2]: steps of 1, supports [-2, 1), [-1, 2), [0, 3), [1, 4)
    frame = TightFrame(4)
    eigenvalues = [0.0, 0.5, 1.0, 1.0, 1.5, 2.0]
    np.testing.assert_array_equal(coverage(frame, eigenvalues), [2, 5, 5, 2])
    np.testing.assert_array_equal(crossness(frame, eigenvalues), [2, 3, 2, 2, 3, 2])
    assert coverage(frame, eigenvalues).dtype == crossness(frame, eigenvalues).dtype == np.int64
    assert entropy_error_bound(frame, eigenvalues) == pytest.approx(np.log(5))


def test_rounding_in_eigenvalues_does_not_count_as_cover() -> None:
    frame = TightFrame(4)
    noisy = np.array([1e-7, 1.0 + 1e-7, 1.0 - 1e-7, 2.0 - 1e-7])
    np.testing.assert_array_equal(crossness(frame, noisy), [2, 2, 2, 2])
    paper = TightFrame(6, "paper-log")
    assert (crossness(paper, np.linspace(1.0, 2.0, 1001)) <= 3).all()


def test_term_shrinks_with_the_order_and_is_capped() -> None:
    frame = TightFrame(6, "log")
    terms = [polynomial_entropy_term(frame, chebyshev_coefficients(frame, K)) for K in (10, 20, 40, 80)]
    assert (np.diff(terms) < 0).all()
    assert polynomial_entropy_term(frame, np.zeros((6, 1))) == pytest.approx(np.log(6))
    C = chebyshev_coefficients(frame, 30)
    T = np.sqrt(np.square(chebyshev_error(frame, C)).sum())
    assert polynomial_entropy_term(frame, C) <= T * np.log(5) - T * np.log(T) - (1 - T) * np.log1p(-T)


def test_term_does_not_depend_on_the_height_of_the_kernels() -> None:
    frame = HeatFrame(3)
    C = chebyshev_coefficients(frame, 4)
    small = polynomial_entropy_term(lambda l: 0.01 * frame(l), 0.01 * C)
    assert small == pytest.approx(polynomial_entropy_term(frame, C), rel=1e-12)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="needs a tight frame"):
        entropy_error_bound(HeatFrame(3), [0.0, 1.0])
    for function in (coverage, crossness, entropy_error_bound):
        for bad in ([np.nan], [np.inf], [3.0]):
            with pytest.raises(ValueError, match="eigenvalues must"):
                function(TightFrame(3), bad)
    with pytest.raises(ValueError, match="holds 4 bands"):
        polynomial_entropy_term(TightFrame(3), np.ones((4, 2)))
    with pytest.raises(ValueError, match="vanish"):
        polynomial_entropy_term(lambda l: l[None, :], np.ones((1, 1)), [0.0, 1.0])

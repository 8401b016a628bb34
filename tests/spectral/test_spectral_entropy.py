from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from scipy.special import entr
from spectral_cases import cases, dense_wavelet_entropy, make_graph, make_signals, spectrum

from megae.kernels import apply
from megae.spectral import (
    HeatFrame,
    SGWTFrame,
    TightFrame,
    chebyshev_coefficients,
    distinct_eigenvalues,
    evaluate_chebyshev,
    normalized_laplacian,
    spectral_entropy,
    wavelet_entropy,
)
from megae.spectral import entropy as entropy_module
from megae.spectral.entropy import band_energies

PATH = np.array([[0.0, 1.0], [1.0, 0.0]])


def test_two_nodes_by_hand() -> None:
    assert spectral_entropy([1.0, 0.0], PATH) == pytest.approx(np.log(2))
    assert spectral_entropy([1.0, 1.0], PATH) == pytest.approx(0.0, abs=1e-12)
    # x = (2, 1): energies (3/sqrt 2)^2 and (1/sqrt 2)^2, that is 0.9 and 0.1
    assert spectral_entropy([2.0, 1.0], PATH) == pytest.approx(entr(0.9) + entr(0.1))


def test_eigenvectors_have_no_entropy_and_flat_spectra_the_most() -> None:
    A = make_graph("weighted", 15, 0)
    U = spectrum(A)[1]
    np.testing.assert_allclose(spectral_entropy(U, A), 0.0, atol=1e-10)
    distinct = distinct_eigenvalues(spectrum(A)[0]).size
    assert distinct == 15
    assert spectral_entropy(U.sum(axis=1), A) == pytest.approx(np.log(15))


def test_energy_of_an_eigenspace_is_merged() -> None:
    """On the complete graph all that is not the constant lies in one eigenspace."""
    A = make_graph("complete", 7, 0)
    x = np.random.default_rng(0).normal(size=7)
    constant = 7 * x.mean() ** 2 / (x @ x)
    assert spectral_entropy(x, A) == pytest.approx(entr(constant) + entr(1 - constant), abs=1e-12)
    assert spectral_entropy(x, A, tol=-1.0) > spectral_entropy(x, A) + 0.3


def test_entropy_does_not_depend_on_the_order_of_nodes() -> None:
    A = make_graph("ring", 12, 0)
    rng = np.random.default_rng(1)
    x, order = rng.normal(size=(12, 3)), rng.permutation(12)
    np.testing.assert_allclose(spectral_entropy(x[order], A[np.ix_(order, order)]), spectral_entropy(x, A), atol=1e-10)


@pytest.mark.parametrize("K", [0, 1, 2, 9])
@pytest.mark.parametrize("kind", ["weighted", "star", "empty"])
def test_band_energies_are_those_of_the_filtered_signal(K: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A = make_graph(kind, 20, 3)
    L, rng = normalized_laplacian(A), np.random.default_rng(0)
    x, C = rng.normal(size=(20, 5)), rng.normal(size=(4, K + 1))
    filtered = apply(L, torch.from_numpy(x[:, None, :]), C).numpy()
    energies = np.square(filtered).sum(axis=0)
    np.testing.assert_allclose(band_energies(L, x, C), energies, rtol=1e-11, atol=1e-12)
    monkeypatch.setattr(entropy_module, "_CHUNK_NUMBERS", 40)
    np.testing.assert_allclose(band_energies(L, x, C), energies, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(band_energies(L, x[:, :1], C), energies[:, :1], rtol=1e-11, atol=1e-12)


def test_distinct_eigenvalues() -> None:
    values = distinct_eigenvalues([2.0, 1.0, 0.0, 1.0 + 1e-12, 1.0 - 1e-12, 1.5])
    np.testing.assert_allclose(values, [0.0, 1.0, 1.5, 2.0], atol=1e-11)
    assert values.shape == (4,)
    assert distinct_eigenvalues([]).shape == (0,)
    with pytest.raises(ValueError, match="finite"):
        distinct_eigenvalues([np.nan])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases())
def test_wavelet_entropy_against_the_dense_twin(case) -> None:
    """The sparse recurrence gives the entropy of the very polynomials it stands for."""
    A, x, _ = case
    for frame in (TightFrame(6), TightFrame(4, "log"), HeatFrame(3)):
        C = chebyshev_coefficients(frame, tol=1e-3)
        expected = dense_wavelet_entropy(x, A, lambda l, C=C: evaluate_chebyshev(C, l))
        np.testing.assert_allclose(wavelet_entropy(x, sp.csr_array(A), frame), expected, atol=1e-9)


@pytest.mark.parametrize(
    "frame",
    [TightFrame(6), TightFrame(6, "log"), TightFrame(5, "paper-log"), HeatFrame(4), SGWTFrame(4)],
    ids=repr,
)
def test_wavelet_entropy_approaches_exact_filters(frame) -> None:
    A = make_graph("random", 60, 4)
    x = make_signals(A, 0)
    exact = dense_wavelet_entropy(x, A, frame)
    coarse = np.abs(wavelet_entropy(x, A, frame, tol=0.1) - exact).max()
    fine = np.abs(wavelet_entropy(x, A, frame, tol=2e-3) - exact).max()
    assert fine < 0.02
    assert fine < coarse


def test_wide_signals_are_filtered_in_parts(monkeypatch) -> None:
    import megae.spectral.entropy as module

    A = make_graph("random", 20, 4)
    x = np.random.default_rng(0).normal(size=(20, 23))
    whole = wavelet_entropy(x, A, TightFrame(4))
    monkeypatch.setattr(module, "_CHUNK_NUMBERS", 20 * 4 * 5)
    np.testing.assert_allclose(wavelet_entropy(x, A, TightFrame(4)), whole, atol=1e-14)


def entropies():
    return [spectral_entropy, lambda x, A: wavelet_entropy(x, A, TightFrame(4))]


@pytest.mark.parametrize("entropy", entropies(), ids=["spectral", "wavelet"])
class TestBothEntropies:
    def test_shapes(self, entropy) -> None:
        A = make_graph("random", 10, 0)
        x = np.random.default_rng(0).normal(size=(10, 3))
        columns = entropy(x, A)
        assert columns.shape == (3,)
        single = entropy(x[:, 1], A)
        assert isinstance(single, float)
        assert single == pytest.approx(columns[1])
        assert entropy(torch.from_numpy(x), A) == pytest.approx(columns)
        assert entropy(x[:, :0], A).shape == (0,)

    def test_zero_signal_has_zero_entropy(self, entropy) -> None:
        A = make_graph("random", 10, 0)
        assert entropy(np.zeros(10), A) == 0.0
        x = np.zeros((10, 2))
        x[3, 1] = 1.0
        result = entropy(x, A)
        assert result[0] == 0.0
        assert result[1] > 0.1

    @pytest.mark.parametrize("scale", [1e-200, 1e200, -3.0])
    def test_scale_does_not_matter(self, entropy, scale: float) -> None:
        A = make_graph("random", 10, 0)
        x = np.random.default_rng(0).normal(size=10)
        assert entropy(scale * x, A) == pytest.approx(entropy(x, A), abs=1e-12)

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_holes_are_refused(self, entropy, bad: float) -> None:
        with pytest.raises(ValueError, match="fill the holes first"):
            entropy([1.0, bad], PATH)

    @pytest.mark.parametrize("shape", [(3,), (3, 1), (2, 1, 1), ()])
    def test_wrong_shapes_are_refused(self, entropy, shape: tuple) -> None:
        with pytest.raises(ValueError, match="N=2 nodes"):
            entropy(np.ones(shape), PATH)

    def test_single_node_and_no_edges(self, entropy) -> None:
        assert entropy([3.0], np.zeros((1, 1))) == pytest.approx(entropy(np.ones(4), np.zeros((4, 4))))
        assert spectral_entropy([3.0], np.zeros((1, 1))) == 0.0

    def test_no_nodes(self, entropy) -> None:
        assert entropy(np.zeros(0), np.zeros((0, 0))) == 0.0

from __future__ import annotations

import numpy as np
import pytest
from spectral_cases import WARPS, make_frame, make_graph

from megae.spectral import (
    HeatFrame,
    SGWTFrame,
    TightFrame,
    chebyshev_coefficients,
    chebyshev_error,
    evaluate_chebyshev,
    frame_error,
)


def polynomial_kernels(l: np.ndarray) -> np.ndarray:
    x = l - 1.0
    return np.stack([np.full_like(x, 0.5), x, 4 * x**3 - 3 * x, l**2])


def test_polynomials_are_reproduced_exactly() -> None:
    C = chebyshev_coefficients(polynomial_kernels, 5)
    # l^2 = (x + 1)^2 = 3/2 + 2 T_1 + T_2 / 2
    expected = [[0.5, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [1.5, 2, 0.5, 0, 0, 0]]
    np.testing.assert_allclose(C, expected, atol=1e-14)
    assert chebyshev_coefficients(polynomial_kernels, tol=1e-10).shape == (4, 4)
    assert chebyshev_coefficients(lambda l: np.ones((1, l.size))).shape == (1, 1)


@pytest.mark.parametrize(
    ("frame", "errors"),
    [
        (TightFrame(9), {10: 0.041, 20: 0.0084, 40: 0.0020}),
        (TightFrame(9, "log", c=20.0), {10: 0.24, 20: 0.030, 40: 0.0062}),
        (TightFrame(9, "log"), {10: 0.19}),
        (TightFrame(20, "log"), {10: 0.61}),
    ],
    ids=repr,
)
def test_known_errors_of_hann_frames(frame: TightFrame, errors: dict[int, float]) -> None:
    for K, error in errors.items():
        measured = chebyshev_error(frame, chebyshev_coefficients(frame, K)).max()
        assert measured == pytest.approx(error, rel=0.05)


def test_error_is_measured_between_the_quadrature_nodes() -> None:
    frame = TightFrame(9, "log")
    C = chebyshev_coefficients(frame, 12)
    l = np.random.default_rng(0).uniform(0, 2, 20_000)
    sampled = np.abs(evaluate_chebyshev(C, l) - frame(l)).max(axis=1)
    error = chebyshev_error(frame, C)
    assert (sampled <= error * (1 + 1e-4)).all()
    assert (sampled >= error * 0.9).all()


@pytest.mark.parametrize("tol", [0.1, 1e-2, 1e-3])
@pytest.mark.parametrize("warp", WARPS)
def test_order_follows_from_tolerance(warp: str, tol: float) -> None:
    frame = make_frame(warp, 6, 10.0, make_graph("random", 40, 1))
    C = chebyshev_coefficients(frame, tol=tol)
    K = C.shape[1] - 1
    assert chebyshev_error(frame, C).max() <= tol * (1 + 1e-9)
    assert chebyshev_error(frame, chebyshev_coefficients(frame, K - 1)).max() > tol
    np.testing.assert_allclose(C, chebyshev_coefficients(frame, K), atol=1e-6)


@pytest.mark.parametrize("frame", [HeatFrame(4), SGWTFrame(4), TightFrame(4).inverse(0.1)], ids=repr)
def test_other_frames_reach_the_tolerance(frame: HeatFrame) -> None:
    C = chebyshev_coefficients(frame, tol=1e-2)
    assert chebyshev_error(frame, C).max() <= 1e-2 * (1 + 1e-9)
    assert C.shape[1] < 200


def test_unreachable_tolerance_warns() -> None:
    with pytest.warns(UserWarning, match=r"order 8 leaves an error of .* > tol=0.001"):
        C = chebyshev_coefficients(TightFrame(9), max_order=8)
    assert C.shape == (9, 9)


def test_frame_error() -> None:
    frame = TightFrame(6, "log")
    errors = [frame_error(frame, chebyshev_coefficients(frame, K)) for K in (5, 10, 20, 40, 80)]
    assert (np.diff(errors) < 0).all()
    C = chebyshev_coefficients(frame, 10)
    l = np.linspace(0, 2, 50_001)
    direct = np.abs((evaluate_chebyshev(C, l) ** 2).sum(axis=0) - 1).max()
    assert frame_error(None, C) == pytest.approx(direct, rel=1e-4)
    assert frame_error(frame, C) == pytest.approx(direct, rel=1e-4)
    heat = HeatFrame(3)
    assert frame_error(heat, chebyshev_coefficients(heat, 30)) < 1e-10
    assert frame_error(None, chebyshev_coefficients(heat, 30)) > 1.9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chebyshev_coefficients(TightFrame(3), -1), "K must be"),
        (lambda: chebyshev_coefficients(TightFrame(3), tol=0.0), "tol must be"),
        (lambda: chebyshev_coefficients(TightFrame(3), max_order=-1), "max_order must be"),
        (lambda: chebyshev_coefficients(lambda l: l), r"\(M, n\)"),
        (lambda: chebyshev_coefficients(lambda l: l[None] * np.nan), "finite"),
        (lambda: chebyshev_error(TightFrame(3), np.ones((4, 5))), "holds 4 bands"),
        (lambda: evaluate_chebyshev(np.ones(4), [0.0]), r"\(M, K \+ 1\)"),
    ],
)
def test_bad_arguments_are_refused(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

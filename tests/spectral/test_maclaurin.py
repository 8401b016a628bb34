from __future__ import annotations

from math import factorial

import numpy as np
import pytest

from megae.spectral import (
    HeatFrame,
    SGWTFrame,
    TightFrame,
    chebyshev_coefficients,
    chebyshev_error,
    evaluate_chebyshev,
    maclaurin_coefficients,
)


def test_same_polynomial_as_the_truncated_series() -> None:
    frame = HeatFrame(3, scales=[0.5, 1.0, 2.0])
    l = np.linspace(0, 2, 41)
    for K in (0, 1, 4, 9):
        series = [sum((-s * l) ** k / factorial(k) for k in range(K + 1)) for s in frame.scales]
        C = maclaurin_coefficients(frame, K)
        assert C.shape == (3, K + 1)
        np.testing.assert_allclose(evaluate_chebyshev(C, l), series, atol=1e-12)


def test_order_follows_from_tolerance() -> None:
    frame = HeatFrame(3)
    C = maclaurin_coefficients(frame, tol=1e-4)
    assert chebyshev_error(frame, C).max() <= 1e-4
    assert chebyshev_error(frame, maclaurin_coefficients(frame, C.shape[1] - 2)).max() > 1e-4
    assert chebyshev_coefficients(frame, tol=1e-4).shape[1] < C.shape[1]


def test_unreachable_tolerance_warns() -> None:
    with pytest.warns(UserWarning, match="Maclaurin order 5"):
        maclaurin_coefficients(HeatFrame(3), max_order=5)


@pytest.mark.parametrize("frame", [TightFrame(3), SGWTFrame(3), HeatFrame(3).inverse()], ids=repr)
def test_frames_without_a_series_are_refused(frame) -> None:
    with pytest.raises(ValueError, match="use chebyshev_coefficients"):
        maclaurin_coefficients(frame, 4)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="K must be"):
        maclaurin_coefficients(HeatFrame(2), -1)
    with pytest.raises(ValueError, match="tol must be"):
        maclaurin_coefficients(HeatFrame(2), tol=-1.0)

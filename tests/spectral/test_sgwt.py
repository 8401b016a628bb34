from __future__ import annotations

import numpy as np
import pytest

from megae.spectral import SGWTFrame
from megae.spectral.sgwt import spline_kernel


def test_spline_kernel_joins_smoothly() -> None:
    h = 1e-6
    for knot in (1.0, 2.0):
        left, middle, right = spline_kernel(np.array([knot - h, knot, knot + h]))
        np.testing.assert_allclose([left, right], middle, atol=1e-5)
        np.testing.assert_allclose(middle - left, right - middle, atol=1e-10)
    assert spline_kernel(np.array([0.0]))[0] == 0.0


def test_sgwt_scaling_kernel_has_the_height_of_the_wavelets() -> None:
    x = np.linspace(0, 10, 1_000_001)
    np.testing.assert_allclose(SGWTFrame(5)([0.0])[0, 0], spline_kernel(x).max(), atol=1e-10)
    np.testing.assert_array_equal(SGWTFrame(5)([0.0])[1:], 0.0)


def test_sgwt_covers_the_spectrum() -> None:
    for M in range(5, 12):
        frame = SGWTFrame(M)
        assert frame.energy(np.linspace(0, 2, 2001)).min() > 0.3
        np.testing.assert_allclose(frame.scales[[0, -1]], [20.0, 0.5])


@pytest.mark.parametrize("options", [{"M": 1}, {"M": 4, "ratio": 1.0}, {"M": 4, "ratio": np.inf}])
def test_sgwt_refuses_bad_parameters(options: dict) -> None:
    with pytest.raises(ValueError, match=r"M >= 2|ratio must"):
        SGWTFrame(**options)

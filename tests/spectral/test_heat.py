from __future__ import annotations

import numpy as np
import pytest

from megae.spectral import HeatFrame


def test_heat_kernels() -> None:
    l = np.linspace(0, 2, 21)
    g = HeatFrame(2, scales=[0.5, 3.0])(l)
    np.testing.assert_allclose(np.log(g), [-0.5 * l, -3.0 * l], atol=1e-14)


def test_heat_default_scales_are_geometric_around_one() -> None:
    for M in range(1, 8):
        scales = HeatFrame(M).scales
        assert scales.shape == (M,)
        np.testing.assert_allclose(np.log(scales).mean(), 0.0, atol=1e-12)
        np.testing.assert_allclose(np.diff(np.log(scales), n=2), 0.0, atol=1e-12)


@pytest.mark.parametrize("scales", [[1.0], [1.0, -1.0], [1.0, np.nan], [0.0, 1.0], [[1.0, 2.0]]])
def test_heat_refuses_bad_scales(scales: list) -> None:
    with pytest.raises(ValueError, match="scales must"):
        HeatFrame(2, scales=scales)

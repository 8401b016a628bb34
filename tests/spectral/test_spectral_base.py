from __future__ import annotations

import pickle

import matplotlib as mpl
import numpy as np
import pytest

from megae.spectral import Frame, HeatFrame, SGWTFrame, TightFrame

FRAMES = [
    TightFrame(5),
    TightFrame(5, "log"),
    TightFrame(5, "paper-log"),
    TightFrame(5, "adapted", spectrum=[0.0, 0.5, 1.0, 1.5]),
    HeatFrame(5),
    SGWTFrame(5),
    TightFrame(5).inverse(),
]
frames = pytest.mark.parametrize("frame", FRAMES, ids=repr)


@frames
def test_shape_type_and_energy(frame: Frame) -> None:
    l = np.linspace(0, 2, 11)
    g = frame(l)
    assert g.shape == (5, 11)
    assert g.dtype == np.float64
    assert np.isfinite(g).all()
    np.testing.assert_allclose(frame.energy(l), (g**2).sum(axis=0), rtol=1e-15)
    assert frame(np.float32(0.5)).shape == (5, 1)
    assert frame([]).shape == (5, 0)
    assert frame.tight == np.allclose(frame.energy(l), 1.0)
    assert repr(frame).startswith(f"{type(frame).__name__}(M=5")


@frames
def test_rounding_outside_the_spectrum_is_clipped(frame: Frame) -> None:
    np.testing.assert_array_equal(frame([-1e-9, 2 + 1e-9]), frame([0.0, 2.0]))


@frames
@pytest.mark.parametrize("bad", [[np.nan], [np.inf], [-0.1], [2.1], [[0.0, 1.0]]])
def test_bad_eigenvalues_are_refused(frame: Frame, bad: list) -> None:
    with pytest.raises(ValueError, match="eigenvalues must"):
        frame(bad)


@frames
def test_survives_pickling_for_worker_processes(frame: Frame) -> None:
    l = np.linspace(0, 2, 50)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(frame))(l), frame(l))


@frames
def test_plot_draws_every_kernel_and_the_energy(frame: Frame) -> None:
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    ax = frame.plot()
    assert len(ax.get_lines()) == 6
    x, y = ax.get_lines()[2].get_data()
    np.testing.assert_array_equal(y, frame(x)[2])
    assert frame.plot(ax=ax) is ax
    plt.close("all")


@pytest.mark.parametrize("eps", [0.1, 0.5])
def test_inverse_is_the_regularised_one(eps: float) -> None:
    frame = TightFrame(6, "log")
    l = np.linspace(0, 2, 101)
    g, h = frame(l), frame.inverse(eps)(l)
    np.testing.assert_allclose(h * (g**2 + eps), g, atol=1e-15)
    assert (h[g == 0] == 0).all()
    assert np.abs(h).max() <= 0.5 / np.sqrt(eps) + 1e-12


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf])
def test_inverse_refuses_bad_eps(eps: float) -> None:
    with pytest.raises(ValueError, match="eps"):
        TightFrame(4).inverse(eps)


@pytest.mark.parametrize("M", [0, -1, 2.5, True, "3"])
def test_bad_number_of_kernels_is_refused(M: object) -> None:
    for make in (TightFrame, HeatFrame, SGWTFrame):
        with pytest.raises(ValueError, match="M must be a positive integer"):
            make(M)  # type: ignore[operator]

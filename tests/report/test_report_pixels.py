"""Pictures: the PNG written here is read back by another decoder."""

from __future__ import annotations

import base64
import io
import re

import matplotlib.image
import numpy as np
import pytest

from megae.report.pixels import hole_map, image, ink, png_bytes


@pytest.mark.parametrize("shape", [(1, 1), (8, 8), (3, 50), (360, 7)])
def test_png_survives_another_decoder(shape: tuple[int, int]) -> None:
    rgb = np.random.default_rng(0).integers(0, 256, (*shape, 3)).astype(np.uint8)
    back = matplotlib.image.imread(io.BytesIO(png_bytes(rgb)), format="png")
    np.testing.assert_array_equal(np.rint(back[..., :3] * 255).astype(np.uint8), rgb)


def test_png_refuses_other_arrays() -> None:
    with pytest.raises(ValueError, match="uint8"):
        png_bytes(np.zeros((2, 2, 3)))
    with pytest.raises(ValueError, match="shape"):
        png_bytes(np.zeros((2, 2), dtype=np.uint8))


def test_image_carries_the_picture_and_its_words() -> None:
    rgb = np.zeros((2, 3, 3), dtype=np.uint8)
    text = image(rgb, 'a "b" <c>')
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in text
    match = re.search(r'src="data:image/png;base64,([^"]+)"', text)
    assert match is not None
    assert base64.b64decode(match[1]) == png_bytes(rgb)


def test_ink_is_dark_paper_is_white_holes_are_neither() -> None:
    holes = np.array([[False, False, False, True]])
    rgb = ink(np.array([[0.0, 0.5, 7.0, np.nan]]), holes)[0].astype(int)
    assert rgb[0].tolist() == [255, 255, 255]
    assert rgb[0].sum() > rgb[1].sum() > rgb[2].sum()
    assert rgb[2].max() < 40
    assert rgb[3, 0] - rgb[3, 2] > 100


def test_hole_map_averages_blocks() -> None:
    mask = np.random.default_rng(1).random((720, 1000)) < 0.3
    shares, rgb = hole_map(mask, 360, 500)
    assert rgb.shape == (360, 500, 3)
    np.testing.assert_allclose(shares, mask.reshape(360, 2, 500, 2).mean(axis=(1, 3)))
    uneven, _ = hole_map(np.ones((1001, 3), dtype=bool), 360, 500)
    np.testing.assert_allclose(uneven, np.ones((360, 3)))
    small, _ = hole_map(mask[:5, :4])
    np.testing.assert_array_equal(small, mask[:5, :4])

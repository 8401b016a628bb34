"""Arrays as inline pictures: PNG by the standard library alone, in a ``data:`` address."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from megae.report.html import Markup, escape

INK = np.array([20, 24, 30], dtype=float)
WHITE = np.array([255, 255, 255], dtype=float)
HOLE = np.array([240, 160, 32], dtype=float)


def png_bytes(rgb: np.ndarray) -> bytes:
    """Encode an image as PNG (ISO/IEC 15948: signature, IHDR, one IDAT, IEND; 8-bit RGB, no filter).

    Parameters
    ----------
    rgb : uint8 ndarray, shape (height, width, 3)
    """
    if rgb.dtype != np.uint8 or rgb.ndim != 3 or rgb.shape[2] != 3 or 0 in rgb.shape:
        raise ValueError(f"rgb must be uint8 of shape (height, width, 3), got {rgb.dtype} {rgb.shape}")
    height, width, _ = rgb.shape
    lines = np.zeros((height, 1 + 3 * width), dtype=np.uint8)
    lines[:, 1:] = rgb.reshape(height, -1)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packed = zlib.compress(lines.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def image(rgb: np.ndarray, alt: str, *, css: str = "px", style: str = "") -> Markup:
    """Return an ``<img>`` that carries the picture itself, with its alternative text."""
    data = base64.b64encode(png_bytes(rgb)).decode("ascii")
    extra = f' style="{escape(style)}"' if style else ""
    source = f"data:image/png;base64,{data}"
    return Markup(f'<img class="{escape(css)}"{extra} alt="{escape(alt)}" src="{source}">')


def ink(intensity: np.ndarray, holes: np.ndarray | None = None) -> np.ndarray:
    """Colour intensities as ink on white paper, holes in amber.

    Parameters
    ----------
    intensity : ndarray, shape (height, width)
        0 is paper, 1 is ink; values outside are cut. Cells under ``holes`` may be NaN.
    holes : boolean ndarray, shape (height, width), optional

    Returns
    -------
    uint8 ndarray, shape (height, width, 3)
    """
    known = np.clip(np.where(np.isfinite(intensity), intensity, 0.0), 0.0, 1.0)[..., None]
    rgb = WHITE + known * (INK - WHITE)
    if holes is not None:
        rgb = np.where(holes[..., None], HOLE, rgb)
    return np.rint(rgb).astype(np.uint8)


def hole_map(mask: np.ndarray, max_rows: int = 360, max_columns: int = 500) -> tuple[np.ndarray, np.ndarray]:
    """Shrink a map of holes to at most ``max_rows`` x ``max_columns`` cells by averaging blocks.

    Returns
    -------
    shares : float ndarray, shape (r, c)
        Share of holes in each block.
    rgb : uint8 ndarray, shape (r, c, 3)
        The same, from near white (none) to amber (all).
    """
    shares = np.asarray(mask, dtype=float)
    for axis, limit in ((0, max_rows), (1, max_columns)):
        size = shares.shape[axis]
        if size > limit:
            cuts = np.linspace(0, size, limit + 1).astype(int)[:-1]
            counts = np.diff(np.append(cuts, size))
            counts = counts[:, None] if axis == 0 else counts[None, :]
            shares = np.add.reduceat(shares, cuts, axis=axis) / counts
    empty = np.array([236, 239, 241], dtype=float)
    return shares, np.rint(empty + shares[..., None] * (HOLE - empty)).astype(np.uint8)

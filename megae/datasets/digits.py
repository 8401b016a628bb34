"""The embedded default: scikit-learn's handwritten digits as grid graphs (no network needed)."""

from __future__ import annotations

import numpy as np
import torch
from torch_geometric.data import Data

SIDE = 8
COLUMNS = ("intensity", "row", "column")


def grid_edges(side: int = SIDE) -> torch.Tensor:
    """Return the edges of a ``side`` x ``side`` grid with 4 neighbours, each in both directions.

    Parameters
    ----------
    side : int
        Pixels along one side; pixel (i, j) is node ``i * side + j``.

    Returns
    -------
    Tensor, shape (2, 4 * side * (side - 1)), int64
    """
    index = np.arange(side * side).reshape(side, side)
    right = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()])
    down = np.stack([index[:-1].ravel(), index[1:].ravel()])
    half = np.concatenate([right, down], axis=1)
    return torch.from_numpy(np.concatenate([half, half[::-1]], axis=1))


def load_digits_graphs() -> list[Data]:
    """Load the 1,797 digits of :func:`sklearn.datasets.load_digits` as graphs of 64 pixels.

    Returns
    -------
    list of torch_geometric.data.Data, length 1797
        ``x`` (64, 3) float32: intensity (source value / 16), row / 7 and column / 7, all in [0, 1];
        ``edge_index`` (2, 224): the 4-neighbour grid, both directions, one tensor shared by all graphs;
        ``y`` (1,) int64: the digit.

    Examples
    --------
    >>> graph = load_digits_graphs()[0]
    >>> graph.x.shape, graph.edge_index.shape, int(graph.y)
    (torch.Size([64, 3]), torch.Size([2, 224]), 0)
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    edge_index = grid_edges()
    row, column = np.divmod(np.arange(SIDE * SIDE), SIDE)
    place = np.stack([row, column], axis=1) / (SIDE - 1)
    x = np.empty((len(pixels), SIDE * SIDE, 3), dtype=np.float32)
    x[:, :, 0] = pixels / 16.0
    x[:, :, 1:] = place
    y = torch.from_numpy(labels.astype(np.int64))
    return [
        Data(x=torch.from_numpy(pixel_rows.copy()), edge_index=edge_index, y=y[i : i + 1].clone())
        for i, pixel_rows in enumerate(x)
    ]

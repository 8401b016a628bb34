"""What a classifier makes of node features before its first layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

PREPARATIONS = ("centred", "row-normalised", "standardised", "as-is")

ROUNDING = 1e-6
"""A centred row shorter than this share of the row it came from is rounding of float32 and counts as zero."""

Features = TypeVar("Features", np.ndarray, Tensor)


@dataclass(frozen=True)
class Preparation:
    """A preparation with what it learnt from its reference rows; see :func:`prepare_features`.

    Parameters
    ----------
    how : one of ``PREPARATIONS``
    mean, deviation : float64 ndarrays of shape (D,)
        Of the cells that are there in each column; a column that does not vary has deviation 1.
    """

    how: str
    mean: np.ndarray
    deviation: np.ndarray

    @classmethod
    def learn(cls, reference: Any, how: str = "centred") -> Self:
        """Take means and deviations of the columns of ``reference`` (R, D); NaN is left out."""
        if how not in PREPARATIONS:
            raise ValueError(f"features must be prepared in one of the ways {', '.join(PREPARATIONS)}, got {how!r}")
        rows = _matrix(reference)
        if not len(rows):
            raise ValueError("the reference has no rows to take column means of; give at least one")
        there = ~np.isnan(rows)
        count = np.maximum(there.sum(axis=0), 1)
        mean = np.where(there, rows, 0.0).sum(axis=0) / count
        spread = np.sqrt((np.where(there, rows - mean, 0.0) ** 2).sum(axis=0) / count)
        flat = spread <= ROUNDING * np.abs(mean)
        return cls(how, mean, np.where(flat, 1.0, spread))

    def __call__(self, x: Features) -> Features:
        """Prepare ``x`` (N, D); out comes the same type."""
        rows = _matrix(x)
        if rows.shape[1] != len(self.mean):
            raise ValueError(f"x has {rows.shape[1]} columns, but its reference has {len(self.mean)}")
        if self.how == "as-is":
            out = rows.copy()
        elif self.how == "standardised":
            out = (rows - self.mean) / self.deviation
        elif self.how == "centred":
            out = rows - self.mean
            size = np.sqrt(np.nansum(out**2, axis=1))
            size[size <= ROUNDING * np.sqrt(np.nansum(rows**2, axis=1))] = np.inf
            out /= size[:, None]
        else:
            size = np.nansum(np.abs(rows), axis=1)
            out = rows / np.where(size > 0, size, 1.0)[:, None]
        if isinstance(x, Tensor):
            return torch.from_numpy(out).to(x.device, x.dtype if x.is_floating_point() else torch.float32)
        kept = x.dtype if isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating) else np.float32
        return out.astype(kept)


def prepare_features(x: Features, how: str = "centred", reference: Any = None) -> Features:
    r"""Prepare node features for a classifier.

    ``"centred"`` takes the mean of each column over the reference rows away and scales rows to length 1,

    .. math:: \tilde x_i = (x_i - \mu) / \|x_i - \mu\|_2 .

    Fills lie near the column mean where little is known; what tells nodes apart is how they depart from it, and that
    is what this keeps. ``"row-normalised"`` is the way of Planetoid's users (Kipf & Welling, ICLR 2017),

    .. math:: \tilde x_i = x_i / \textstyle\sum_j |x_{ij}| ,

    the row sum where no feature is negative; a fill may be, and a plain sum could then vanish or turn the row around.
    ``"standardised"`` gives columns mean 0 and deviation 1 over the reference rows and leaves rows alone, for columns
    in different units. ``"as-is"`` changes no number, for a classifier that was made for features as they come.

    Parameters
    ----------
    x : ndarray or Tensor of shape (N, D)
        NaN stays NaN and counts in no mean, sum or length.
    how : "centred", "row-normalised", "standardised" or "as-is"
    reference : array of shape (R, D), optional
        Rows to take means and deviations of: the training graphs' nodes, say. Without it, those of ``x``.

    Returns
    -------
    ndarray or Tensor of shape (N, D)
        Of the dtype of ``x``, float32 if that holds no fractions. Computed in float64. A row of zeros stays one; so
        does, centred, a row that equals the mean up to the rounding of float32.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 1.0], [3.0, 1.0], [2.0, 4.0]])
    >>> prepare_features(x, "row-normalised")[1]
    array([0.75, 0.25])
    >>> prepare_features(x, reference=np.array([[2.0, 1.0]]))
    array([[-1.,  0.],
           [ 1.,  0.],
           [ 0.,  1.]])
    """
    return Preparation.learn(x if reference is None else reference, how)(x)


def _matrix(x: Any) -> np.ndarray:
    rows = np.asarray(x.detach().cpu().numpy() if isinstance(x, Tensor) else x, dtype=np.float64)
    if rows.ndim != 2:
        raise ValueError(f"features must be a matrix of shape (nodes, columns), got shape {rows.shape}")
    if np.isinf(rows).any():
        i, j = np.argwhere(np.isinf(rows))[0]
        raise ValueError(f"the feature of row {i} in column {j} is infinite; replace it by a number")
    return rows

"""A Laplacian prepared once and filtered with many times."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class FilterOperator:
    """CSR form of ``S = L - I``, the Laplacian moved from [0, 2] to [-1, 1].

    Chebyshev recurrences run on ``S``; for a normalised Laplacian it is minus the normalised adjacency, so it
    has no diagonal. Build it with :meth:`from_laplacian`.

    Parameters
    ----------
    indptr : Tensor of shape (N + 1,), int32
    indices : Tensor of shape (nnz,), int32
    values : Tensor of shape (nnz,), float32 or float64

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> L = sp.csr_array([[1.0, -1.0], [-1.0, 1.0]])
    >>> FilterOperator.from_laplacian(L).n
    2
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor

    @classmethod
    def from_laplacian(
        cls,
        L: Any,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> FilterOperator:
        """Prepare a symmetric scipy sparse (N, N) Laplacian whose spectrum lies in [0, 2]; refuses others."""
        if L.shape[0] != L.shape[1]:
            raise ValueError(f"the Laplacian must be square, got shape {L.shape}")
        S = sp.csr_array(L - sp.eye_array(L.shape[0], format="csr"))
        S.eliminate_zeros()
        S.sort_indices()
        _check_symmetric(S)
        if S.nnz > np.iinfo(np.int32).max:
            raise ValueError(f"the graph has {S.nnz} non-zeros, more than 32-bit indices can address")
        return cls(
            torch.from_numpy(S.indptr.astype(np.int32)),
            torch.from_numpy(S.indices.astype(np.int32)),
            torch.from_numpy(S.data.astype(np.float64)).to(dtype),
        ).to(device)

    @property
    def n(self) -> int:
        """Number of nodes N."""
        return self.indptr.numel() - 1

    @property
    def has_edges(self) -> bool:
        """False for a graph without edges, whose filter needs no graph."""
        return self.values.numel() > 0

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> FilterOperator:
        """The same operator on another device or in another precision."""
        return FilterOperator(
            self.indptr.to(device), self.indices.to(device), self.values.to(device=device, dtype=dtype)
        )

    def with_isolated(self, count: int) -> FilterOperator:
        """The same graph with this many nodes without edges after its own."""
        indptr = torch.cat([self.indptr, self.indptr[-1:].expand(count)])
        return FilterOperator(indptr, self.indices, self.values)


class OwnFilter(ABC):
    """An operator that filters by a way of its own instead of by a backend: in parts, or over several processes.

    It stands wherever a :class:`FilterOperator` does. The global operator it stands for is symmetric, so that the
    backward pass is the filter itself.
    """

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of rows of the signals it filters."""

    @property
    @abstractmethod
    def has_edges(self) -> bool:
        """False for a graph without edges, of which this may hold a part."""

    @property
    @abstractmethod
    def device(self) -> torch.device: ...

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype: ...

    @abstractmethod
    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same operator on another device or in another precision."""

    @abstractmethod
    def bandwise(self, Z: Tensor, C: Tensor) -> Tensor:
        """(n, M, h) -> (n, M, h): band m through filter m."""

    @abstractmethod
    def expand(self, Z: Tensor, C: Tensor) -> Tensor:
        """(n, 1, h) -> (n, M, h): one input through every filter."""

    @abstractmethod
    def contract(self, G: Tensor, C: Tensor) -> Tensor:
        """(n, M, h) -> (n, 1, h): the sum over m of filter m on band m."""


def _check_symmetric(S: sp.csr_array) -> None:
    """The backward pass is the filter itself, which holds for symmetric matrices alone."""
    other = S.T.tocsr()
    same = all(np.array_equal(getattr(S, part), getattr(other, part)) for part in ("indptr", "indices"))
    if not same or not np.allclose(S.data, other.data, rtol=1e-5, atol=1e-7):
        raise ValueError(
            "the Laplacian must be symmetric; megae.spectral.normalized_laplacian makes one out of any graph, "
            "directed ones included"
        )

"""Small graphs, columns and filter banks for the tests of the networks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from megae.columns import Column
from megae.kernels import FilterOperator
from megae.models import FilterBank
from megae.models.filters import make_frame
from megae.spectral import normalized_laplacian


def adjacency(n: int, seed: int = 0, p: float = 0.4) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.random((n, n)) < p, 1).astype(float)
    return sp.csr_array(A + A.T)


def laplacian(A: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(normalized_laplacian(A))


def operator(A: sp.csr_array, dtype: torch.dtype = torch.float64) -> FilterOperator:
    return FilterOperator.from_laplacian(laplacian(A), dtype)


def bank(frame: str = "log", decoder: str = "adjoint", M: int = 4, K: int = 8) -> FilterBank:
    spectrum = adjacency(12) if frame == "adapted" else None
    return FilterBank.from_frame(make_frame(frame, M, spectrum=spectrum), K, decoder)


def stirred(module: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """The module in float64 with every weight, the zero ones too, drawn afresh."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for w in module.parameters():
            w.copy_(0.4 * torch.randn(w.shape, generator=generator, dtype=w.dtype))
    return module.eval()


def columns(*kinds: str) -> list[Column]:
    """One column per kind; ``categorical3`` has three categories."""
    out, start = [], 0
    for j, kind in enumerate(kinds):
        width = int(kind[-1]) if kind[-1].isdigit() else 1
        texts = tuple("abcdefghi"[:width]) if kind.startswith("categorical") else ()
        out.append(Column(f"c{j}", kind.rstrip("0123456789"), start, start + width, 0.0, 1.0, texts))
        start += width
    return out

"""Spectral graph mathematics without learning.

Graphs
    normalized_laplacian, symmetrized_adjacency, spectral_cdf, SpectralCDF, distinct_eigenvalues
Frames on the spectrum [0, 2]
    Frame, TightFrame, HeatFrame, SGWTFrame, InverseFrame
Polynomials
    chebyshev_coefficients, chebyshev_error, evaluate_chebyshev, frame_error, maclaurin_coefficients
Entropy
    spectral_entropy, wavelet_entropy
Proposition 2
    coverage, crossness, entropy_error_bound, polynomial_entropy_term
"""

from __future__ import annotations

from megae.spectral.base import Frame, InverseFrame
from megae.spectral.bounds import coverage, crossness, entropy_error_bound, polynomial_entropy_term
from megae.spectral.chebyshev import chebyshev_coefficients, chebyshev_error, evaluate_chebyshev, frame_error
from megae.spectral.density import SpectralCDF, spectral_cdf
from megae.spectral.entropy import distinct_eigenvalues, spectral_entropy, wavelet_entropy
from megae.spectral.heat import HeatFrame
from megae.spectral.laplacian import normalized_laplacian, symmetrized_adjacency
from megae.spectral.maclaurin import maclaurin_coefficients
from megae.spectral.sgwt import SGWTFrame
from megae.spectral.tight import TightFrame

__all__ = [
    "Frame",
    "HeatFrame",
    "InverseFrame",
    "SGWTFrame",
    "SpectralCDF",
    "TightFrame",
    "chebyshev_coefficients",
    "chebyshev_error",
    "coverage",
    "crossness",
    "distinct_eigenvalues",
    "entropy_error_bound",
    "evaluate_chebyshev",
    "frame_error",
    "maclaurin_coefficients",
    "normalized_laplacian",
    "polynomial_entropy_term",
    "spectral_cdf",
    "spectral_entropy",
    "symmetrized_adjacency",
    "wavelet_entropy",
]

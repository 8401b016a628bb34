"""The wavelet filter g_m(L) Z_m as Chebyshev polynomials of a sparse Laplacian.

=====================  ====================================================
``apply``              all bands at once, differentiable, any device
``apply_adjoint``      the sum of the filtered bands
``FilterOperator``     a Laplacian prepared for repeated filtering
``exact_filter``       the same by eigendecomposition, for small graphs
=====================  ====================================================
"""

from megae.kernels.dense import chebyshev_response, exact_filter
from megae.kernels.functional import apply, apply_adjoint
from megae.kernels.operator import FilterOperator

__all__ = ["FilterOperator", "apply", "apply_adjoint", "chebyshev_response", "exact_filter"]

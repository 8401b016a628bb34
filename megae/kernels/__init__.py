"""The wavelet filter g_m(L) Z_m as Chebyshev polynomials of a sparse Laplacian.

========================  ====================================================
``apply``                 all bands at once, differentiable, any device
``apply_adjoint``         the sum of the filtered bands
``FilterOperator``        a Laplacian prepared for repeated filtering
``PartitionedOperator``   one graph in parts, each on its own device
``DistributedOperator``   one graph over several processes
``partition_nodes``       which part each node is of
``use_backend``           one implementation by name
``warm_up``               whatever is compiled on first use, compiled now
``exact_filter``          the same by eigendecomposition, for small graphs
========================  ====================================================
"""

from megae.kernels.choice import use_backend
from megae.kernels.dense import chebyshev_response, exact_filter
from megae.kernels.functional import apply, apply_adjoint, warm_up
from megae.kernels.halo import DistributedOperator, PartitionedOperator
from megae.kernels.operator import FilterOperator
from megae.kernels.partition import partition_nodes

__all__ = [
    "DistributedOperator",
    "FilterOperator",
    "PartitionedOperator",
    "apply",
    "apply_adjoint",
    "chebyshev_response",
    "exact_filter",
    "partition_nodes",
    "use_backend",
    "warm_up",
]

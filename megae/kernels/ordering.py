"""Large graphs in an order in which neighbours are near each other, so that what one row reads is still in cache."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from megae.kernels.operator import FilterOperator

MANY_ROWS = 1 << 15
"""Rows from which neighbours far apart cost more than ordering the graph once."""

NEAR_ROWS = 2048
"""Mean distance of neighbours below which the cache holds them anyway."""

CSR = tuple[np.ndarray, np.ndarray, np.ndarray]

_AS_IT_IS = np.empty(0, np.int64)
_kept: WeakKeyDictionary[FilterOperator, tuple[CSR, np.ndarray]] = WeakKeyDictionary()


def with_near_neighbours(operator: FilterOperator) -> tuple[CSR, np.ndarray]:
    """The matrix of an operator in Cuthill and McKee's order, made once for as long as the operator lives.

    Parameters
    ----------
    operator : FilterOperator on the CPU

    Returns
    -------
    (indptr, indices, values)
        Of ``P S P^T``; the operator's own arrays where the graph is small or its neighbours are near already.
    places : int64 ndarray of shape (N,), or empty
        Row i of the result is row ``places[i]`` of the signal; empty where nothing was moved.
    """
    csr = (operator.indptr.numpy(), operator.indices.numpy(), operator.values.numpy())
    if operator.n < MANY_ROWS:
        return csr, _AS_IT_IS
    kept = _kept.get(operator)
    if kept is None:
        kept = _kept[operator] = _ordered(csr)
    return kept


def _ordered(csr: CSR) -> tuple[CSR, np.ndarray]:
    n = csr[0].size - 1
    distance = np.abs(np.repeat(np.arange(n, dtype=np.int32), np.diff(csr[0])) - csr[1])
    if not distance.size or float(distance.mean(dtype=np.float64)) < NEAR_ROWS:
        return csr, _AS_IT_IS
    S = sp.csr_array((csr[2], csr[1], csr[0]), shape=(n, n))
    places = reverse_cuthill_mckee(S, symmetric_mode=True)
    S = sp.csr_array(S[places][:, places])
    S.sort_indices()
    return (S.indptr.astype(np.int32), S.indices.astype(np.int32), S.data), places.astype(np.int64)

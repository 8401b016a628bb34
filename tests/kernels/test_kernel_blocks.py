"""Dense filters of many small graphs: what is shared, kept and refused. Their values are tested with the others'."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kernel_cases import LAPLACIANS, coefficients, distance, random_laplacian, signal, twin

from megae.kernels import FilterOperator, blocks, compiled


def test_filters_are_made_once_for_the_same_coefficients(monkeypatch):
    made = []
    inner = blocks._prepare
    monkeypatch.setattr(blocks, "_prepare", lambda *args: made.append(args) or inner(*args))
    L, Z = LAPLACIANS["many graphs"], signal(LAPLACIANS["many graphs"].shape[0], 3, 4)
    operator = FilterOperator.from_laplacian(L, torch.float64)
    C = coefficients(3, 5)
    for _ in range(3):
        blocks.bandwise(operator, Z, torch.from_numpy(C.copy()))
    assert len(made) == 1
    other = 2 * C
    assert distance(blocks.bandwise(operator, Z, torch.from_numpy(other)), twin(L, Z, other)) < 1e-12
    assert len(made) == 2
    blocks.bandwise(operator, Z, torch.from_numpy(C))
    assert len(made) == 2, "analysis and synthesis take turns in training"
    third = 3 * C
    assert distance(blocks.bandwise(operator, Z, torch.from_numpy(third)), twin(L, Z, third)) < 1e-12
    assert len(blocks._prepared[operator]) == blocks.KEPT


def test_filters_go_with_their_operator():
    before = len(blocks._prepared)
    operator = FilterOperator.from_laplacian(random_laplacian(9), torch.float64)
    blocks.contract(operator, signal(9, 2, 3), torch.from_numpy(coefficients(2, 3)))
    assert len(blocks._prepared) == before + 1
    del operator
    assert len(blocks._prepared) == before


def test_a_large_graph_is_refused(monkeypatch):
    monkeypatch.setattr(blocks, "LARGEST", 20)
    operator = FilterOperator.from_laplacian(random_laplacian(23), torch.float64)
    with pytest.raises(ValueError, match="at most 20 nodes, and one has 23"):
        blocks.bandwise(operator, signal(23, 2, 3), torch.from_numpy(coefficients(2, 3)))


def test_closed_rows_agree_with_the_compiled_ones():
    for L in (*LAPLACIANS.values(), sp.csr_array(sp.block_diag([random_laplacian(4, seed=s) for s in range(9)]))):
        operator = FilterOperator.from_laplacian(L)
        csr = operator.indptr.numpy(), operator.indices.numpy()
        assert np.array_equal(blocks.closed_rows(*csr), compiled.closed_rows(*csr, 1))

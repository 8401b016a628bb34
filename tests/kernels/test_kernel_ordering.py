"""Large graphs in another order: the same filter, with neighbours nearer."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kernel_cases import coefficients, distance, random_laplacian, signal, twin

from megae.kernels import FilterOperator, cpu, ordering
from megae.spectral import normalized_laplacian


@pytest.fixture
def small_is_large(monkeypatch):
    monkeypatch.setattr(ordering, "MANY_ROWS", 1)
    monkeypatch.setattr(ordering, "NEAR_ROWS", 2)


def shuffled_path(n: int) -> sp.csr_array:
    """Laplacian of a path whose nodes are numbered at random."""
    order = np.random.default_rng(0).permutation(n)
    A = sp.coo_array((np.ones(n - 1), (order[:-1], order[1:])), shape=(n, n))
    return sp.csr_array(normalized_laplacian(sp.csr_array(A + A.T)))


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("L", [shuffled_path(40), random_laplacian(23, isolated=3)], ids=["path", "random"])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_order_changes_no_result(monkeypatch, L, threads):
    monkeypatch.setattr(cpu, "SERIAL_WORK", 0)
    monkeypatch.setattr(cpu.torch, "get_num_threads", lambda: threads)
    operator, C = FilterOperator.from_laplacian(L, torch.float64), coefficients(3, 6)
    assert ordering.with_near_neighbours(operator)[1].size == L.shape[0]
    weights, Z = torch.from_numpy(C), signal(L.shape[0], 3, 5)
    assert distance(cpu.bandwise(operator, Z, weights), twin(L, Z, C)) < 1e-12
    assert distance(cpu.expand(operator, Z[:, :1], weights), twin(L, Z[:, :1], C)) < 1e-12
    assert distance(cpu.contract(operator, Z, weights), twin(L, Z, C).sum(axis=1, keepdims=True)) < 1e-12


@pytest.mark.usefixtures("small_is_large")
def test_neighbours_are_nearer_and_the_order_is_made_once(monkeypatch):
    operator = FilterOperator.from_laplacian(shuffled_path(200))
    (indptr, indices, _), places = ordering.with_near_neighbours(operator)
    assert sorted(places) == list(range(200))
    assert np.abs(np.repeat(np.arange(200), np.diff(indptr)) - indices).max() == 1  # a path in a row
    monkeypatch.setattr(ordering, "_ordered", lambda csr: pytest.fail("made again"))
    assert ordering.with_near_neighbours(operator)[1] is places


def test_small_graphs_and_near_neighbours_stay_as_they_are(monkeypatch):
    operator = FilterOperator.from_laplacian(shuffled_path(200))
    assert ordering.with_near_neighbours(operator)[1].size == 0
    monkeypatch.setattr(ordering, "MANY_ROWS", 1)
    assert ordering.with_near_neighbours(operator)[1].size == 0

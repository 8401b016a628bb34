"""Assignments of nodes to parts: balance, few cut edges, refusals."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_cases import LAPLACIANS, random_laplacian

from megae.kernels import FilterOperator
from megae.kernels.partition import _none_empty, cut_edges, partition_nodes


def grid(a: int, b: int) -> FilterOperator:
    """An a x b grid whose nodes are numbered at random."""

    def path(n: int) -> sp.dia_array:
        return sp.diags_array([np.full(n - 1, 0.25)] * 2, offsets=[-1, 1], shape=(n, n))

    A = sp.csr_array(sp.kron(path(a), sp.eye_array(b)) + sp.kron(sp.eye_array(a), path(b)))
    order = np.random.default_rng(5).permutation(a * b)
    return FilterOperator.from_laplacian(sp.csr_array(sp.eye_array(a * b) - A[order][:, order]))


@pytest.fixture(params=["bfs", "metis"])
def method(request):
    if request.param == "metis":
        pytest.importorskip("pymetis", reason="pymetis is not installed")
    return request.param


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("name", LAPLACIANS)
def test_every_node_has_a_part_and_no_part_is_empty(method, name, parts):
    operator = FilterOperator.from_laplacian(LAPLACIANS[name])
    owner = partition_nodes(operator, parts, method)
    assert owner.dtype == np.int64
    assert owner.shape == (operator.n,)
    assert owner.min() >= 0
    assert owner.max() < parts
    assert np.unique(owner).size == min(parts, operator.n)
    assert np.array_equal(owner, partition_nodes(operator, parts, method))


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_a_grid_is_cut_into_balanced_parts_at_few_edges(method, parts):
    operator = grid(30, 20)
    owner = partition_nodes(operator, parts, method)
    sizes = np.bincount(owner, minlength=parts)
    assert sizes.max() - sizes.min() <= (1 if method == "bfs" else 0.1 * operator.n / parts)
    at_random = cut_edges(operator, np.random.default_rng(0).permutation(owner))
    # a straight cut of the grid crosses 20 edges, a breadth-first front about twice as many
    assert cut_edges(operator, owner) <= 45 * (parts - 1)
    assert cut_edges(operator, owner) < 0.5 * at_random


def test_breadth_first_parts_differ_by_one_node_at_most():
    operator = FilterOperator.from_laplacian(random_laplacian(41, isolated=3, p=0.1))
    for parts in (2, 5, 40):
        sizes = np.bincount(partition_nodes(operator, parts, "bfs"), minlength=parts)
        assert sizes.max() - sizes.min() <= 1


def test_components_are_kept_whole_where_they_fit():
    blocks = sp.block_diag([random_laplacian(10, seed=s, p=0.9) for s in range(3)], format="csr")
    order = np.random.default_rng(1).permutation(30)
    operator = FilterOperator.from_laplacian(sp.csr_array(blocks)[order][:, order])
    assert cut_edges(operator, partition_nodes(operator, 3, "bfs")) == 0


def test_cut_edges_are_counted_once():
    triangle = FilterOperator.from_laplacian(sp.csr_array(np.eye(3) * 1.5 - 0.5))
    assert cut_edges(triangle, np.array([0, 0, 0])) == 0
    assert cut_edges(triangle, np.array([0, 1, 0])) == 2
    assert cut_edges(triangle, np.array([0, 1, 2])) == 3


def test_loops_are_no_edges():
    looped = FilterOperator.from_laplacian(sp.csr_array([[0.5, -0.5, 0.0], [-0.5, 1.0, -0.5], [0.0, -0.5, 0.5]]))
    assert looped.values.numel() == 6
    plain = FilterOperator.from_laplacian(sp.csr_array([[1.0, -0.5, 0.0], [-0.5, 1.0, -0.5], [0.0, -0.5, 1.0]]))
    assert np.array_equal(partition_nodes(looped, 3, "bfs"), partition_nodes(plain, 3, "bfs"))


def test_an_empty_part_takes_a_node_of_the_largest():
    assert np.bincount(_none_empty(np.array([0, 0, 0, 2]), 4)).tolist() == [1, 1, 1, 1]
    assert _none_empty(np.array([1, 1]), 3).tolist() == [1, 0]


def test_without_pymetis_auto_is_breadth_first_and_metis_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    operator = grid(6, 5)
    assert np.array_equal(partition_nodes(operator, 3), partition_nodes(operator, 3, "bfs"))
    with pytest.raises(ImportError, match="pip install pymetis"):
        partition_nodes(operator, 3, "metis")


def test_auto_takes_metis_where_it_is_installed():
    pytest.importorskip("pymetis")
    operator = grid(12, 9)
    assert np.array_equal(partition_nodes(operator, 4), partition_nodes(operator, 4, "metis"))


def test_wrong_requests_are_refused():
    operator = grid(3, 3)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        partition_nodes(operator, 0)
    with pytest.raises(ValueError, match=r"one of auto, metis, bfs, got 'random'"):
        partition_nodes(operator, 2, "random")

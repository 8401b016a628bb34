"""``apply`` as a differentiable function: gradients, adjointness, memory, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from kernel_cases import LAPLACIANS, coefficients, distance, random_laplacian, signal, twin

from megae.kernels import FilterOperator, apply, apply_adjoint, use_backend
from megae.spectral import TightFrame, chebyshev_coefficients


@pytest.fixture(params=["numba", "torch", "dense"])
def backend(request):
    with use_backend(request.param):
        yield


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", LAPLACIANS)
@pytest.mark.parametrize("K", [0, 1, 9])
def test_apply_against_the_eigendecomposition(name, K):
    L, C = LAPLACIANS[name], coefficients(3, K)
    Z, x = signal(L.shape[0], 3, 2), signal(L.shape[0], 1, 4)
    assert distance(apply(L, Z, C), twin(L, Z, C)) < 1e-12
    assert distance(apply(L, x, C), twin(L, x, C)) < 1e-12
    assert distance(apply_adjoint(L, Z, C), twin(L, Z, C).sum(axis=1, keepdims=True)) < 1e-12


def test_a_prepared_operator_gives_what_the_matrix_gives_in_either_precision():
    L, C = random_laplacian(15), coefficients(2, 6)
    Z = signal(15, 2, 3)
    prepared = FilterOperator.from_laplacian(L, torch.float32)
    assert apply(prepared, Z, C).dtype == torch.float64
    assert distance(apply(prepared, Z.float(), C), twin(L, Z, C)) < 2e-5
    assert torch.equal(apply(FilterOperator.from_laplacian(L, torch.float64), Z, C), apply(L, Z, C))


@pytest.mark.usefixtures("backend")
def test_no_nodes_at_all():
    L, C = sp.csr_array((0, 0)), coefficients(3, 5)
    assert apply(L, torch.zeros(0, 1, 4), C).shape == (0, 3, 4)
    assert apply_adjoint(L, torch.zeros(0, 3, 4), C).shape == (0, 1, 4)


def test_a_matrix_that_is_not_symmetric_is_refused():
    L = random_laplacian(6).tolil()
    L[0, 1] = -0.9
    with pytest.raises(ValueError, match=r"must be symmetric; .*normalized_laplacian"):
        apply(L.tocsr(), signal(6, 2, 3), coefficients(2, 4))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_other_precisions_are_refused(dtype):
    with pytest.raises(ValueError, match="must be float32 or float64"):
        apply(random_laplacian(6), torch.ones(6, 2, 3, dtype=dtype), coefficients(2, 4))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("name", ["random", "isolated", "no edges"])
def test_gradients_of_first_and_second_order(name):
    L, C = LAPLACIANS[name], coefficients(3, 4)
    n = L.shape[0]
    Z, x = signal(n, 3, 2).requires_grad_(), signal(n, 1, 2).requires_grad_()
    for function, z in ((apply, Z), (apply, x), (apply_adjoint, Z)):
        assert torch.autograd.gradcheck(lambda v, f=function: f(L, v, C), (z,))
        assert torch.autograd.gradgradcheck(lambda v, f=function: f(L, v, C), (z,))
        # linear in z, so a square exercises the second derivative for real
        assert torch.autograd.gradgradcheck(lambda v, f=function: f(L, v, C).square().sum(), (z,))


@pytest.mark.usefixtures("backend")
def test_gradient_of_an_expanded_upstream():
    L, C = random_laplacian(11), coefficients(3, 5)
    Z = signal(11, 3, 2).requires_grad_()
    apply(L, Z, C).sum().backward()
    assert distance(Z.grad, twin(L, torch.ones_like(Z), C)) < 1e-12


@pytest.mark.usefixtures("backend")
def test_expand_and_contract_are_adjoint():
    L, C = random_laplacian(21, isolated=2), coefficients(4, 7)
    x, G = signal(21, 1, 5), signal(21, 4, 5, seed=3)
    left = (apply(L, x, C) * G).sum()
    right = (x * apply_adjoint(L, G, C)).sum()
    assert float(abs(left - right)) < 1e-10 * float(abs(left))


def test_adjoint_of_a_tight_frame_reconstructs():
    L = random_laplacian(30)
    C = chebyshev_coefficients(TightFrame(5), 60)
    x = signal(30, 1, 3)
    assert distance(apply_adjoint(L, apply(L, x, C), C), x.numpy()) < 5e-3


@pytest.mark.usefixtures("backend")
def test_nothing_is_saved_for_the_backward_pass_whatever_the_degree():
    L = FilterOperator.from_laplacian(random_laplacian(20), torch.float64)

    def saved(K: int) -> list[tuple[int, ...]]:
        kept: list[tuple[int, ...]] = []
        Z = signal(20, 3, 4).requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
            out = apply(L, Z, coefficients(3, K)).sum()
            out = out + apply(L, Z[:, :1], coefficients(3, K)).sum()
        out.backward()
        return kept

    assert saved(2) == saved(60)
    assert (20, 3, 4) not in saved(60)


@pytest.mark.parametrize(
    ("Z", "C", "message"),
    [
        (torch.zeros(5, 3), np.ones((3, 2)), "shape"),
        (torch.zeros(4, 3, 2), np.ones((3, 2)), "4 rows but the Laplacian has 5"),
        (torch.zeros(5, 2, 2), np.ones((3, 2)), "2 bands but C has 3"),
        (torch.zeros(5, 3, 2), np.ones(3), "C must have shape"),
        (torch.zeros(5, 3, 2), np.ones((3, 0)), "C must have shape"),
        (torch.zeros(5, 3, 2, dtype=torch.int64), np.ones((3, 2)), "float32 or float64"),
    ],
)
@pytest.mark.parametrize("function", [apply, apply_adjoint])
def test_wrong_shapes_are_refused(function, Z, C, message):
    with pytest.raises(ValueError, match=message):
        function(random_laplacian(5, p=1.0), Z, C)


def test_adjoint_refuses_a_single_band_for_several_filters():
    with pytest.raises(ValueError, match="1 bands but C has 3"):
        apply_adjoint(random_laplacian(5, p=1.0), torch.zeros(5, 1, 2), np.ones((3, 2)))


def test_a_rectangular_laplacian_is_refused():
    with pytest.raises(ValueError, match="square"):
        FilterOperator.from_laplacian(sp.csr_array((2, 3)))


@pytest.mark.usefixtures("backend")
def test_no_columns_at_all():
    L = random_laplacian(5, p=1.0)
    assert apply(L, torch.zeros(5, 3, 0), np.ones((3, 2))).shape == (5, 3, 0)
    assert apply(L, torch.zeros(5, 1, 0), np.ones((3, 2))).shape == (5, 3, 0)
    assert apply_adjoint(L, torch.zeros(5, 3, 0), np.ones((3, 2))).shape == (5, 1, 0)

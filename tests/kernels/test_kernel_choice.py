"""Which implementation runs the filter."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import coefficients, random_laplacian, signal

from megae.kernels import FilterOperator, apply, choice, use_backend
from megae.kernels.choice import backend_for


def test_the_device_chooses_and_the_hand_overrides(monkeypatch):
    operator = FilterOperator.from_laplacian(random_laplacian(9))
    assert backend_for(operator).__name__ == "megae.kernels.cpu"
    with use_backend("torch"):
        assert backend_for(operator).__name__ == "megae.kernels.sparse"
        with use_backend("auto"):
            assert backend_for(operator).__name__ == "megae.kernels.cpu"
    monkeypatch.setenv("MEGAE_FILTER", "torch")
    assert backend_for(operator).__name__ == "megae.kernels.sparse"


def test_the_backward_pass_runs_where_the_forward_pass_did(monkeypatch):
    L, C, Z = random_laplacian(9), coefficients(2, 4), signal(9, 2, 3).requires_grad_()
    with use_backend("torch"):
        total = apply(L, Z, C).square().sum()

    def never(kind: str) -> None:
        raise AssertionError(kind)

    monkeypatch.setattr(choice, "_automatic", never)
    (grad,) = torch.autograd.grad(total, Z)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize("name", ["cuda", "Numba", ""])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ValueError, match="must be one of auto, numba, triton, torch, dense"), use_backend(name):
        pass


def test_an_unknown_name_in_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("MEGAE_FILTER", "fast")
    with pytest.raises(ValueError, match=r"MEGAE_FILTER must be one of auto, .* got 'fast'"):
        backend_for(FilterOperator.from_laplacian(random_laplacian(9)))


def test_a_filter_for_another_device_is_refused():
    with use_backend("triton"), pytest.raises(ValueError, match="'triton' does not run on a cpu device"):
        backend_for(FilterOperator.from_laplacian(random_laplacian(9)))

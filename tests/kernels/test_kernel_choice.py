"""Which implementation runs the filter."""

from __future__ import annotations

import os
import subprocess
import sys

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


WITHOUT = """
import sys
import numpy as np, torch
from megae.kernels import FilterOperator, apply, use_backend
from megae.kernels.choice import backend_for

sys.modules.update(dict.fromkeys(sys.argv[1:]))
ends = torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32)
operator = FilterOperator(*ends, -torch.ones(2))
assert backend_for(operator).__name__ == "megae.kernels.sparse"
assert apply(operator, torch.ones(2, 1, 64), np.ones((1, 9))).shape == (2, 1, 64)
with use_backend("numba"):
    apply(operator, torch.ones(2, 1, 64), np.ones((1, 9)))
"""
"""A filter by itself and then by name, where modules are missing."""


@pytest.mark.parametrize("way", ["not installed", "does not compile"])
def test_without_numba_torch_filters_and_numba_by_name_says_what_to_do(way):
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1" if way == "does not compile" else "0"}
    environment.pop("MEGAE_FILTER", None)
    command = [sys.executable, "-c", WITHOUT, *(["numba"] if way == "not installed" else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)
    assert "AssertionError" not in done.stderr
    assert "ImportError: the filter 'numba' cannot run here" in done.stderr
    assert "install what it needs, or take 'auto'" in done.stderr
    assert ("NUMBA_DISABLE_JIT is set" in done.stderr) == (way == "does not compile")

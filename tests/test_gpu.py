"""The same answers on a CUDA device as on the CPU. Run where there is one; skipped elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from megae import MEGAEImputer
from megae.kernels import FilterOperator, apply, apply_adjoint
from megae.spectral import TightFrame, chebyshev_coefficients, normalized_laplacian

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device; torch sees none here"),
]

TINY = {"hidden": 32, "band_width": 8, "max_steps": 40, "random_state": 0, "diagnose": False}


def random_graph(n: int, seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=4 / n, rng=rng)
    return sp.csr_array(A + A.T)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_filter_agrees_with_the_cpu(shared: bool, dtype: torch.dtype) -> None:
    L = normalized_laplacian(random_graph(300, 0))
    C = chebyshev_coefficients(TightFrame(6, "log"), 10)
    Z = torch.randn(300, 1 if shared else 6, 20, dtype=dtype, generator=torch.Generator().manual_seed(0))
    here = Z.clone().requires_grad_()
    there = Z.cuda().requires_grad_()
    out_here = apply(FilterOperator.from_laplacian(L, dtype), here, C)
    out_there = apply(FilterOperator.from_laplacian(L, dtype, "cuda"), there, C)
    out_here.sin().sum().backward()
    out_there.sin().sum().backward()
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(out_there.cpu(), out_here, atol=tolerance, rtol=0)
    torch.testing.assert_close(there.grad.cpu(), here.grad, atol=tolerance, rtol=0)
    torch.testing.assert_close(
        apply_adjoint(L, out_there.detach(), C).cpu(), apply_adjoint(L, out_here.detach(), C), atol=tolerance, rtol=0
    )


def test_fit_on_the_gpu_fills_and_moves_to_the_cpu() -> None:
    A = random_graph(200, 1)
    rng = np.random.default_rng(0)
    truth = (sp.eye_array(200) + 0.2 * A) @ rng.normal(size=(200, 3))
    X = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    imputer = MEGAEImputer(device="cuda", **TINY).fit(X, graph=A)
    filled = imputer.transform(X, graph=A)
    assert np.array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    on_cpu = imputer.set_params(device="cpu").transform(X, graph=A)
    np.testing.assert_allclose(on_cpu, filled, atol=1e-3)


def test_resuming_on_the_gpu(tmp_path) -> None:
    A = random_graph(60, 2)
    X = np.random.default_rng(1).normal(size=(60, 3))
    X[::7, 0] = np.nan
    whole = MEGAEImputer(device="cuda", **TINY).fit(X, graph=A)
    path = tmp_path / "c.safetensors"
    MEGAEImputer(device="cuda", **TINY).fit(X, graph=A, checkpoint=path)
    again = MEGAEImputer(device="cuda", **TINY).fit(X, graph=A, checkpoint=path, resume=True)
    np.testing.assert_allclose(again.transform(X, graph=A), whole.transform(X, graph=A), atol=1e-4)

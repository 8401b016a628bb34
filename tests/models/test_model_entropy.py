"""The regulariser against a loop over graphs, channels and bands."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from megae.models import latent_entropy


def slow(Z: np.ndarray, graph: np.ndarray, n_graphs: int) -> float:
    """-1/(G h) sum_g sum_d sum_m P log P with the norms over the nodes of one graph."""
    total = 0.0
    for g in range(n_graphs):
        part = Z[graph == g]
        for d in range(Z.shape[2]):
            energy = [float((part[:, m, d] ** 2).sum()) for m in range(Z.shape[1])]
            for e in energy:
                if e > 0:
                    total -= e / sum(energy) * math.log(e / sum(energy))
    return total / (n_graphs * Z.shape[2])


@pytest.mark.parametrize("seed", range(3))
def test_against_the_loop(seed):
    rng = np.random.default_rng(seed)
    graph = np.array([0, 0, 1, 2, 2, 2, 1])
    Z = rng.standard_normal((7, 5, 3)) * rng.random((1, 5, 1)) ** 3
    Z[graph == 2, 1] = 0.0
    got = latent_entropy(torch.from_numpy(Z), torch.from_numpy(graph), 3)
    assert float(got) == pytest.approx(slow(Z, graph, 3), rel=1e-12)


@pytest.mark.parametrize("M", [1, 2, 6, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_energies_give_log_M(M, dtype):
    Z = torch.ones(9, M, 2, dtype=dtype)
    got = float(latent_entropy(Z, torch.tensor([0] * 4 + [1] * 5), 2))
    assert got == pytest.approx(math.log(M), abs=1e-6)


def test_one_band_with_all_the_energy_gives_zero_and_a_finite_gradient():
    Z = torch.zeros(6, 4, 2)
    Z[:, 2] = 1.0
    Z.requires_grad_()
    H = latent_entropy(Z, torch.zeros(6, dtype=torch.long), 1)
    H.backward()
    assert float(H.detach()) == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(Z.grad).all()


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-12, 1e12])
def test_any_size_of_code_has_a_finite_value_and_gradient(size):
    Z = (size * torch.rand(5, 3, 2, generator=torch.Generator().manual_seed(0))).requires_grad_()
    H = latent_entropy(Z, torch.zeros(5, dtype=torch.long), 1)
    H.backward()
    assert 0 <= float(H.detach()) <= math.log(3) + 1e-6
    assert torch.isfinite(Z.grad).all()
    if size == 0:
        assert float(H.detach()) == 0
        assert not Z.grad.any()


def test_a_graph_without_energy_counts_as_zero():
    Z = torch.ones(4, 3, 2)
    Z[2:] = 0.0
    H = float(latent_entropy(Z, torch.tensor([0, 0, 1, 1]), 2))
    assert pytest.approx(math.log(3) / 2, abs=1e-6) == H


def test_gradcheck():
    Z = torch.randn(6, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    graph = torch.tensor([0, 1, 1, 0, 2, 2])
    assert torch.autograd.gradcheck(lambda z: latent_entropy(z, graph, 3), (Z,))


def test_climbing_the_gradient_evens_the_bands_out():
    Z = torch.rand(8, 5, 3, generator=torch.Generator().manual_seed(2)) * torch.tensor([1, 2, 3, 4, 9.0])[:, None]
    Z.requires_grad_()
    graph = torch.zeros(8, dtype=torch.long)
    before = float(latent_entropy(Z, graph, 1))
    optimizer = torch.optim.Adam([Z], lr=0.1, maximize=True)
    for _ in range(200):
        optimizer.zero_grad()
        latent_entropy(Z, graph, 1).backward()
        optimizer.step()
    after = float(latent_entropy(Z, graph, 1))
    assert before < 1.2
    assert after > math.log(5) - 1e-2

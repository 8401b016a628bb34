"""Matching: against the similarity tensor built in full, and on graphs whose permutation is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from megae.models.matching import attribute_similarity, hungarian, max_pooling_matching


def random_graph(n: int, seed: int, density: float = 0.4) -> torch.Tensor:
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < density, 1).astype(np.float32)
    return torch.from_numpy(upper + upper.T)


def naive(A: torch.Tensor, decoded: torch.Tensor, s: torch.Tensor, iterations: int) -> torch.Tensor:
    """Max-pooling matching as Cho et al. write it, entry by entry, with S of equation 4 as a tensor."""
    n, k = s.shape
    S = torch.zeros(n, k, n, k)
    for i, a, j, b in itertools.product(range(n), range(k), range(n), range(k)):
        if i == j and a == b:
            S[i, a, j, b] = s[i, a] * decoded[a, a]
        elif i != j and a != b:
            S[i, a, j, b] = s[i, a] * s[j, b] * A[i, j] * decoded[a, b] * decoded[a, a] * decoded[b, b]
    x = torch.ones(n, k)
    for _ in range(iterations):
        new = torch.empty_like(x)
        for i, a in itertools.product(range(n), range(k)):
            new[i, a] = x[i, a] * S[i, a, i, a] + sum((x[j] * S[i, a, j]).max() for j in range(n) if j != i)
        x = new / new.norm()
    return x


@pytest.mark.parametrize("iterations", [1, 4])
def test_equals_the_algorithm_on_the_full_tensor(iterations):
    generator = torch.Generator().manual_seed(0)
    A = torch.stack([random_graph(4, 0), random_graph(4, 1)])
    decoded = torch.rand(2, 6, 6, generator=generator)
    decoded = (decoded + decoded.transpose(1, 2)) / 2
    s = torch.rand(2, 4, 6, generator=generator)
    fast = max_pooling_matching(A, decoded, s, iterations)
    for b in range(2):
        torch.testing.assert_close(fast[b], naive(A[b], decoded[b], s[b], iterations))


@pytest.mark.parametrize("seed", range(4))
def test_recovers_the_permutation_of_a_graph_with_attributes(seed):
    n, rng = 9, np.random.default_rng(seed)
    A, x = random_graph(n, seed), torch.from_numpy(rng.standard_normal((n, 3))).float()
    where = torch.from_numpy(rng.permutation(n))
    decoded, moved = torch.zeros(n, n), torch.zeros(n, 3)
    decoded[where[:, None], where[None]] = A + torch.eye(n)
    moved[where] = x
    s = attribute_similarity(x[None], torch.ones(1, n, 3, dtype=torch.bool), moved[None], torch.ones(3), 0.05)
    found = hungarian(max_pooling_matching(A[None], decoded[None], s, 75), np.array([n]))
    assert torch.equal(found[0], where)


def test_edges_place_the_nodes_whose_attributes_are_missing():
    """A path whose inner nodes show nothing: attributes of the ends alone leave the order of the rest open."""
    n = 7
    A = torch.diag(torch.ones(n - 1), 1) + torch.diag(torch.ones(n - 1), -1)
    x = torch.arange(n).float()[:, None]
    visible = torch.zeros(n, 1, dtype=torch.bool)
    visible[[0, 1, 5, 6]] = True
    where = torch.tensor([3, 0, 5, 1, 6, 2, 4])
    decoded, moved = torch.zeros(n, n), torch.zeros(n, 1)
    decoded[where[:, None], where[None]] = A + torch.eye(n)
    moved[where] = x
    s = attribute_similarity(x[None], visible[None], moved[None], torch.ones(1), 0.05)
    found = hungarian(max_pooling_matching(A[None], decoded[None], s, 20), np.array([n]))[0]
    assert torch.equal(found, where)


def test_similarity_is_relative_to_the_best_fit_over_visible_attributes():
    x, decoded = torch.tensor([[[1.0, 9.0], [0.0, 0.0]]]), torch.tensor([[[0.0, 0.0], [2.0, 5.0], [1.0, 1.0]]])
    visible = torch.tensor([[[True, False], [False, False]]])
    s = attribute_similarity(x, visible, decoded, torch.tensor([2.0, 3.0]), 0.5)
    torch.testing.assert_close(s, torch.tensor([[[np.exp(-1.0), np.exp(-1.0), 1.0], [1.0, 1.0, 1.0]]]).float())


def test_hungarian_is_one_to_one_and_ignores_empty_places():
    scores = torch.tensor([[[5.0, 4.0, 0.0], [5.0, 0.0, 0.0], [9.0, 9.0, 9.0]]])
    assert hungarian(scores, np.array([2])).tolist() == [[1, 0, 2]]
    assert hungarian(scores, np.array([3])).tolist() == [[1, 0, 2]]

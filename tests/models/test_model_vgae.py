"""The pieces of the variational graph autoencoder against torch's and PyG's own."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Normal, kl_divergence
from torch_geometric.nn import VGAE, InnerProductDecoder
from torch_geometric.utils import to_undirected

from megae.models.vgae import (
    PairsWithoutEdge,
    VariationalGraphAutoencoder,
    edge_loss,
    kl_to_standard_normal,
    normalised_edges,
)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_kl_is_the_one_of_torch_distributions_and_of_pyg():
    mean, log_deviation = drawn(7, 3), drawn(7, 3, seed=1)
    expected = kl_divergence(Normal(mean, log_deviation.exp()), Normal(0.0, 1.0)).sum(dim=1)
    torch.testing.assert_close(kl_to_standard_normal(mean, log_deviation), expected)
    torch.testing.assert_close(expected.mean(), VGAE(torch.nn.Identity()).kl_loss(mean, log_deviation))
    assert kl_to_standard_normal(torch.zeros(2, 3), torch.zeros(2, 3)).eq(0).all()


def test_edge_loss_is_the_cross_entropy_of_inner_products():
    z, pairs, others = drawn(6, 4), torch.tensor([[0, 1, 2], [1, 0, 3]]), torch.tensor([[0, 4], [5, 2]])
    chance = InnerProductDecoder()
    expected = -chance(z, pairs).log().mean() - (1 - chance(z, others)).log().mean()
    torch.testing.assert_close(edge_loss(z, pairs, others), expected)
    none = torch.empty(2, 0, dtype=torch.long)
    assert edge_loss(z, none, none) == 0


def test_encoder_is_the_papers_two_dense_layers():
    edges = to_undirected(torch.tensor([[0, 0, 1, 3], [1, 2, 2, 4]]))
    weight = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(2))
    dense = torch.zeros(6, 6).index_put_((edges[1], edges[0]), weight) + torch.eye(6)
    degree = dense.sum(dim=1)
    A = dense / (degree[:, None] * degree[None]).sqrt()
    network = VariationalGraphAutoencoder(3, 2, hidden=5, latent=4, decoder_hidden=6).eval()
    x = drawn(6, 3)
    mean, log_deviation = network.encode(x, *normalised_edges(edges, weight, 6))
    h = torch.relu(A @ x @ network.convolve.lin.weight.T + network.convolve.bias)
    torch.testing.assert_close(mean, A @ h @ network.to_mean.lin.weight.T + network.to_mean.bias)
    layer = network.to_log_deviation
    torch.testing.assert_close(log_deviation, A @ h @ layer.lin.weight.T + layer.bias)


def test_codes_are_drawn_in_training_and_are_the_mean_after():
    edges, weight = normalised_edges(torch.empty(2, 0, dtype=torch.long), torch.empty(0), 4000)
    network = VariationalGraphAutoencoder(2, 2, hidden=4, latent=3, decoder_hidden=4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        _, z, mean, log_deviation = network(drawn(1, 2).expand(4000, 2), edges, weight)
    standard = (z - mean) / log_deviation.exp()
    assert standard.mean().abs() < 0.05
    assert abs(standard.std() - 1) < 0.05
    attributes, z, mean, _ = network.eval()(drawn(4000, 2), edges, weight)
    assert torch.equal(z, mean)
    assert torch.equal(attributes, network.attributes(mean))


@pytest.mark.parametrize("seed", [0, 1])
def test_pairs_without_edge_stay_in_the_graph_and_miss_every_edge(seed):
    edges = to_undirected(torch.tensor([[0, 1, 2, 4, 5, 6, 7], [1, 2, 0, 5, 6, 7, 8]]))
    pairs = PairsWithoutEdge(edges, torch.tensor([0, 4, 9])).draw(torch.Generator().manual_seed(seed))
    taken = {(int(i), int(j)) for i, j in edges.T}
    assert pairs.shape[1] > 0
    for i, j in pairs.T.tolist():
        assert (i, j) not in taken
        assert i != j
        assert (i < 4) == (j < 4)


def test_a_graph_without_edges_has_no_pairs():
    pairs = PairsWithoutEdge(torch.empty(2, 0, dtype=torch.long), torch.tensor([0, 3]))
    assert pairs.draw(torch.Generator().manual_seed(0)).shape == (2, 0)

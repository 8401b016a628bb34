"""The pieces of GraphVAE against PyG's edge-conditioned convolution and closed forms."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F
from torch_geometric.nn import NNConv
from torch_geometric.utils import dense_to_sparse

from megae.models.gated_pooling import GatedPooling
from megae.models.graphvae import EdgeConditionedConvolution, GraphVAE, NodeGaussian, in_decoded_order, structure_loss


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def weighted(n: int, seed: int = 0) -> torch.Tensor:
    A = np.random.default_rng(seed).random((n, n))
    A = np.triu(np.where(A < 0.5, A + 0.1, 0.0), 1)
    return torch.from_numpy(A + A.T).float()


def test_convolution_is_pygs_with_a_linear_filter_network():
    ours, A, x = EdgeConditionedConvolution(3, 2), weighted(6), drawn(6, 3)
    filters = torch.nn.Linear(1, 3 * 2)
    theirs = NNConv(3, 2, filters, aggr="mean")
    with torch.no_grad():
        filters.weight.copy_(ours.slope.weight.T.reshape(-1, 1))
        filters.bias.copy_(ours.constant.weight.T.reshape(-1))
        theirs.lin.weight.copy_(ours.own.weight)
        theirs.bias.copy_(ours.own.bias)
    edges, weights = dense_to_sparse(A)
    torch.testing.assert_close(ours(x[None], A[None])[0], theirs(x, edges, weights[:, None]))


def test_pooling_sees_nodes_in_any_order_and_no_empty_place():
    pooling, h = GatedPooling(4, 5), drawn(1, 6, 4)
    filled = torch.tensor([[True] * 4 + [False] * 2])
    out = pooling(h, filled)
    shuffled = h.clone()
    shuffled[0, :4] = h[0, [2, 0, 3, 1]]
    shuffled[0, 4:] = 99.0
    torch.testing.assert_close(pooling(shuffled, filled), out)
    said = torch.sigmoid(pooling.gate(h[0, :4])) * torch.tanh(pooling.content(h[0, :4]))
    torch.testing.assert_close(out[0], torch.tanh(said.sum(dim=0)))


def test_the_code_of_a_graph_does_not_depend_on_the_order_of_its_nodes():
    network, A, x = GraphVAE(2, 6, latent=3), weighted(6), drawn(6, 2)
    visible, filled, order = (
        drawn(6, 2, seed=1) > 0,
        torch.ones(1, 6, dtype=torch.bool),
        torch.tensor([4, 0, 5, 2, 1, 3]),
    )
    one = network.encode(x[None], visible[None], A[None], filled)
    other = network.encode(x[order][None], visible[order][None], A[order][:, order][None], filled)
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(a, b)


def test_decoded_edges_are_symmetric():
    logits, attributes = GraphVAE(2, 5, latent=3).decode(drawn(4, 3))
    assert torch.equal(logits, logits.transpose(1, 2))
    assert attributes.shape == (4, 5, 2)


def test_conditional_mean_is_that_of_the_gaussian():
    model = NodeGaussian(5, 3)
    with torch.no_grad():
        model.log_noise.copy_(drawn(5, seed=4) * 0.3)
    W = model.loadings.detach().double().numpy()
    C = W @ W.T + np.diag(model.log_noise.detach().double().exp().numpy())
    mean, x, visible = drawn(1, 4, 5), drawn(1, 4, 5, seed=1), drawn(1, 4, 5, seed=2) > 0
    visible[0, 3] = False
    out = model(mean, x, visible)[0].detach().double().numpy()
    for i in range(4):
        o = visible[0, i].numpy()
        gap = (x - mean)[0, i].double().numpy()[o]
        gain = W @ W[o].T @ np.linalg.solve(C[np.ix_(o, o)], gap) if o.any() else 0.0
        np.testing.assert_allclose(out[i], mean[0, i].double().numpy() + gain, rtol=1e-4, atol=1e-5)
    assert torch.equal(NodeGaussian(5, 0)(mean, x, visible), mean)


def test_structure_loss_is_equation_2():
    A, filled, match = weighted(3)[None], torch.tensor([[True, True, False]]), torch.tensor([[2, 0, 3]])
    A = A * filled[:, :, None] * filled[:, None]
    A[0, 0, 1] = A[0, 1, 0] = 0.7
    target = in_decoded_order(A, filled, match, 4)
    expected = torch.zeros(4, 4)
    expected[2, 2] = expected[0, 0] = expected[0, 2] = expected[2, 0] = 1.0
    assert torch.equal(target[0], expected)
    logits = drawn(1, 4, 4)
    logits = logits + logits.transpose(1, 2)
    chance, off = logits.sigmoid()[0], ~torch.eye(4, dtype=torch.bool)
    per = -(expected * chance.log() + (1 - expected) * (1 - chance).log())
    torch.testing.assert_close(structure_loss(logits, target), per.diagonal().mean() + per[off].mean())
    assert torch.isclose(F.binary_cross_entropy(chance[off], expected[off]), per[off].mean())

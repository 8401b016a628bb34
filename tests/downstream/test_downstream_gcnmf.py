"""GCNmf: expected activations by sampling, its first layer against plain and dense twins, what it learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from downstream_cases import dense_operator, parts, planted
from scipy.stats import multivariate_normal, norm

from megae.downstream import GCNMFClassifier
from megae.downstream.gcnmf import GCNMF, expected_relu, fitted_mixture
from megae.downstream.reading import read_edges
from megae.graphs import to_data

QUICK = {"random_state": 0, "device": "cpu", "max_epochs": 30, "components": 2}


def holey(n: int = 120, rate: float = 0.3, seed: int = 0, **kw):
    graph = planted(n, seed=seed, **kw)
    drawn = torch.rand(graph.x.shape, generator=torch.Generator().manual_seed(seed)) < rate
    graph.x = graph.x.masked_fill(drawn, torch.nan)
    return graph


def network(columns: int = 6, components: int = 3, seed: int = 0) -> GCNMF:
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        weights = rng.dirichlet(np.ones(components))
        means, variances = rng.normal(5, 1, (components, columns)), rng.uniform(0.5, 2, (components, columns))
        found = GCNMF(weights, means, variances, hidden=4, classes=3, dropout=0.5).double().eval()
        torch.nn.init.normal_(found.bias)
    return found


def operands(graph):
    whole = to_data(graph.x.double().numpy(), read_edges(graph))
    return [part.double() for part in GCNMFClassifier()._operands(whole)]


def test_expected_relu_is_the_mean_of_samples():
    mean = torch.tensor([-3.0, -0.5, 0.0, 0.7, 4.0])
    variance = torch.tensor([4.0, 1.0, 0.25, 2.0, 9.0])
    draws = mean + variance.sqrt() * torch.randn(400_000, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(expected_relu(mean, variance), draws.relu().mean(dim=0), atol=0.015, rtol=0)


def test_expected_relu_without_variance_is_relu_and_has_its_gradient():
    mean = torch.tensor([-2.0, 3.0, 0.5], requires_grad=True)
    variance = torch.tensor([0.0, 0.0, 1.0], requires_grad=True)
    found = expected_relu(mean, variance)
    assert found[:2].tolist() == [0.0, 3.0]
    found.sum().backward()
    assert mean.grad[:2].tolist() == [0.0, 1.0]
    assert torch.isfinite(variance.grad).all()
    assert variance.grad[2] > 0


def test_without_holes_the_first_layer_is_a_graph_convolution():
    graph = planted(40)
    net, (values, missing, A, A2) = network(), operands(graph)
    assert not missing.any()
    found = net.first(values, missing, net.responsibilities(values, missing), A, A2)
    plain = np.maximum(
        dense_operator(graph) @ values.numpy() @ net.weight.detach().numpy() + net.bias.detach().numpy(), 0
    )
    np.testing.assert_allclose(found.detach().numpy(), plain, atol=1e-5)


def test_with_no_variance_holes_are_their_means():
    graph = holey(40)
    net, (values, missing, A, A2) = network(components=1), operands(graph)
    net.log_variances.data.fill_(-100.0)
    found = net.first(values, missing, torch.ones(40, 1, dtype=torch.float64), A, A2)
    filled = values + missing * net.means[0]
    plain = torch.relu(torch.from_numpy(dense_operator(graph)) @ filled @ net.weight + net.bias)
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=0)


def around_zero(n: int) -> tuple[GCNMF, list[torch.Tensor]]:
    """A network and its operands where activations have means near 0, so that their variances matter."""
    graph = holey(n)
    graph.x -= 5.0
    net, given = network(), operands(graph)
    net.centre.zero_()
    net.log_variances.data += 1.5
    return net, given


def test_first_layer_is_its_equation_cell_by_cell():
    net, (values, missing, A, A2) = around_zero(12)
    gamma = net.responsibilities(values, missing)
    found = net.first(values, missing, gamma, A, A2).detach().numpy()
    weights, W, b = (t.detach().numpy() for t in (gamma, net.weight, net.bias))
    means, variances = net.means.detach().numpy(), net.log_variances.exp().detach().numpy()
    dense, x, holes = (t.numpy() for t in (A.to_dense(), values, missing))
    for i, h in np.ndindex(found.shape):
        expected = 0.0
        for k in range(3):
            mean = b[h] + sum(dense[i, j] * ((x[j] + holes[j] * means[k]) @ W[:, h]) for j in range(12))
            variance = sum(dense[i, j] ** 2 * ((holes[j] * variances[k]) @ W[:, h] ** 2) for j in range(12))
            s = np.sqrt(variance)
            expected += weights[i, k] * (s * norm.pdf(mean / s) + mean * norm.cdf(mean / s) if s else max(mean, 0.0))
        assert found[i, h] == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_first_layer_is_the_mean_over_drawn_holes():
    """Draw the holes of all nodes from component k, convolve, average: node i weighs the components by its own.

    It may miss the mean by five standard errors.
    """
    net, (values, missing, A, A2) = around_zero(12)
    gamma = net.responsibilities(values, missing)
    found = net.first(values, missing, gamma, A, A2).detach()
    generator, dense = torch.Generator().manual_seed(0), A.to_dense()
    expected, error = torch.zeros_like(found), torch.zeros_like(found)
    for k in range(3):
        noise = torch.randn(20_000, *values.shape, generator=generator, dtype=torch.float64)
        drawn = values + missing * (net.means[k] + (0.5 * net.log_variances[k]).exp() * noise)
        active = gamma[:, [k]] * torch.relu(dense @ (drawn @ net.weight) + net.bias)
        expected, error = expected + active.mean(dim=0), error + active.var(dim=0) / 20_000
    assert ((found - expected).abs() < 5 * error.sqrt() + 1e-6).all()


def test_responsibilities_are_bayes_on_the_observed_features():
    graph = holey(30, rate=0.5)
    graph.x[7] = torch.nan
    net, (values, missing, *_) = network(), operands(graph)
    found = net.responsibilities(values, missing).detach().numpy()
    prior = torch.softmax(net.log_weights, 0).detach().numpy()
    means, variances = net.means.detach().numpy(), net.log_variances.exp().detach().numpy()
    for i, row in enumerate(graph.x.double().numpy()):
        o = ~np.isnan(row)
        likely = [
            multivariate_normal(m[o], np.diag(v[o])).pdf(row[o]) if o.any() else 1.0
            for m, v in zip(means, variances, strict=True)
        ]
        np.testing.assert_allclose(found[i], prior * likely / (prior * likely).sum(), rtol=1e-6, atol=1e-12)


def test_mixture_starts_from_em_and_takes_holes():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-4, 0.5, (100, 2)), rng.normal(4, 1.0, (300, 2))])
    x[rng.random(x.shape) < 0.02] = np.nan
    weights, means, variances = fitted_mixture(x, 2, seed=0)
    order = np.argsort(means[:, 0])
    np.testing.assert_allclose(weights[order], [0.25, 0.75], atol=0.03)
    np.testing.assert_allclose(means[order].mean(axis=1), [-4, 4], atol=0.3)
    assert (variances > 0).all()
    assert len(fitted_mixture(x[:3], 5, seed=0)[0]) == 3


def test_decay_pulls_on_everything_learnt():
    """Where decay outweighs the loss, the first step of Adam takes the learning rate off every number's size."""
    graph = holey(60)
    train, validation, _ = parts(graph, 15, 20)
    once = {"random_state": 0, "device": "cpu", "max_epochs": 1, "components": 2}
    start = GCNMFClassifier(**once, learning_rate=1e-12).fit(graph, train, validation).network_
    found = GCNMFClassifier(**once, learning_rate=1e-3, weight_decay=1e6).fit(graph, train, validation).network_
    for (name, before), after in zip(start.named_parameters(), found.parameters(), strict=True):
        far = before.abs() > 1e-2
        assert far.any() == ("bias" not in name)
        torch.testing.assert_close(after[far], (before - 1e-3 * before.sign())[far], rtol=0, atol=1e-6)


def test_settings_are_those_of_the_authors_program():
    """github.com/marblet/GCNmf, main.py; features are read there as they are."""
    given = {"features": "as-is", "components": 5, "hidden": 16, "dropout": 0.5, "patience": 100}
    given |= {"learning_rate": 0.005, "weight_decay": 1e-2}
    assert given.items() <= GCNMFClassifier().get_params().items()


def test_learns_with_a_third_of_the_features_missing_and_moves_its_mixture():
    graph = holey(300, noise=1.0)
    train, validation, test = parts(graph, 60, 60)
    settings = {"random_state": 0, "device": "cpu", "max_epochs": 150, "components": 3}
    found = GCNMFClassifier(**settings).fit(graph, train, validation)
    assert found.accuracy(graph, test) > 0.85
    start = fitted_mixture(found._prepared(graph, graph.x).x.numpy(), 3, 0)[1]
    assert np.abs(found.network_.means.detach().numpy() - start).max() > 1e-3


def test_other_labels_change_no_bit():
    graph = holey(60)
    train, validation, test = parts(graph, 15, 20)
    first = GCNMFClassifier(**QUICK).fit(graph, train, validation)
    graph.y[test] = (graph.y[test] + 1) % 3
    second = GCNMFClassifier(**QUICK).fit(graph, train, validation)
    for a, b in zip(first.network_.parameters(), second.network_.parameters(), strict=True):
        assert torch.equal(a, b)
    np.testing.assert_array_equal(first.predict(graph), second.predict(graph))


def test_a_graph_whose_nodes_miss_everything_gets_classes():
    graph = holey(60)
    graph.x[::3] = torch.nan
    graph.x[:, 2] = torch.nan
    train, validation, _ = parts(graph, 15, 20)
    found = GCNMFClassifier(**QUICK).fit(graph, train, validation)
    assert set(found.predict(graph)) <= set(found.classes_)
    assert all(torch.isfinite(p).all() for p in found.network_.parameters())


@pytest.mark.parametrize("wrong", [{"components": 0}, {"hidden": 0}, {"dropout": 1.0}, {"max_epochs": 0}])
def test_settings_are_checked(wrong):
    graph = holey(40)
    train, validation, _ = parts(graph, 10, 10)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GCNMFClassifier(**{"device": "cpu", **wrong}).fit(graph, train, validation)

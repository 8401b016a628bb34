"""GraphVAE: matching makes it blind to the order of nodes, patches carry it past k, and holes are learnt."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from geometric_cases import error_against_mean, geometric
from imputer_cases import graphs, ring, same_bits, table
from torch.distributions import Normal, kl_divergence
from torch.nn.functional import binary_cross_entropy_with_logits
from torch_geometric.data import Data

from megae.graphs import to_data
from megae.imputers import GraphVAEImputer
from megae.imputers.neural import Ground
from megae.models.graphvae import GraphVAE, NodeGaussian
from megae.training.patches import cut


def molecules(count: int, seed: int, holes: float = 0.0) -> tuple[list[Data], list[np.ndarray]]:
    """Rings of twelve nodes of three kinds in random order, whose attributes follow the kind and the graph."""
    rng = np.random.default_rng(seed)
    kinds = np.array([[2.0, 0.0, 1.0, -1.0], [-2.0, 1.0, -1.0, 0.0], [0.0, -2.0, 2.0, 2.0]])
    out, truth = [], []
    for _ in range(count):
        which = rng.permutation(np.repeat([0, 1, 2], 4))
        x = kinds[which] + 0.7 * rng.standard_normal() + 0.1 * rng.standard_normal((12, 4))
        truth.append(x)
        A = sp.csr_array(np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1))
        out.append(to_data(np.where(rng.random(x.shape) < holes, np.nan, x), A))
    return out, truth


def error(imputer: GraphVAEImputer, seed: int = 1) -> float:
    items, truth = molecules(20, seed, holes=0.2)
    filled = imputer.transform(items)
    wrong = [(f.x.numpy() - t)[g.x.isnan().numpy()] for f, t, g in zip(filled, truth, items, strict=True)]
    return float(np.sqrt(np.mean(np.concatenate(wrong) ** 2)))


def spread() -> float:
    return float(np.concatenate(molecules(20, 1)[1]).std(axis=0).mean())


@functools.cache
def fitted(**settings) -> GraphVAEImputer:
    return GraphVAEImputer(max_steps=150, latent=8, learning_rate=4e-3, random_state=0, **settings).fit(
        molecules(60, 0)[0]
    )


def test_one_code_per_graph_and_matching_fill_holes_where_order_says_nothing():
    matched, in_order = error(fitted(factors=0)), error(fitted(factors=0, align="order"))
    assert matched < 0.6 * spread()
    assert matched < 0.8 * in_order


def test_visible_attributes_of_a_node_tell_of_its_holes():
    assert error(fitted(factors=4, align="order")) < 0.8 * error(fitted(factors=0, align="order"))


def test_nodes_in_another_order_get_the_same_values():
    imputer = GraphVAEImputer(max_steps=60, latent=8, random_state=0).fit(molecules(30, 0)[0])
    item = molecules(1, 5, holes=0.2)[0][0]
    order = np.random.default_rng(0).permutation(12)
    A = sp.csr_array((item.edge_weight.numpy(), item.edge_index.numpy()), shape=(12, 12))
    moved = to_data(item.x.numpy()[order], A[order][:, order])
    plain, other = imputer.transform([item])[0].x, imputer.transform([moved])[0].x
    torch.testing.assert_close(other, plain[order], rtol=1e-4, atol=1e-4)


def test_a_graph_larger_than_k_is_filled_patch_by_patch():
    imputer = GraphVAEImputer(max_steps=5, max_nodes=10, random_state=0).fit(graphs(24, n=8, d=4))
    assert imputer.k_ == 8
    X, A = table(24), ring()
    whole = imputer.transform([to_data(X, A)])[0].x.numpy()
    patches = cut(A, 8)
    assert len(patches) == 3
    for patch in patches:
        alone = imputer.transform([to_data(X[patch], A[patch][:, patch])])[0].x.numpy()
        np.testing.assert_allclose(whole[patch], alone, rtol=1e-5, atol=1e-5)


def test_beats_the_mean_where_whole_nodes_miss_a_smooth_signal():
    X, A, nodes = geometric()
    imputer = GraphVAEImputer(max_steps=200, random_state=0)
    filled = imputer.fit_transform(np.where(nodes[:, None], np.nan, X), graph=A)
    assert error_against_mean(filled, X, nodes) < 0.7


def test_one_table_larger_than_k():
    filled = GraphVAEImputer(max_steps=5, max_nodes=7, random_state=0).fit_transform(table(), graph=ring())
    assert np.isfinite(filled).all()


@pytest.mark.parametrize(
    "changed", [{"edge_weight": 0.0}, {"kl_weight": 0.0}, {"iterations": 0}, {"attribute_weight": 0.0}]
)
def test_every_part_of_the_loss_counts(changed):
    settings = {"max_steps": 20, "random_state": 0, "max_nodes": 12}
    plain = GraphVAEImputer(**settings).fit_transform(table(), graph=ring())
    assert not same_bits(plain, GraphVAEImputer(**settings, **changed).fit_transform(table(), graph=ring()))


def test_the_loss_of_a_step_is_its_four_terms_and_the_encoder_sees_edges_and_no_hidden_cell(monkeypatch):
    """Out of what the networks and the matching returned in the one step, on one graph of equal edge weights."""
    met = {}

    def keep(cls, name):
        original = getattr(cls, name)

        def watched(self, *args):
            out = original(self, *args)
            met.setdefault(name, (args, out))
            return out

        monkeypatch.setattr(cls, name, watched)

    for cls, name in ((Ground, "hide"), (GraphVAE, "encode"), (GraphVAE, "decode"), (NodeGaussian, "forward")):
        keep(cls, name)
    keep(GraphVAEImputer, "_match")
    X, A = table(), ring()
    n, E = X.shape
    settings = {"attribute_weight": 1.5, "edge_weight": 0.7, "kl_weight": 30.0}
    imputer = GraphVAEImputer(max_steps=1, validation_fraction=0.0, random_state=0, **settings).fit(X, graph=4.0 * A)
    found = imputer.outcome_.history[0]["loss"]

    (_, visible, edges, _), (mean, log_deviation) = met["encode"]
    hidden = met["hide"][1].numpy().reshape(n, E)
    assert hidden.any()
    np.testing.assert_array_equal(visible[0].numpy(), ~np.isnan(X) & ~hidden)
    np.testing.assert_allclose(edges[0].numpy(), A.toarray())
    z, (logits, decoded) = met["decode"][0][0], met["decode"][1]
    assert (z != mean).all()

    deviation, span = np.nanstd(X, axis=0), np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
    scaled = torch.from_numpy((X - np.nanmean(X, axis=0)) / deviation)
    weight = torch.from_numpy(deviation / span / np.sqrt(np.mean((deviation / span) ** 2)))
    match = met["_match"][1][0]
    own, conditional = decoded[0][match], met["forward"][1][0]
    attributes = (((own - scaled) * weight)[~np.isnan(X)]).square().mean()
    holes = (((conditional - scaled) * weight)[hidden]).square().mean()
    target = torch.zeros(n, n)
    target[match[:, None], match] = torch.from_numpy(A.toarray()).float() + torch.eye(n)
    off = ~torch.eye(n, dtype=torch.bool)
    structure = binary_cross_entropy_with_logits(logits[0].diagonal(), target.diagonal())
    structure = structure + binary_cross_entropy_with_logits(logits[0][off], target[off])
    kl = kl_divergence(Normal(mean, log_deviation.exp()), Normal(0.0, 1.0)).sum()
    expected = 1.5 * attributes + holes + 0.7 * structure + 30.0 * kl / (n * E)
    assert found == pytest.approx(float(expected.detach()), rel=1e-4)


def test_time_budget_ends_training(ticking):
    imputer = GraphVAEImputer(max_steps=200, time_budget=600.0, random_state=0).fit(graphs(24))
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_nodes": 0}, "max_nodes must be an integer and at least 1"),
        ({"align": "name"}, "'matching' or 'order'"),
        ({"temperature": 0.0}, "temperature must be positive"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        GraphVAEImputer(**settings).fit(table(), graph=ring())

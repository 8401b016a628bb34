"""VGAE: the graph helps where whole nodes are missing, and every term of its loss can be switched off."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from geometric_cases import error_against_mean, geometric
from imputer_cases import graphs, ring, same_bits, table
from torch.distributions import Normal, kl_divergence

from megae.imputers import VGAEImputer
from megae.imputers import vgae as module
from megae.imputers.neural import Ground


def test_beats_the_mean_where_whole_nodes_miss_a_smooth_signal():
    X, A, nodes = geometric()
    hidden = np.where(nodes[:, None], np.nan, X)
    filled = VGAEImputer(random_state=0, max_steps=300).fit_transform(hidden, graph=A)
    assert error_against_mean(filled, X, nodes) < 0.6
    blind = VGAEImputer(random_state=0, max_steps=300).fit_transform(hidden, graph=sp.csr_array(A.shape))
    assert error_against_mean(blind, X, nodes) > 0.9


def test_fills_graphs_it_has_never_seen():
    parts = [geometric(60, seed=s) for s in range(31)]
    seen = graphs_of(parts[:30], complete=True)
    fitted = VGAEImputer(random_state=0, max_steps=150).fit(seen)
    X, _, nodes = parts[30]
    filled = fitted.transform(graphs_of(parts[30:], complete=False))[0].x.numpy()
    assert error_against_mean(filled, X, nodes) < 0.8


def graphs_of(parts, complete):
    from torch_geometric.data import Data

    out = []
    for X, A, nodes in parts:
        edges = torch.from_numpy(np.stack(A.tocoo().coords).astype(np.int64))
        cells = X if complete else np.where(nodes[:, None], np.nan, X)
        out.append(Data(x=torch.from_numpy(cells), edge_index=edges))
    return out


@pytest.mark.parametrize("off", [{"edge_weight": 0.0}, {"kl_weight": 0.0}, {"loss_on": "all"}])
def test_every_term_of_the_loss_counts(off):
    plain = VGAEImputer(max_steps=20, random_state=0).fit_transform(table(), graph=ring())
    assert not same_bits(plain, VGAEImputer(max_steps=20, random_state=0, **off).fit_transform(table(), graph=ring()))


def test_the_loss_of_a_step_is_its_three_terms_and_hidden_cells_stay_out_of_the_input(monkeypatch):
    """Out of what the network returned in the one step: squares in ranges of the columns, KL per column, edges."""
    met = {}

    def keep(cls, name):
        original = getattr(cls, name)

        def watched(self, *args):
            out = original(self, *args)
            met.setdefault(name, (args, out))
            return out

        monkeypatch.setattr(cls, name, watched)

    keep(Ground, "hide")
    keep(module.VariationalGraphAutoencoder, "forward")
    keep(module.PairsWithoutEdge, "draw")
    X, A = table(), ring()
    settings = {"max_steps": 1, "validation_fraction": 0.0, "random_state": 0, "kl_weight": 3.0, "edge_weight": 0.7}
    found = VGAEImputer(**settings).fit(X, graph=A).outcome_.history[0]["loss"]

    (shown, *_), (filled, z, mean, log_deviation) = met["forward"]
    hidden, others = met["hide"][1].numpy(), met["draw"][1]
    deviation, span = np.nanstd(X, axis=0), np.nanmax(X, axis=0) - np.nanmin(X, axis=0)
    scaled = (X - np.nanmean(X, axis=0)) / deviation
    assert hidden.any()
    np.testing.assert_allclose(shown.numpy(), np.where(np.isnan(X) | hidden, 0.0, scaled), rtol=1e-5, atol=1e-6)
    weight = deviation / span / np.sqrt(np.mean((deviation / span) ** 2))
    squares = np.mean((((filled.detach().numpy() - scaled) * weight)[hidden]) ** 2)
    kl = kl_divergence(Normal(mean, log_deviation.exp()), Normal(0.0, 1.0)).sum(dim=1).mean()
    chance = torch.sigmoid(z @ z.T)
    edges = torch.from_numpy(np.stack(A.nonzero()))
    likely = chance[tuple(edges)].log().mean() + (1 - chance[tuple(others)]).log().mean()
    assert found == pytest.approx(float((squares + 3.0 * kl / X.shape[1] - 0.7 * likely).detach()), rel=1e-4)


def test_a_stronger_prior_draws_codes_to_zero():
    def size(kl_weight: float) -> float:
        imputer = VGAEImputer(max_steps=60, kl_weight=kl_weight, random_state=0).fit(table(), graph=ring())
        return float(np.square(imputer.latent_codes(table(), graph=ring())[0]).mean())

    assert size(1.0) < 0.1 * size(0.0)


def test_time_budget_ends_training(ticking):
    fitted = VGAEImputer(max_steps=200, time_budget=600.0, random_state=0).fit(graphs(24))
    assert fitted.outcome_.stopped == "time"
    assert 0 < fitted.outcome_.steps < 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"latent": 0}, "latent must be an integer and at least 1"),
        ({"edge_weight": -1.0}, "edge_weight must not be negative"),
        ({"loss_on": "some"}, "'hidden' or 'all'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        VGAEImputer(**settings).fit(table(), graph=ring())

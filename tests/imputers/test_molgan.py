"""MolGAN: fills what it was not shown, listens to its critic, and works past k nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from geometric_cases import error_against_mean, geometric
from imputer_cases import graphs, ring, same_bits, table
from torch import Tensor
from torch.nn.functional import cross_entropy

from megae.graphs import to_data
from megae.imputers import MolGANImputer
from megae.training.patches import cut


def low_rank(count: int, seed: int, holes: float) -> tuple[list, list[np.ndarray]]:
    """Graphs of ten nodes whose four attributes are two numbers of the node, mixed."""
    rng, mix = np.random.default_rng(seed), np.random.default_rng(9).standard_normal((2, 4))
    truth = [rng.standard_normal((10, 2)) @ mix for _ in range(count)]
    return [to_data(np.where(rng.random(x.shape) < holes, np.nan, x), ring(10)) for x in truth], truth


def test_fills_new_graphs_better_than_the_mean():
    imputer = MolGANImputer(max_steps=80, n_critic=1, learning_rate=3e-3, random_state=0).fit(low_rank(40, 0, 0.0)[0])
    items, truth = low_rank(30, 1, 0.2)
    holes = np.concatenate([g.x.isnan().numpy() for g in items])
    filled = np.concatenate([g.x.numpy() for g in imputer.transform(items)])
    error = np.sqrt(np.mean((filled - np.concatenate(truth))[holes] ** 2))
    assert error < 0.75 * np.concatenate(truth)[holes].std()


def test_beats_the_mean_where_whole_nodes_miss_a_smooth_signal():
    X, A, nodes = geometric()
    imputer = MolGANImputer(max_steps=100, n_critic=1, random_state=0)
    filled = imputer.fit_transform(np.where(nodes[:, None], np.nan, X), graph=A)
    assert error_against_mean(filled, X, nodes) < 0.5
    learnt_by_heart = imputer.outcome_.history[-1]["val_rmse"] / imputer.outcome_.best_rmse
    assert learnt_by_heart < 1.5


def test_the_critic_learns_to_tell_generated_graphs_from_real_ones():
    """With the generator held still its loss falls below zero: fake graphs score lower than real ones."""
    imputer = MolGANImputer(max_steps=20, n_critic=5, learning_rate=2e-3, trade_off=1e-9, random_state=0)
    losses = []
    original = imputer._critic_loss

    def watched(*args):
        loss = original(*args)
        losses.append(float(loss.detach()))
        return loss

    imputer._critic_loss = watched
    imputer.fit(low_rank(40, 0, 0.0)[0])
    assert len(losses) == 100
    assert np.mean(losses[-20:]) < min(0.0, np.mean(losses[:10]))


def in_training(monkeypatch, loss: str, look: Callable[..., None], **settings) -> None:
    """Fit for one step on a table, and call ``look(imputer, its loss, patches, hidden)`` the first time it is asked."""
    original, looked = getattr(MolGANImputer, loss), []

    def watched(self, patches, hidden):
        if not looked:
            looked.append(True)
            look(self, lambda: original(self, patches, hidden), patches, hidden)
        return original(self, patches, hidden)

    monkeypatch.setattr(MolGANImputer, loss, watched)
    MolGANImputer(max_steps=1, max_nodes=12, random_state=0, **settings).fit(table(), graph=ring())
    assert looked


def generated(imputer: MolGANImputer, patches, hidden) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Logits and attributes of the generator, and the graph that its critic is shown, by the next draw of noise."""
    visible = patches.seen & ~hidden
    z = torch.randn(len(patches.x), imputer.noise)
    logits, attributes = imputer.generator_(z, patches.x, visible, patches.A, patches.filled)
    cells = torch.where(visible, patches.x, attributes) * weight() * patches.filled[:, :, None]
    return logits, attributes, (logits.softmax(dim=3)[..., 1] * patches.pairs, cells)


def weight() -> Tensor:
    """Deviation over range of the columns of the table, at a mean square of 1."""
    share = np.nanstd(table(), axis=0) / (np.nanmax(table(), axis=0) - np.nanmin(table(), axis=0))
    return torch.from_numpy(share / np.sqrt(np.mean(share**2))).float()


def test_the_critic_descends_wasserstein_distance_and_gradient_penalty(monkeypatch):
    def look(imputer, loss, patches, hidden):
        torch.manual_seed(1)
        found = loss()
        torch.manual_seed(1)
        _, attributes, fake = (t if isinstance(t, tuple) else t.detach() for t in generated(imputer, patches, hidden))
        cells = torch.where(patches.seen, patches.x, attributes) * weight() * patches.filled[:, :, None]
        real, share = (patches.A, cells), torch.rand(len(patches.x))[:, None, None]
        between = [(share * r + (1 - share) * f).detach().requires_grad_() for r, f in zip(real, fake, strict=True)]
        slopes = torch.autograd.grad(imputer.critic_(*between, patches.filled).sum(), between)
        steep = torch.cat([s.flatten(1) for s in slopes], dim=1).norm(dim=1)
        scores = [imputer.critic_(*graph, patches.filled).mean() for graph in (fake, real)]
        expected = scores[0] - scores[1] + 10 * (steep - 1).square().mean()
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)

    in_training(monkeypatch, "_critic_loss", look, validation_fraction=0.0)


def test_the_generator_descends_its_error_and_climbs_what_the_critic_says(monkeypatch):
    def look(imputer, loss, patches, hidden):
        torch.manual_seed(1)
        found = loss()
        torch.manual_seed(1)
        logits, attributes, fake = generated(imputer, patches, hidden)
        assert hidden.any()
        squares = ((attributes - patches.x) * weight())[hidden].square().mean()
        edges = cross_entropy(logits[patches.pairs], patches.A[patches.pairs].long())
        score = imputer.critic_(*fake, patches.filled).mean()
        torch.testing.assert_close(found, 0.4 * (squares + 0.3 * edges) - 0.6 * score, rtol=1e-4, atol=1e-6)

    settings = {"trade_off": 0.6, "edge_weight": 0.3, "validation_fraction": 0.0}
    in_training(monkeypatch, "_generator_loss", look, **settings)


def test_a_step_of_the_generator_alone_raises_its_score(monkeypatch):
    def look(imputer, loss, patches, hidden):
        def score() -> Tensor:
            torch.manual_seed(1)
            return imputer.critic_(*generated(imputer, patches, hidden)[2], patches.filled).mean()

        before, parameters = score(), list(imputer.generator_.parameters())
        torch.manual_seed(1)
        slopes = torch.autograd.grad(loss(), parameters, allow_unused=True)
        with torch.no_grad():
            for p, slope in zip(parameters, slopes, strict=True):
                if slope is not None:
                    p -= 0.1 * slope
        assert score() > before + 1e-5

    in_training(monkeypatch, "_generator_loss", look, trade_off=1.0, validation_fraction=0.0)


@pytest.mark.parametrize(
    "changed",
    [{"trade_off": 0.5}, {"trade_off": 0.0}, {"discretise": "hard"}, {"minibatch": False}, {"edge_weight": 0.0}],
)
def test_every_part_of_the_training_counts(changed):
    settings = {"max_steps": 15, "n_critic": 2, "random_state": 0, "max_nodes": 12}
    plain = MolGANImputer(**settings).fit_transform(table(), graph=ring())
    assert not same_bits(plain, MolGANImputer(**settings, **changed).fit_transform(table(), graph=ring()))


def test_a_graph_larger_than_k_is_filled_patch_by_patch():
    imputer = MolGANImputer(max_steps=3, max_nodes=10, random_state=0).fit(graphs(24, n=8, d=4))
    assert imputer.k_ == 8
    X, A = table(24), ring()
    whole = imputer.transform([to_data(X, A)])[0].x.numpy()
    for patch in cut(A, 8):
        alone = imputer.transform([to_data(X[patch], A[patch][:, patch])])[0].x.numpy()
        np.testing.assert_allclose(whole[patch], alone, rtol=1e-5, atol=1e-5)


def test_time_budget_ends_training(ticking):
    imputer = MolGANImputer(max_steps=200, time_budget=600.0, random_state=0).fit(graphs(24))
    assert imputer.outcome_.stopped == "time"
    assert 0 < imputer.outcome_.steps < 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_critic": 0}, "n_critic must be an integer and at least 1"),
        ({"trade_off": 1.5}, r"trade_off must lie in \[0, 1\]"),
        ({"discretise": "round"}, "'soft', 'gumbel' or 'hard'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        MolGANImputer(**settings).fit(table(), graph=ring())

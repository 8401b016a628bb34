"""MolGAN: fills what it was not shown, listens to its critic, and works past k nodes."""

from __future__ import annotations

import numpy as np
import pytest
from geometric_cases import error_against_mean, geometric
from imputer_cases import graphs, ring, same_bits, table

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

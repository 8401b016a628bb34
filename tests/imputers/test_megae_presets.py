"""The presets as DESIGNed and every switch on them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from imputer_cases import ring, same_bits
from megae_cases import collection, holes, megae, punched, same_weights, waves

from megae.imputers.presets import PRESETS, resolve
from megae.models import PaperAutoencoder, WaveletAutoencoder

X = punched(waves(), holes((40, 4)))
A = ring(40)

FROZEN = {
    "frame": "log",
    "warp_constant": 10.0,
    "bands": 6,
    "order": 10,
    "decoder": "inverse",
    "inverse_eps": 0.1,
    "hidden": 32,
    "gamma": 0.15,
    "learning_rate": 3e-3,
    "max_steps": 3000,
    "batch_fraction": 1 / 6,
}


def test_paper_preset_is_frozen():
    assert {k: PRESETS["paper"][k] for k in FROZEN} == FROZEN
    for one_graph in (True, False):
        resolved = resolve("paper", one_graph, (40, 4), 0.99, {})
        assert {k: resolved[k] for k in FROZEN} == FROZEN


def test_default_preset_on_many_graphs():
    wanted = {"bands": 6, "order": 10, "frame": "log", "warp_constant": 10.0, "decoder": "adjoint"}
    wanted |= {"hidden": 256, "band_width": 24, "blocks": 2, "max_steps": 6000, "average_decay": 0.999}
    wanted |= {"learning_rate": 1e-3, "weight_decay": 1e-4, "batch_fraction": 1 / 6, "jitter": 0.5}
    resolved = resolve("default", False, (40, 4), 0.1, {})
    assert {k: resolved[k] for k in wanted} == wanted


def test_one_nearly_empty_table_is_propagated_farther():
    full, nearly_empty = (resolve("default", True, (40, 4), missing, {}) for missing in (0.9, 0.91))
    assert (full["nearly_empty"], full["propagation"]) == (False, 10)
    assert (nearly_empty["nearly_empty"], nearly_empty["propagation"]) == (True, 40)
    assert not resolve("default", False, (40, 4), 0.99, {})["nearly_empty"]
    assert not resolve("paper", True, (40, 4), 0.99, {})["nearly_empty"]


def test_overrides_win_and_none_does_not_override():
    resolved = resolve("paper", True, (40, 4), 0.1, {"bands": 4, "gamma": 0.0, "order": None})
    assert (resolved["bands"], resolved["gamma"], resolved["order"]) == (4, 0.0, 10)
    assert PRESETS["paper"]["bands"] == 6
    fitted = megae(bands=4, order=5).fit(X, graph=A)
    assert fitted.network_.body.wavelets[0].filters.analysis.shape == (4, 6)


@pytest.fixture(scope="module")
def plain():
    return {preset: megae(preset=preset, learning_rate=1e-2).fit(X, graph=A) for preset in ("default", "paper")}


def test_presets_are_the_two_networks(plain):
    assert isinstance(plain["default"].network_.body, WaveletAutoencoder)
    assert isinstance(plain["paper"].network_.body, PaperAutoencoder)


SWITCHES = [
    {"regularize": False},
    {"use_graph": False},
    *({"decoder": d} for d in ("adjoint", "inverse", "gcn", "mlp")),
    *({"frame": f} for f in ("uniform", "paper-log", "adapted", "heat", "sgwt")),
    {"gamma": 1.0},
    {"bands": 4},
    {"order": 5},
    {"weight_decay": 0.5},
    {"hole_rate": 0.6},
    {"binary_loss": "cross-entropy"},
    {"dropout": 0.5},
]
OWN = {"default": {"decoder": "adjoint"}, "paper": {"decoder": "inverse"}}
WITHOUT_EFFECT = [("default", "binary_loss"), ("paper", "binary_loss"), ("paper", "dropout")]


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("switch", SWITCHES, ids=lambda s: "-".join(f"{k}={v}" for k, v in s.items()))
def test_every_switch_runs_and_differs(plain, preset, switch):
    fitted = megae(preset=preset, learning_rate=1e-2, **switch).fit(X, graph=A)
    filled = fitted.transform(X)
    assert np.isfinite(filled).all()
    idle = switch == OWN[preset] or (preset, next(iter(switch))) in WITHOUT_EFFECT
    assert same_bits(filled, plain[preset].transform(X)) == idle


def test_a_hole_enters_the_paper_network_as_the_minimum_or_the_mean(plain):
    standard = megae(preset="paper", scaling="standard", learning_rate=1e-2).fit(X, graph=A)
    assert same_bits(standard.mean_, standard.center_)
    assert (standard.center_ < np.nanmax(X, axis=0)).all()
    low = plain["paper"]
    assert (low.mean_ >= np.nanmin(X, axis=0)).all()
    assert (low.mean_ < low.center_ - 0.1).all()
    assert np.allclose(low.scale_, low.unit_)
    assert not np.allclose(standard.scale_, standard.unit_)
    assert not same_bits(standard.transform(X), low.transform(X))


def test_the_default_network_does_not_start_from_the_minimum():
    with pytest.raises(ValueError, match="scaling='range' is for preset='paper'"):
        megae(scaling="range").fit(X, graph=A)
    with pytest.raises(ValueError, match="scaling must be 'standard' or 'range', got 'minmax'"):
        megae(preset="paper", scaling="minmax").fit(X, graph=A)


def test_how_empty_few_graphs_are_is_asked_of_all():
    graphs = collection(4, n=12)
    graphs[0].x[1:] = np.nan
    assert graphs[0].x.isnan().double().mean() > 0.9
    assert not megae().fit(graphs).config_["nearly_empty"]


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_graph_free_twin_ignores_the_edges(preset):
    chords = ring(40).toarray()
    chords[0, 20] = chords[20, 0] = 3.0
    other = megae(preset=preset, use_graph=False).fit(X, graph=chords)
    twin = megae(preset=preset, use_graph=False).fit(X, graph=A)
    assert same_weights(twin, other)
    assert same_bits(twin.transform(X), other.transform(X))
    assert not same_weights(megae(preset=preset).fit(X, graph=A), megae(preset=preset).fit(X, graph=chords))


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_regulariser_raises_the_entropy(preset):
    def entropy(regularize: bool) -> float:
        settings = {
            "gamma": 5.0,
            "max_steps": 40,
            "learning_rate": 1e-2,
            "regularize": regularize,
            "dropout": 0.0,
        }
        return megae(preset=preset, patience=1000, **settings).fit(X, graph=A).diagnostics_["history"][-1]["entropy"]

    without, with_it = entropy(False), entropy(True)
    assert with_it > without + 0.05
    assert with_it <= math.log(6) + 1e-5


def test_gamma_zero_is_no_regulariser():
    assert same_weights(megae(gamma=0.0).fit(X, graph=A), megae(regularize=False).fit(X, graph=A))


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_presets_on_many_graphs(preset):
    fitted = megae(preset=preset).fit(collection())
    assert fitted.by_graph_
    assert all(np.isfinite(g.x.numpy()).all() for g in fitted.transform(collection(4, seed=40)))

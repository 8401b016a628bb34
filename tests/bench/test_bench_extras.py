"""Accuracy, entropy and spectra beside the error."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from megae.bench import extras
from megae.bench.extras import entropy_change, fill_accuracy, holes_accuracy, node_parts, spectra
from megae.bench.protocol import Answers, pose
from megae.datasets import load_digits_graphs
from megae.downstream import GCN_SETTINGS, NODE_PROTOCOLS
from megae.imputers import get_imputer
from megae.spectral import spectral_entropy


def labelled_graph(monkeypatch: pytest.MonkeyPatch, n: int = 120) -> list[Data]:
    """Two classes with different features, as a dataset that has a split of nodes."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, 6)) + 2 * y[:, None] * np.array([1, -1, 1, -1, 1, -1])
    ends = rng.integers(0, n, size=(2, 6 * n))
    ends = ends[:, y[ends[0]] == y[ends[1]]]
    monkeypatch.setitem(NODE_PROTOCOLS, "made", {"per_class": 10, "validation": 40, "test": None})
    return [Data(x=torch.from_numpy(x).float(), edge_index=torch.from_numpy(ends), y=torch.from_numpy(y))]


def test_entropy_does_not_change_where_nothing_does():
    _, answers = pose("digits", load_digits_graphs()[:20], "mcar", 0.3, 0)
    assert entropy_change([g.x.numpy() for g in answers.test], answers) == 0


def test_entropy_change_by_hand():
    pair = torch.tensor([[0, 1], [1, 0]])
    truth = Data(x=torch.tensor([[1.0], [0.0]]), edge_index=pair)  # both frequencies alike: log 2
    answers = Answers("made", [truth, truth], [np.ones((2, 1), bool)] * 2, np.ones(1), np.zeros(1), [truth, truth])
    smooth = np.ones((2, 1), dtype=np.float32)  # the lowest frequency alone: 0
    assert entropy_change([smooth, smooth], answers) == pytest.approx(-1.0)
    assert entropy_change([smooth, truth.x.numpy()], answers) == pytest.approx(-0.5)


def test_columns_of_zeros_have_no_entropy_to_change():
    pair = torch.tensor([[0, 1], [1, 0]])
    truth = Data(x=torch.tensor([[1.0, 0.0], [0.0, 0.0]]), edge_index=pair)
    answers = Answers("made", [truth, truth], [np.ones((2, 2), bool)] * 2, np.ones(2), np.zeros(2), [truth, truth])
    faint = np.array([[1.0, 1e-6], [0.0, 0.0]], dtype=np.float32)
    assert entropy_change([faint, faint], answers) == 0


def test_nodes_are_drawn_anew_for_each_seed(monkeypatch):
    _, answers = pose("made", labelled_graph(monkeypatch), "mcar", 0.3, 0)
    first, again, other = node_parts(answers, 0), node_parts(answers, 0), node_parts(answers, 1)
    assert [len(part) for part in first] == [20, 40, 60]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_nodes_of_one_graph_are_classified_on_filled_features(monkeypatch):
    _, answers = pose("made", labelled_graph(monkeypatch), "mcar", 0.3, 0)
    found = fill_accuracy([answers.test[0].x.numpy()], [], answers, 0, "cpu")
    assert set(found) == {"centred", "row-normalised"}
    assert found["centred"] > 0.9
    noise = np.random.default_rng(1).normal(size=answers.test[0].x.shape).astype(np.float32)
    assert fill_accuracy([noise], [], answers, 0, "cpu")["centred"] < found["centred"]
    monkeypatch.setitem(GCN_SETTINGS, "made", {"learning_rate": 1e-9})
    assert fill_accuracy([answers.test[0].x.numpy()], [], answers, 0, "cpu")["centred"] < found["centred"]


@pytest.mark.slow
def test_whole_graphs_are_classified_on_filled_features():
    graphs = load_digits_graphs()
    graphs = [g for g in graphs if int(g.y) < 2][:150]
    task, answers = pose("digits", graphs, "mcar", 0.3, 0)
    imputer = get_imputer("feature-propagation").fit(task.train)
    filled, beside = ([g.x.numpy() for g in imputer.transform(part)] for part in (task.test, task.validation))
    assert fill_accuracy(filled, beside, answers, 0, "cpu")["centred"] > 0.8


def test_classifiers_of_nodes_refuse_many_graphs():
    task, answers = pose("digits", load_digits_graphs()[:20], "mcar", 0.3, 0)
    with pytest.raises(ValueError, match="classifies the nodes of one graph"):
        holes_accuracy("gcn", {}, task, answers, 0, "cpu")


def test_a_classifier_for_features_as_they_are_is_trained_once(monkeypatch):
    prepared = []

    class Spy:
        features = "as-is"

        def __init__(self, features="as-is", random_state=None, device=None):
            prepared.append(features)

        def fit(self, *_):
            return self

        def accuracy(self, *_):
            return 0.25 * len(prepared)

    task, answers = pose("made", labelled_graph(monkeypatch), "mcar", 0.3, 0)
    monkeypatch.setitem(extras.CLASSIFIERS, "spy", Spy)
    own = holes_accuracy("spy", {}, task, answers, 0, "cpu")
    assert prepared == ["as-is", "as-is"]  # once to ask what it takes
    assert own == {"centred": 0.5, "row-normalised": 0.5}
    monkeypatch.setattr(Spy, "features", "centred")
    prepared.clear()
    both = holes_accuracy("spy", {}, task, answers, 0, "cpu")
    assert prepared[1:] == ["centred", "row-normalised"]
    assert both == {"centred": 0.5, "row-normalised": 0.75}


@pytest.mark.filterwarnings("ignore")
def test_spectra_of_input_latent_code_and_output():
    graphs = load_digits_graphs()[:30]
    task, answers = pose("digits", graphs, "mcar", 0.3, 0)
    imputer = get_imputer("megae", max_steps=2, hidden=8, diagnose=False, random_state=0).fit(task.train)
    filled = [g.x.numpy() for g in imputer.transform(task.test)]
    found = spectra(imputer, task, answers, filled)
    for stage in ("truth", "input", "latent", "output"):
        assert len(found[stage]) == len(found["edges"]) - 1
        assert sum(found[stage]) == pytest.approx(1.0)
    one = np.mean([np.mean(spectral_entropy(g.x.numpy() / answers.span, g.edge_index)) for g in answers.test])
    assert found["entropy"]["truth"] == pytest.approx(one, rel=1e-4)
    with pytest.raises(ValueError, match="no latent code"):
        spectra(get_imputer("mean"), task, answers, filled)


@pytest.mark.filterwarnings("ignore")
def test_a_graph_autoencoder_has_a_latent_code_for_every_node():
    graphs = load_digits_graphs()[:30]
    imputer = get_imputer("vgae", max_steps=2, latent=5, random_state=0).fit(graphs)
    codes = imputer.latent_codes(graphs[:3])
    assert [code.shape for code in codes] == [(64, 5)] * 3
    assert not np.array_equal(codes[0], codes[1])

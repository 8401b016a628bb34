"""What is measured beside the error: classification on filled features, and what filling does to graph spectra."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from megae.bench.protocol import Answers, Task, seed_of
from megae.downstream import CLASSIFIERS, GCN_SETTINGS, NODE_PROTOCOLS, GCNClassifier, GraphClassifier, node_split
from megae.graphs import adjacency
from megae.imputers import GraphImputer
from megae.report.spectrum import spectral_energies
from megae.spectral import spectral_entropy

PREPARED = {"centred": "standardised", "row-normalised": "row-normalised"}
"""What an accuracy is filed under -> how features of whole graphs are prepared.

Features of nodes are prepared as the name says. Columns of whole graphs are in different units: those filed under
"centred" are standardised, and rows are not scaled.
"""

LARGEST = 3000
"""Graphs of more nodes are left out of the entropy: it takes an eigendecomposition."""


def fill_accuracy(
    filled: Sequence[np.ndarray], validation: Sequence[np.ndarray], answers: Answers, seed: int, device: str
) -> dict[str, float]:
    """Accuracy of a two-layer GCN on filled features, by the way they are prepared, see ``PREPARED``.

    Many graphs: trained on the complete training graphs, chosen on the filled validation graphs, tested on the filled
    test graphs. One graph: trained, chosen and tested on its nodes, all filled.

    Parameters
    ----------
    filled, validation : ndarrays of shape (N_i, D)
        Test graphs and, where there are many, validation graphs.
    seed : the trial's; decides the nodes to train on, and the weights
    """
    if answers.single:
        graph = _with(answers.whole[0], filled[0])
        train, chosen_on, test = node_parts(answers, seed)
        settings = {"random_state": seed, "device": device, **GCN_SETTINGS.get(answers.dataset, {})}
        return {
            how: GCNClassifier(features=how, **settings).fit(graph, train, chosen_on).accuracy(graph, test)
            for how in PREPARED
        }
    complete = [answers.whole[i] for i in answers.parts[0]]
    beside = [_with(g, x) for g, x in zip(answers.validation, validation, strict=True)]
    tested = [_with(g, x) for g, x in zip(answers.test, filled, strict=True)]
    return {
        name: GraphClassifier(features=how, random_state=seed, device=device).fit(complete, beside).accuracy(tested)
        for name, how in PREPARED.items()
    }


def holes_accuracy(
    method: str, settings: Mapping[str, Any], task: Task, answers: Answers, seed: int, device: str
) -> dict[str, float]:
    """Accuracy of a classifier that takes features with holes, on the same nodes as the filled ones.

    One that was made for features of its own kind, such as GCNMF for those as they are, has one accuracy for both ways.
    """
    if not answers.single:
        raise ValueError(f"{method} classifies the nodes of one graph; {answers.dataset} has many")
    graph = _with(answers.whole[0], task.test[0].x.numpy())
    train, chosen_on, test = node_parts(answers, seed)
    own = settings.get("features", CLASSIFIERS[method]().features)
    one_way = "features" in settings or own not in PREPARED
    found = {}
    for how in (own,) if one_way else PREPARED:
        classifier = CLASSIFIERS[method](**{"random_state": seed, "device": device, **settings, "features": how})
        found[how] = classifier.fit(graph, train, chosen_on).accuracy(graph, test)
    return dict.fromkeys(PREPARED, found[own]) if one_way else found


def node_parts(answers: Answers, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test nodes of one graph, new for each seed."""
    if answers.dataset not in NODE_PROTOCOLS:
        raise ValueError(f"no split of nodes is known for {answers.dataset}")
    protocol = NODE_PROTOCOLS[answers.dataset]
    return node_split(answers.whole[0].y, **protocol, random_state=seed_of(answers.dataset, seed, "nodes"))


def _with(graph: Data, x: np.ndarray) -> Data:
    """The graph, label and all, with these attributes."""
    return Data(x=torch.from_numpy(np.asarray(x)), edge_index=graph.edge_index, y=graph.y)


def entropy_change(filled: Sequence[np.ndarray], answers: Answers) -> float | None:
    r"""Relative change of the graph spectral entropy from the true to the filled test graphs.

    .. math:: \Delta = \frac{\sum_G \sum_j \xi_s(\hat x_j, L_G)}{\sum_G \sum_j \xi_s(x_j, L_G)} - 1

    over test graphs G of at most ``LARGEST`` nodes and their columns j that are not zero throughout: the entropy does
    not see how large a signal is, so the faintest fill of such a column would count as a full spectrum.

    Parameters
    ----------
    filled : ndarrays of shape (N_i, D)
    """
    before = after = 0.0
    for values, graph in zip(filled, answers.test, strict=True):
        n = len(values)
        if n > LARGEST:
            continue
        alive = graph.x.numpy().any(axis=0)
        if not alive.any():
            continue
        both = np.concatenate([graph.x.numpy()[:, alive], values[:, alive]], axis=1).astype(np.float64)
        entropies = np.asarray(spectral_entropy(both, adjacency(graph, n)))
        before, after = before + float(entropies[: alive.sum()].sum()), after + float(entropies[alive.sum() :].sum())
    return after / before - 1.0 if before > 0 else None


def spectra(imputer: GraphImputer, task: Task, answers: Answers, filled: Sequence[np.ndarray]) -> dict[str, Any]:
    """Where on the spectrum [0, 2] energy lies: in the input, the latent code and the output of an autoencoder.

    Shares of energy are averaged over columns (dimensions of the code) and test graphs of at most ``LARGEST`` nodes.
    The input has zeros in its holes, as the network sees it; attributes are divided by their training range.

    Returns
    -------
    dict
        ``edges`` (B + 1,); ``truth``, ``input``, ``latent`` and ``output`` (B,), shares that sum to 1; ``entropy``, the
        mean graph spectral entropy of each.
    """
    encode = getattr(imputer, "latent_codes", None)
    if encode is None:
        raise ValueError(f"{type(imputer).__name__} has no latent code to show the spectrum of")
    shares: dict[str, list[np.ndarray]] = {}
    entropies: dict[str, list[float]] = {}
    edges = np.empty(0)
    for shown, graph, values, code in zip(task.test, answers.test, filled, encode(task.test), strict=True):
        if len(values) > LARGEST:
            continue
        A = adjacency(graph, len(values))
        signals = {
            "truth": graph.x.numpy() / answers.span,
            "input": np.nan_to_num(shown.x.numpy()) / answers.span,
            "latent": code,
            "output": values / answers.span,
        }
        for name, signal in signals.items():
            found = spectral_energies(signal, A, exact=True)
            alive = found.shares.sum(axis=0) > 0
            edges = found.edges
            if alive.any():
                shares.setdefault(name, []).append(found.shares[:, alive].mean(axis=1))
                entropies.setdefault(name, []).append(float(np.mean(spectral_entropy(signal[:, alive], A))))
    means = {name: np.mean(rows, axis=0).tolist() for name, rows in shares.items()}
    return {"edges": edges.tolist(), **means, "entropy": {name: float(np.mean(e)) for name, e in entropies.items()}}

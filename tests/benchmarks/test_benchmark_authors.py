"""The authors' approach in ``benchmarks.authors``: its kernels, its network and its clock."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from benchmarks import authors

POLYNOMIALS = [
    lambda s: 1 - s + s**2 / 2 - s**3 / 6 + s**4 / 24,
    lambda s: 3 * (1 - s) + 0.75 * s**2,
    lambda s: 1 + 3 * s - 1.5 * s**2,
    lambda s: 1 + 0.75 * s**2,
    lambda s: 1 + 0.5 * s**2,
]


def graph(n: int, seed: int = 0) -> Data:
    """A random connected graph with five columns."""
    rng = np.random.default_rng(seed)
    path = np.stack([np.arange(n - 1), np.arange(1, n)])
    edges = np.concatenate([path, rng.integers(0, n, (2, n))], axis=1)
    edges = edges[:, edges[0] != edges[1]]
    edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    return Data(x=torch.from_numpy(rng.random((n, 5), dtype=np.float32) + 0.1), edge_index=torch.from_numpy(edges))


def twice_normalised(block: np.ndarray) -> np.ndarray:
    for _ in range(2):
        d = block.sum(axis=1)
        block = block / np.sqrt(np.outer(d, d))
    return block


@pytest.mark.parametrize("make", [authors.filters_as_published, authors.lean_filters])
def test_kernels_against_an_eigendecomposition(make) -> None:
    block = authors.Reference([graph(12)]).blocks[0]
    np.testing.assert_array_equal(np.diag(block), 1.0)
    s, U = np.linalg.eigh(np.eye(12) - twice_normalised(block))
    filters = make(block)
    for m, polynomial in enumerate(POLYNOMIALS):
        exact = (U * polynomial(s)) @ U.T
        np.testing.assert_allclose(filters.forward[m].numpy(), exact, atol=1e-5)
        if m:
            undone = filters.backward[m].double().numpy() @ (exact + 1e-4)
            np.testing.assert_allclose(undone, np.eye(12), atol=1e-4)


def test_published_and_lean_kernels_differ_only_where_the_code_normalises_again() -> None:
    block = authors.Reference([graph(12)]).blocks[0]
    published, lean = authors.filters_as_published(block), authors.lean_filters(block)
    for m in range(1, 5):
        torch.testing.assert_close(published.backward[m], lean.backward[m], rtol=1e-4, atol=1e-4)
    P = twice_normalised(block)
    s, U = np.linalg.eigh(np.eye(12) - P)
    series = (U * (1 + s + s**2 / 2 + s**3 / 6 + s**4 / 24)) @ U.T
    np.testing.assert_allclose(lean.backward[0].numpy(), series, atol=1e-5)


def test_entropy_is_that_of_the_energies_and_no_gradient_passes_the_logarithm() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = [torch.randn(7, 3, generator=generator, requires_grad=True) for _ in range(5)]
    energy = np.stack([Z.detach().numpy() ** 2 for Z in codes]).sum(axis=1)
    q = energy / energy.sum(axis=0)
    exact = -(q * np.log(q)).sum(axis=0).mean()
    gradients = []
    for entropy in (authors.entropy_as_published, authors.lean_entropy):
        value = entropy(codes)
        assert float(value.detach()) == pytest.approx(exact, abs=1e-4)
        gradients.append(torch.autograd.grad(value, codes)[0])
    torch.testing.assert_close(*gradients)


def test_rows_are_divided_by_their_maximum() -> None:
    np.testing.assert_array_equal(authors.scaled(np.array([[1.0, 4.0], [0.0, 0.0]])), [[0.25, 1.0], [0.0, 0.0]])


def test_the_loader_pads_and_the_versions_take_the_same_steps() -> None:
    graphs = [graph(n, seed=n) for n in (6, 9)]
    item = authors.PaddedGraphs(authors.Reference(graphs).blocks, authors.Reference(graphs).attributes)[1]
    assert item["adj"].shape == (1000, 1000)
    assert item["adj"][9:].sum() == 0
    assert item["upper"].size == 1000 * 1001 // 2
    losses = {version: authors.Reference(graphs, seed=3).epoch(version) for version in authors.VERSIONS}
    assert losses["code"] == pytest.approx(losses["unpadded"], rel=1e-5)


def test_the_reference_learns() -> None:
    reference = authors.Reference([graph(10, seed=s) for s in range(4)], seed=0)
    losses = [reference.epoch("lean") for _ in range(40)]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.05


def test_a_stratified_subset_holds_every_size() -> None:
    sizes = np.arange(100)[::-1].copy()
    chosen = authors.stratified(sizes, 10, seed=0)
    np.testing.assert_array_equal(sizes[chosen] // 10, np.arange(10))
    np.testing.assert_array_equal(authors.stratified(sizes, 200, seed=0), np.argsort(sizes))


def test_measure_at_a_tiny_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authors, "EPOCHS", {"paper": 3, "default": 2})
    monkeypatch.setattr(authors, "time", SimpleNamespace(perf_counter=itertools.count().__next__))
    found = authors.measure([graph(8, seed=s) for s in range(24)], subset=6, rounds=1)
    assert found["training_graphs"] == 24
    assert found["reference_graphs"] == 6
    assert found["scaled_up"]
    assert set(found["our_threads"]) == {"paper", "default"}
    assert found["our_epochs_timed"] == {"default": 1, "paper": 2}
    seconds = found["seconds_per_epoch"]
    assert set(seconds) == {"code", "unpadded", "lean", "paper", "default"}
    assert min(seconds.values()) > 0
    assert {seconds[version] for version in authors.VERSIONS} == {24 / 6}, "one second for six of 24 graphs"
    ratio = found["times_faster"]["paper"]["code"]
    assert ratio == pytest.approx(seconds["code"] / seconds["paper"])

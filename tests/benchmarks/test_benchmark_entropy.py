"""``benchmarks.entropy``: its graphs and signals, its own route through ``eigh``, and its record."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from benchmarks import entropy
from megae.spectral import TightFrame, entropy_error_bound, normalized_laplacian, spectral_entropy


def test_graphs_are_undirected_and_of_average_degree_ten() -> None:
    A = entropy.random_graph(3000)
    assert (A != A.T).nnz == 0
    assert A.nnz / 3000 == pytest.approx(10, abs=0.2)
    np.testing.assert_array_equal(A.data, 1.0)


def test_signals_are_of_four_kinds() -> None:
    A = entropy.random_graph(2000)
    X = entropy.signals(A, 8)
    assert X.shape == (2000, 8)
    L = normalized_laplacian(A)
    rough = np.einsum("nd,nd->d", X, L @ X) / np.square(X).sum(axis=0)
    assert rough[1] < 0.6 * rough[0]
    assert set(np.unique(X[:, 2])) == {0.0, 1.0}
    assert X[:, 3].mean() == pytest.approx(3, abs=0.2)


def test_the_decomposition_gives_the_spectral_entropy() -> None:
    A = entropy.random_graph(80)
    X = entropy.signals(A, 5)
    found, eigenvalues = entropy.by_eigh(X, A)
    np.testing.assert_allclose(found, spectral_entropy(X, A), atol=1e-10)
    np.testing.assert_allclose(eigenvalues, np.linalg.eigvalsh(normalized_laplacian(A).toarray()), atol=1e-10)


def test_the_exponent_is_the_slope() -> None:
    points = [{"nodes": n, "s": 3e-6 * n**1.5} for n in (10, 100, 1000)]
    assert entropy.exponent(points, "s") == pytest.approx(1.5)


def test_the_command_writes_a_record(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "AT", 120)
    out = tmp_path / "entropy.json"
    command = ["entropy", "--nodes", "60", "120", "150", "--beyond", "400", "800", "--largest-wide", "500"]
    monkeypatch.setattr(sys, "argv", [*command, "--out", str(out)])
    entropy.main()
    record = json.loads(out.read_text())
    points = record["points"]
    assert [(p["nodes"], p["columns"]) for p in points] == [
        *((n, d) for n in (60, 120, 150, 400) for d in (1, 16)),
        (800, 1),
    ]
    for p in points[:6]:
        A = entropy.random_graph(p["nodes"])
        eigenvalues = np.linalg.eigvalsh(normalized_laplacian(A).toarray())
        plain = entropy_error_bound(TightFrame(6, "log"), eigenvalues)
        assert 0 < p["error"] < p["bound"] + p["polynomial_term"]
        assert p["bound"] <= plain + 1e-12
        assert p["times_faster"] == pytest.approx(p["eigh_seconds"] / p["wavelet_seconds"])
    assert all(p["eigh_seconds"] is None and p["wavelet_seconds"] > 0 for p in points[6:])
    speed, error = record["bars"]
    assert speed["measured"] == min(p["times_faster"] for p in points if p["nodes"] == 120)
    assert speed["at_least"] == 100
    assert error["at_most"] == 1
    assert error["met"]

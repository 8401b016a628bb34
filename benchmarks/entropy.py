"""``wavelet_entropy`` against the spectral entropy by ``numpy.linalg.eigh``: time, error, and what bounds the error.

Graphs are random with average degree 10; signals are 1 and 16 columns of four kinds: noise, noise smoothed over the
graph, a few ones among zeros, and noise around a constant. The frame is that of ``MEGAEImputer``, 6 tight kernels,
log-warped, here with polynomials good to 1e-3.

Either side starts from the adjacency. By eigendecomposition: normalised Laplacian, dense, ``eigh``, projection of the
signals, entropy; its result is that of ``spectral_entropy``, and its time hardly depends on the number of columns. By
wavelets: ``wavelet_entropy`` as anyone calls it. The two take turns; over 4,000 nodes the decomposition runs once, and
the wavelets, over in milliseconds, several times right after. The error is the difference of the two entropies, the
largest over all columns; Proposition 2 bounds it by ``entropy_error_bound`` (over distinct eigenvalues) plus
``polynomial_entropy_term``, as polynomials stand for the kernels. Beyond 8,000 nodes there are only times of the
wavelets: at a million, the matrix of eigenvectors alone would take 8 TB.

    python -m benchmarks.entropy
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks.record import RESULTS, bar, write_record
from benchmarks.timing import take_turns
from megae.spectral import (
    TightFrame,
    chebyshev_coefficients,
    distinct_eigenvalues,
    entropy_error_bound,
    normalized_laplacian,
    polynomial_entropy_term,
    wavelet_entropy,
)
from megae.spectral.entropy import eigenspace_energies, entropy_of_energies

DEGREE = 10
COLUMNS = (1, 16)
TOL = 1e-3
AT = 4_000
"""Nodes at which the bar on speed stands."""


def random_graph(n: int, seed: int = 0) -> sp.csr_array:
    """Adjacency (n, n) of about ``DEGREE`` n / 2 edges between nodes drawn alike."""
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, n, (2, n * DEGREE // 2))
    A = sp.csr_array((np.ones(len(i)), (i, j)), shape=(n, n))
    return sp.csr_array(((A + A.T) > 0).astype(np.float64))


def signals(A: sp.csr_array, columns: int, seed: int = 0) -> NDArray[np.float64]:
    """(n, columns), column after column noise, smoothed noise, one node in a hundred, and noise around a constant."""
    n = A.shape[0]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, columns))
    degree = np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1.0)[:, None]
    for _ in range(5):
        X[:, 1::4] = (X[:, 1::4] + (A @ X[:, 1::4]) / degree) / 2
    X[:, 2::4] = X[:, 2::4] > 2.326
    X[0, 2::4] = 1.0
    X[:, 3::4] += 3.0
    return X


def by_eigh(X: NDArray[np.float64], A: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Spectral entropy of every column (D,), and the eigenvalues (N,)."""
    eigenvalues, U = np.linalg.eigh(normalized_laplacian(A).toarray())
    return entropy_of_energies(eigenspace_energies(X, eigenvalues, U)), eigenvalues


def against_eigh(n: int, frame: TightFrame, once: bool) -> list[dict[str, Any]]:
    """Both ways on one graph of n nodes, a point for each number of columns; ``once`` decomposes only once."""
    A = random_graph(n)
    X = signals(A, max(COLUMNS))
    found: dict[str, Any] = {}

    def eigh() -> None:
        start = time.perf_counter()
        found["entropy"], found["eigenvalues"] = by_eigh(X, A)
        found["seconds"] = time.perf_counter() - start

    wavelets = {str(d): (lambda d=d: wavelet_entropy(X[:, :d], A, frame, tol=TOL)) for d in COLUMNS}
    if once:
        eigh()
        seconds = {"eigh": found["seconds"]} | take_turns(wavelets, rounds=5, budget=20)
    else:
        seconds = take_turns({"eigh": eigh} | wavelets, rounds=5, budget=5)
    spectrum = distinct_eigenvalues(found["eigenvalues"])
    C = chebyshev_coefficients(frame, tol=TOL)
    bound, term = entropy_error_bound(frame, spectrum), polynomial_entropy_term(frame, C, spectrum)
    points = []
    for d in COLUMNS:
        entropy = np.asarray(wavelet_entropy(X[:, :d], A, frame, tol=TOL))
        error = float(np.abs(found["entropy"][:d] - entropy).max())
        points.append(
            {
                "nodes": n,
                "columns": d,
                "edges": A.nnz // 2,
                "wavelet_seconds": seconds[str(d)],
                "eigh_seconds": seconds["eigh"],
                "times_faster": seconds["eigh"] / seconds[str(d)],
                "error": error,
                "bound": bound,
                "polynomial_term": term,
                "share_of_bound": error / (bound + term),
            }
        )
    return points


def alone(n: int, frame: TightFrame, columns: int) -> dict[str, Any]:
    """Time of the wavelets on a graph of n nodes."""
    A = random_graph(n)
    X = signals(A, columns)
    seconds: list[float] = []
    while len(seconds) < 5 and sum(seconds) < 2:
        start = time.perf_counter()
        wavelet_entropy(X, A, frame, tol=TOL)
        seconds.append(time.perf_counter() - start)
    return {
        "nodes": n,
        "columns": columns,
        "edges": A.nnz // 2,
        "wavelet_seconds": float(np.median(seconds)),
        "eigh_seconds": None,
    }


def exponent(points: list[dict[str, Any]], key: str) -> float:
    """Least-squares slope of log seconds against log nodes."""
    x, y = np.log([p["nodes"] for p in points]), np.log([p[key] for p in points])
    return float(np.polyfit(x, y, 1)[0])


def measure(both: list[int], beyond: list[int], largest_wide: int) -> dict[str, Any]:
    """All points; graphs of over ``largest_wide`` nodes with one column only."""
    frame = TightFrame(6, "log")
    wavelet_entropy(np.ones(2), np.array([[0.0, 1.0], [1.0, 0.0]]), frame, tol=TOL)
    points = []
    for n in both:
        points += against_eigh(n, frame, once=n > AT)
        print(json.dumps(points[-len(COLUMNS) :]), flush=True)
    for n in beyond:
        points += [alone(n, frame, d) for d in COLUMNS if d == 1 or n <= largest_wide]
        print(json.dumps(points[-1]), flush=True)
    decomposed = [p for p in points if p["eigh_seconds"] is not None]
    return {
        "graph": f"random, average degree {DEGREE}",
        "frame": repr(frame),
        "order": chebyshev_coefficients(frame, tol=TOL).shape[1] - 1,
        "tol": TOL,
        "columns": list(COLUMNS),
        "exponents": {
            "wavelet": exponent([p for p in points if p["columns"] == 1], "wavelet_seconds"),
            "eigh": exponent([p for p in decomposed if p["columns"] == 1], "eigh_seconds"),
        },
        "points": points,
    }


def bars(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Speed at ``AT`` nodes, the worse of the numbers of columns; error over bound, the worst of all."""
    slowest = min(p["times_faster"] for p in points if p["nodes"] == AT)
    worst = max(p["share_of_bound"] for p in points if p["eigh_seconds"] is not None)
    return [
        bar(f"wavelet_entropy against eigh at N = {AT:,}: times faster", slowest, at_least=100),
        bar("error of wavelet_entropy as a share of its bound, the largest over all N and columns", worst, at_most=1),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1_000, 2_000, AT, 8_000], help="sizes for both ways")
    parser.add_argument(
        "--beyond", type=int, nargs="*", default=[30_000, 100_000, 300_000, 1_000_000], help="sizes for wavelets alone"
    )
    parser.add_argument("--largest-wide", type=int, default=100_000, help="beyond this many nodes, one column only")
    parser.add_argument("--out", type=Path, default=RESULTS / "entropy.json")
    args = parser.parse_args()
    found = measure(args.nodes, args.beyond, args.largest_wide)
    stand = bars(found["points"]) if AT in args.nodes else []
    write_record(args.out, {**found, "bars": stand})
    print(json.dumps({"exponents": found["exponents"], "bars": stand}, indent=1))


if __name__ == "__main__":
    main()

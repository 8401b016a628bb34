"""The filter on a GPU: 1 M nodes, 10 M edges, 256 columns, degree 10, against the card's own copy bandwidth.

cuSPARSE through torch, the same captured as a CUDA graph, and the Triton filter with several tiles take turns on two
graphs: one whose edges lead anywhere, and one whose neighbours have near numbers, as after Cuthill-McKee. Each is held
against float64 first. Bytes are counted twice: every dense operand of a step once (4 K + 1 operands and K times the
matrix, see ``megae.kernels.gpu``), and with the gathered rows once for each non-zero.

    python -m benchmarks.gpu_filter
    TRITON_INTERPRET=1 python -m benchmarks.gpu_filter --small    # the script itself, anywhere
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from benchmarks.record import RESULTS, bar, write_record
from benchmarks.timing import take_turns
from megae.kernels import FilterOperator, sparse
from megae.spectral import TightFrame, chebyshev_coefficients, normalized_laplacian

BANDS, ORDER, WINDOW = 8, 10, 1000
GRAPHS = ("random", "local")
TILES: dict[str, dict[str, int]] = {
    "triton": {},
    "triton, 1 neighbour": {"neighbours": 1},
    "triton, 4 neighbours": {"neighbours": 4},
    "triton, 8 neighbours": {"neighbours": 8},
    "triton, 2 warps": {"warps": 2},
    "triton, 4 rows, 2 warps": {"rows": 4, "warps": 2},
    "triton, 512 B": {"row_bytes": 512, "resident": 1 << 40},
    "triton, 256 B, 8 rows": {"row_bytes": 256, "rows": 8, "neighbours": 1, "resident": 1 << 40},
    "triton, 128 B, 16 rows": {"row_bytes": 128, "rows": 16, "neighbours": 1},
    "triton, 64 B, 16 rows": {"row_bytes": 64, "rows": 16, "warps": 2},
}
"""What differs from the default tile."""


def graph(kind: str, nodes: int, edges: int) -> sp.csr_array:
    """Normalised Laplacian of about so many edges, most of them different."""
    rng = np.random.default_rng(0)
    i = rng.integers(0, nodes, edges)
    far = rng.integers(1, nodes if kind == "random" else min(WINDOW, nodes), edges)
    A = sp.csr_array((np.ones(edges, np.float32), (i, (i + far) % nodes)), shape=(nodes, nodes))
    return normalized_laplacian(sp.csr_array(A + A.T))


def moved(nodes: int, entries: int, columns: int, steps: int) -> dict[str, int]:
    """Bytes of ``steps`` steps in float32, counted both ways."""
    dense, matrix = 4 * nodes * columns, 8 * entries + 4 * (nodes + 1)
    once = (4 * steps + 1) * dense + steps * matrix
    return {"each_operand_once": once, "gathers_counted": once + steps * (4 * entries * columns - dense)}


def captured(function: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """The same as one CUDA graph; it writes its result to the same place every time."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        function()
    torch.cuda.current_stream().wait_stream(aside)
    recorded = torch.cuda.CUDAGraph()
    with torch.cuda.graph(recorded):
        out = function()

    def replay() -> Tensor:
        recorded.replay()
        return out

    return replay


def with_tile(shape: dict[str, int], operator: FilterOperator, Z: Tensor, C: Tensor) -> Callable[[], Tensor]:
    """The Triton filter with one tile."""
    from megae.kernels import gpu

    def run() -> Tensor:
        token = gpu.tile.set(gpu.Tile(**shape))
        try:
            return gpu.bandwise(operator, Z, C)
        finally:
            gpu.tile.reset(token)

    return run


def copy_bandwidth(megabytes: int, device: torch.device, rounds: int) -> float:
    """Bytes per second that a copy on the device moves, read plus written."""
    source = torch.rand(megabytes << 18, device=device)
    target = torch.empty_like(source)
    cuda = device.type == "cuda"
    seconds = take_turns({"copy": lambda: target.copy_(source)}, rounds, synchronize=cuda)["copy"]
    return 2 * 4 * source.numel() / seconds


def error(out: Tensor, operator: FilterOperator, Z: Tensor, C: Tensor) -> float:
    """Relative to float64, over four columns of the last band."""
    exact = sparse.bandwise(operator.to(dtype=torch.float64), Z[:, -1:, :4].double(), C[-1:].double())
    return float((out[:, -1:, :4] - exact).norm() / exact.norm())


def measure(kind: str, nodes: int, edges: int, columns: int, rounds: int, device: torch.device) -> dict[str, Any]:
    """Seconds and error of every variant on one graph."""
    operator = FilterOperator.from_laplacian(graph(kind, nodes, edges), device=device)
    Z = torch.randn(nodes, BANDS, columns // BANDS, device=device, generator=torch.Generator(device).manual_seed(0))
    C = torch.as_tensor(chebyshev_coefficients(TightFrame(BANDS, "log"), ORDER), dtype=torch.float32, device=device)
    cuda = device.type == "cuda"
    variants = {"torch": lambda: sparse.bandwise(operator, Z, C)}
    if cuda:
        variants["torch, captured"] = captured(variants["torch"])
    if importlib.util.find_spec("triton") and (cuda or os.environ.get("TRITON_INTERPRET") == "1"):
        tiles = TILES if cuda else {name: TILES[name] for name in ("triton", "triton, 512 B")}
        variants |= {name: with_tile(shape, operator, Z, C) for name, shape in tiles.items()}
        if cuda:
            variants["triton, captured"] = captured(variants["triton"])
    errors = {name: error(variant(), operator, Z, C) for name, variant in variants.items()}
    wrong = {name: e for name, e in errors.items() if not e < 1e-4}
    if wrong:
        raise RuntimeError(f"not the filter, by relative error: {wrong}")
    entries = operator.values.numel()
    return {
        "entries": entries,
        "bytes": moved(nodes, entries, columns, ORDER),
        "seconds": take_turns(variants, rounds, synchronize=cuda),
        "errors": errors,
    }


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_filter.json")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--small", action="store_true", help="tiny sizes, on any device: tries the script")
    args = parser.parse_args(argv)
    if not args.small and not torch.cuda.is_available():
        print("gpu_filter needs a CUDA device, and torch sees none; --small tries the script without.", file=sys.stderr)
        raise SystemExit(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    nodes, edges, columns, megabytes = (24, 60, 16, 1) if args.small else (1_000_000, 10_000_000, 256, 4096)
    rounds = 1 if args.small else args.rounds
    copy = copy_bandwidth(megabytes, device, rounds)
    bars, found = [], {}
    for kind in GRAPHS:
        found[kind] = figures = measure(kind, nodes, edges, columns, rounds, device)
        chosen = "triton" if "triton" in figures["seconds"] else "torch"
        figures["share_of_copy"] = {
            name: {way: b / s / copy for way, b in figures["bytes"].items()} for name, s in figures["seconds"].items()
        }
        for name, s in figures["seconds"].items():
            shares = figures["share_of_copy"][name]
            print(f"{kind:8} {name:34} {1e3 * s:10.3f} ms  " + "  ".join(f"{w} {x:.2f}" for w, x in shares.items()))
        for way, share in figures["share_of_copy"][chosen].items():
            what = f"filter on GPU, {kind} graph, share of copy bandwidth, {way.replace('_', ' ')} ({chosen})"
            bars.append(bar(what, share, at_least=0.5))
    sizes = {"nodes": nodes, "edges": edges, "columns": columns, "bands": BANDS, "order": ORDER}
    write_record(args.out, {**sizes, "small": args.small, "copy_bytes_per_second": copy, "graphs": found, "bars": bars})


if __name__ == "__main__":
    main()

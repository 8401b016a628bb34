"""The fused filter on CPU: ENZYMES training graphs times 384 columns (6 bands of 64), K = 10, float32.

Beside it, in the same run: the recurrence alone, without the dense products that small graphs take by themselves, their
matrices made beforehand; the same filter by torch's CSR product; the propagation of PyG's ``ChebConv`` (its own
normalisation and messages, without its weights, the bands' sums left out in its favour); and the dense filters of
:mod:`megae.kernels.blocks`, made beforehand too. How long the matrices take is in the record. PyG takes turns with the
fused filter alone: its messages, 80 MB in each step, would leave the others without warm memory. Bandwidth is that of
the recurrence and counts each dense operand once per step: b_{k+1}, b_{k+2} (overwritten by b_k) and Z; it is compared
with a copy of a large array by all threads. What is counted need not cross memory: the filter keeps tiles in cache, and
its rate can exceed that of the copy.

    python -m benchmarks.filter_cpu
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Batch
from torch_geometric.nn import ChebConv

from benchmarks.record import RESULTS, bar, write_record
from benchmarks.timing import copy_bandwidth, take_turns
from megae.datasets import load, split_indices
from megae.graphs import adjacency
from megae.kernels import FilterOperator, apply, cpu, use_backend
from megae.kernels.small_graphs import small_graphs
from megae.spectral import TightFrame, chebyshev_coefficients, normalized_laplacian

BANDS, WIDTH, ORDER = 6, 64, 10


def chebconv_propagation(conv: ChebConv, edge_index: torch.Tensor, norm: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """T_K(L - I) x as ``ChebConv.forward`` runs it, without its linear maps."""
    previous, current = x, conv.propagate(edge_index, x=x, norm=norm)
    for _ in range(2, ORDER + 1):
        previous, current = current, 2.0 * conv.propagate(edge_index, x=current, norm=norm) - previous
    return current


@contextmanager
def recurrence_alone() -> Iterator[None]:
    """The CPU filter without dense products."""
    before = cpu.small_graphs
    cpu.small_graphs = lambda *_: None  # type: ignore[assignment]
    try:
        yield
    finally:
        cpu.small_graphs = before


def measure(rounds: int = 15, graphs: int | None = None) -> dict[str, Any]:
    """Seconds of each variant, ratios and bandwidth."""
    everything = load("ENZYMES")
    train = [everything[int(i)] for i in split_indices(len(everything), random_state=0)[0]][:graphs]
    batch = Batch.from_data_list(train)
    operator = FilterOperator.from_laplacian(normalized_laplacian(adjacency(batch, batch.num_nodes)))
    n = operator.n
    Z = torch.from_numpy(np.random.default_rng(0).standard_normal((n, BANDS, WIDTH), dtype=np.float32))
    C = torch.as_tensor(chebyshev_coefficients(TightFrame(BANDS, warp="log"), ORDER), dtype=torch.float32)
    conv = ChebConv(1, 1, ORDER + 1, bias=False)
    edge_index, norm = conv.__norm__(batch.edge_index, n, None, "sym", None, torch.float32)
    flat = Z.view(n, -1)

    def by(name: str) -> torch.Tensor:
        with use_backend(name), torch.no_grad():
            return apply(operator, Z, C)

    def by_recurrence() -> torch.Tensor:
        with recurrence_alone():
            return by("numba")

    def matrices() -> None:
        fresh = operator.to(dtype=torch.float32)
        small_graphs(fresh, C.numpy(), WIDTH)

    difference = float((by("numba") - by("torch")).abs().max())
    T_K = apply(operator, flat.unsqueeze(1), np.eye(ORDER + 1)[[ORDER]]).squeeze(1)
    with torch.no_grad():
        against_pyg = float((chebconv_propagation(conv, edge_index, norm, flat) - T_K).abs().max())
    variants = {
        "numba": lambda: by("numba"),
        "numba, recurrence alone": by_recurrence,
        "torch CSR": lambda: by("torch"),
        "dense": lambda: by("dense"),
        "PyG ChebConv": lambda: chebconv_propagation(conv, edge_index, norm, flat),
    }
    with torch.no_grad():
        pyg = take_turns({name: variants[name] for name in ("numba", "PyG ChebConv")}, rounds, budget=60)
        seconds = take_turns({name: f for name, f in variants.items() if name != "PyG ChebConv"}, 2 * rounds, budget=60)
    copy = copy_bandwidth()
    counted = 3 * ORDER * Z.numel() * Z.element_size()
    rate = counted / seconds["numba, recurrence alone"]
    return {
        "nodes": n,
        "non_zeros": operator.values.numel(),
        "columns": BANDS * WIDTH,
        "order": ORDER,
        "seconds": seconds | {"PyG ChebConv": pyg["PyG ChebConv"]},
        "seconds_of_numba_beside_pyg": pyg["numba"],
        "seconds_of_matrices": take_turns({"matrices": matrices}, rounds)["matrices"],
        "largest_difference": {"torch CSR": difference, "PyG ChebConv": against_pyg},
        "copy_bytes_per_second": copy,
        "counted_bytes": counted,
        "counted_bytes_per_second": rate,
        "gflops": 2
        * ORDER
        * (operator.values.numel() + 2 * n)
        * BANDS
        * WIDTH
        / seconds["numba, recurrence alone"]
        / 1e9,
        "bars": [
            bar("CPU filter, times faster than torch CSR", seconds["torch CSR"] / seconds["numba"], at_least=8),
            bar("CPU filter, times faster than PyG ChebConv", pyg["PyG ChebConv"] / pyg["numba"], at_least=4),
            bar("CPU filter, recurrence alone, share of copy bandwidth", rate / copy, at_least=1 / 3),
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / "filter_cpu.json")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    figures = measure(args.rounds)
    write_record(args.out, figures)
    for line in figures["bars"]:
        print(f"{line['what']}: {line['measured']:.2f}")


if __name__ == "__main__":
    main()

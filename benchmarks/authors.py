"""One epoch on PROTEINS_full: MEGAE against the authors' approach, every training graph once, on CPU.

The reference below was written for this benchmark from the published code of the paper (zqgao22/max-entropy-gae). What
that code does with each training graph, in each epoch, batch of one graph:

1.  The loader lays the dense adjacency with self-loops into an array of zeros for 1,000 nodes, the attributes (each row
    divided by its maximum) into another, picks the upper triangle out of the first, which nothing uses, and collates.
2.  The block of the graph is cut out again and normalised, D^-1/2 (A + I) D^-1/2, through scipy, into a dense array.
3.  A kernel function normalises that array a second time, to P, takes S = I - P, and returns a dense polynomial of it:

    g_0 = I - S + S^2/2 - S^3/6 + S^4/24 (heat), g_1 = 3 P + 0.75 S^2, g_2 = I + 3 S - 1.5 S^2, g_3 = I + 0.75 S^2,
    g_4 = I + 0.5 S^2, each power multiplied out anew.
4.  g_1 to g_4 are computed a second time, 1e-4 is added to every entry, and the four are inverted as dense matrices. In
    place of the inverse of g_0 stands the series of exp(S), I + S + S^2/2 + S^3/6 + S^4/24, of the adjacency with
    self-loops added once more, computed twice.
5.  A cell is hidden with probability 0.15, and becomes zero.
6.  Network, phi leaky ReLU: C_m = phi(phi(g_m X W_m) V_m + b) of width 29 for the five bands, band 4 with the V of
    band 3; Z_m = phi(phi(g_m^-1 C_m ...) ...) of widths 20 and 29; the five side by side, linear to 29, phi.
7.  Loss: root of the squared error over all cells divided by the squared number of nodes, minus gamma = 0.15 times the
    entropy of the five bands' energies. The entropy is summed channel by channel in Python, its logarithms taken as
    plain numbers, so that no gradient passes through them.
8.  Backward pass, and one step of Adam (learning rate 1e-3, betas 0.9 and 0.99).

Three versions take turns on the same graphs:

- ``code`` does all of the above; our epoch is compared with it;
- ``unpadded`` is the same without the loader of step 1;
- ``lean`` is how the approach could have been written: no padding, nothing computed twice, powers of S shared, the
  entropy of all channels at once. Five polynomial kernels, four inverses and a step for each graph are left.

A second thread can cost more than it brings on small matrices: the reference runs on one thread or on as many as torch
takes, whichever is faster on a sample of the graphs. The same choice is made for preset ``paper``, by a trial of its
own; preset ``default`` takes all threads. The record says which it was.

Ours is ``MEGAEImputer.fit`` on the same training graphs: an epoch is as many steps as show each graph once (six steps
of a sixth of the graphs), its time that between two entries of ``diagnostics_["history"]``. Nothing is set aside, and
neither side evaluates anything in the measured time. What is done once, before the first epoch, is in no figure.

    MEGAE_DATA=... python -m benchmarks.authors
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.utils import to_dense_adj

from benchmarks.record import RESULTS, bar, write_record
from benchmarks.timing import take_turns
from megae import MEGAEImputer
from megae.datasets import load, split_indices
from megae.imputers.presets import PRESETS

PLACES = 1000
"""Nodes that every adjacency is padded to."""

HIDDEN = 0.15
GAMMA = 0.15
INNER = 20
"""Width between the two layers of a band's decoder."""

EPOCHS = {"paper": 20, "default": 3}
"""Epochs of ours in a round."""

VERSIONS = ("code", "unpadded", "lean")


def normalised(A: np.ndarray) -> np.ndarray:
    """D^-1/2 A D^-1/2 of a dense symmetric (N, N) matrix, by way of scipy."""
    sparse = sp.coo_array(A)
    degree = np.asarray(sparse.sum(axis=1), dtype=np.float64).ravel()
    root = np.zeros_like(degree)
    np.power(degree, -0.5, out=root, where=degree > 0)
    scale = sp.diags_array(root)
    return (scale @ sparse @ scale).toarray()


def kernel(m: int, S: np.ndarray) -> np.ndarray:
    """Polynomial m of a dense S (N, N), each power multiplied out anew; m = -1 is the series that undoes m = 0."""
    I = np.eye(len(S))
    if m == 1:
        return 3 * (I - S) + 0.75 * (S @ S)
    if m == 2:
        return I + 3 * S - 1.5 * (S @ S)
    if m in (3, 4):
        return I + (0.75 if m == 3 else 0.5) * (S @ S)
    sign = -1 if m == 0 else 1
    return I + sign * S + (S @ S) / 2 + sign * (S @ S @ S) / 6 + (S @ S @ S @ S) / 24


@dataclass(frozen=True)
class Filters:
    """Five kernels and what stands for their inverses, all dense.

    Parameters
    ----------
    forward, backward : lists of five Tensors of shape (N, N), float32
    """

    forward: list[Tensor]
    backward: list[Tensor]


def filters_as_published(block: np.ndarray) -> Filters:
    """Steps 2 to 4 as published, from the dense adjacency (N, N) with self-loops."""
    once = normalised(block)
    I = np.eye(len(once))

    def of(m: int) -> np.ndarray:
        return kernel(m, I - normalised(once))

    def undone() -> Tensor:
        return torch.tensor(kernel(-1, I - normalised(once + I))).float()

    forward = [torch.tensor(of(m)).float() for m in range(5)]
    backward = [undone(), *(torch.tensor(np.linalg.inv(of(m) + 1e-4)).float() for m in range(1, 5))]
    undone()
    return Filters(forward, backward)


def lean_filters(block: np.ndarray) -> Filters:
    """The same five kernels and four inverses with nothing computed twice."""
    P = normalised(normalised(block))
    I = np.eye(len(P))
    S = I - P
    S2 = S @ S
    even, odd = I + S2 / 2 + (S2 @ S2) / 24, S + (S2 @ S) / 6
    g = [3 * P + 0.75 * S2, I + 3 * S - 1.5 * S2, I + 0.75 * S2, I + 0.5 * S2]
    forward = [even - odd, *g]
    backward = [even + odd, *(np.linalg.inv(k + 1e-4) for k in g)]
    return Filters(*([torch.from_numpy(k).float() for k in side] for side in (forward, backward)))


class Network(nn.Module):
    """Step 6: (N, D) -> (N, D) and the five latent codes (N, D)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(5))
        self.second = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.third = nn.ModuleList(nn.Linear(width, INNER) for _ in range(5))
        self.fourth = nn.ModuleList(nn.Linear(INNER, width) for _ in range(5))
        self.merge = nn.Linear(5 * width, width)

    def forward(self, x: Tensor, filters: Filters) -> tuple[Tensor, list[Tensor]]:
        codes, bands = [], []
        for m in range(5):
            C = F.leaky_relu(self.first[m](filters.forward[m] @ x))
            codes.append(F.leaky_relu(self.second[min(m, 3)](C)))
        for m in range(5):
            Z = F.leaky_relu(self.third[m](filters.backward[m] @ codes[m]))
            bands.append(F.leaky_relu(self.fourth[m](Z)))
        return F.leaky_relu(self.merge(torch.cat(bands, dim=1))), codes


def entropy_as_published(codes: list[Tensor]) -> Tensor:
    """Step 7's entropy, channel by channel, logarithms as plain numbers."""
    energies = [Z.square().sum(dim=0) for Z in codes]
    total = torch.stack(energies).sum(dim=0)
    shares = [e / total + 1e-6 for e in energies]
    out: Any = 0.0
    for d in range(len(total)):
        for share in shares:
            out = out - share[d] * math.log(share[d].detach())
    return out / len(total)


def lean_entropy(codes: list[Tensor]) -> Tensor:
    """The same number, all channels at once."""
    energies = torch.stack([Z.square().sum(dim=0) for Z in codes])
    shares = energies / energies.sum(dim=0) + 1e-6
    return -(shares * shares.detach().log()).sum(dim=0).mean()


class PaddedGraphs(torch.utils.data.Dataset[dict[str, np.ndarray]]):
    """Step 1: dense graphs, padded when they are asked for."""

    def __init__(self, blocks: Sequence[np.ndarray], attributes: Sequence[np.ndarray]) -> None:
        self.blocks, self.attributes = blocks, attributes

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        block, x = self.blocks[index], self.attributes[index]
        adjacency, features = np.zeros((PLACES, PLACES)), np.zeros((PLACES, x.shape[1]))
        adjacency[: len(block), : len(block)] = block
        features[: len(x)] = x
        upper = adjacency[np.triu(np.ones((PLACES, PLACES))) == 1]
        return {"adj": adjacency, "upper": upper, "features": features}


class Reference:
    """The authors' approach on some graphs.

    Parameters
    ----------
    graphs : sequence of Data, complete
    seed : int
    """

    def __init__(self, graphs: Sequence[Data], seed: int = 0) -> None:
        self.blocks = [to_dense_adj(g.edge_index, max_num_nodes=len(g.x))[0].numpy() for g in graphs]
        self.blocks = [A.astype(np.float64) + np.eye(len(A)) for A in self.blocks]
        self.attributes = [scaled(g.x.numpy().astype(np.float64)) for g in graphs]
        self.rng = np.random.default_rng(seed)
        with torch.random.fork_rng([]):
            torch.default_generator.manual_seed(seed)
            self.network = Network(self.attributes[0].shape[1])
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3, betas=(0.9, 0.99), eps=1e-8)

    def epoch(self, version: str) -> float:
        """One step for each graph; returns the mean loss."""
        if version == "code":
            losses = self._padded()
        else:
            make, entropy = (
                (filters_as_published, entropy_as_published) if version == "unpadded" else (lean_filters, lean_entropy)
            )
            losses = [
                self._step(make(block), torch.from_numpy(x).float(), entropy)
                for block, x in zip(self.blocks, self.attributes, strict=True)
            ]
        return float(np.mean(losses))

    def _padded(self) -> list[float]:
        loader = torch.utils.data.DataLoader(PaddedGraphs(self.blocks, self.attributes), batch_size=1)
        losses = []
        for block, item in zip(self.blocks, loader, strict=True):
            n = len(block)
            adjacency, features = item["adj"].float()[0], item["features"].float()[0]
            filters = filters_as_published(adjacency[:n, :n].numpy())
            losses.append(self._step(filters, features[:n], entropy_as_published))
        return losses

    def _step(self, filters: Filters, x: Tensor, entropy: Callable[[list[Tensor]], Tensor]) -> float:
        seen = torch.from_numpy((self.rng.random(x.shape) >= HIDDEN).astype(np.float32))
        values, codes = self.network(x * seen, filters)
        loss = ((values - x).square().sum() / len(x) ** 2).sqrt() - GAMMA * entropy(codes).abs()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def scaled(x: np.ndarray) -> np.ndarray:
    """Each row (N, D) divided by its maximum; rows whose maximum is 0 become 0."""
    top = x.max(axis=1, keepdims=True)
    return np.divide(x, top, out=np.zeros_like(x), where=top != 0)


def stratified(sizes: np.ndarray, count: int, seed: int) -> np.ndarray:
    """One graph out of each of ``count`` equally large groups of graphs of like size, positions ascending by size."""
    rng = np.random.default_rng(seed)
    order = np.argsort(sizes, kind="stable")
    return np.array([rng.choice(group) for group in np.array_split(order, min(count, len(order)))])


def our_epochs(graphs: list[Data], preset: str, epochs: int, threads: int) -> list[float]:
    """Seconds of each epoch of a fit but the first, which also warms up."""
    steps = round(1 / PRESETS[preset]["batch_fraction"])
    imputer = MEGAEImputer(
        preset=preset,
        max_steps=epochs * steps,
        validation_fraction=0.0,
        calibration_fraction=0.0,
        diagnose=False,
        n_jobs=threads,
        random_state=0,
        device="cpu",
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="too few observed cells")
        imputer.fit(graphs)
    at = {entry["step"]: entry["seconds"] for entry in imputer.diagnostics_["history"]}
    return [at[step] - at[step - steps] for step in range(2 * steps, epochs * steps + 1, steps)]


@contextlib.contextmanager
def limited(threads: int) -> Iterator[None]:
    """Run torch and the linear algebra under numpy on so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def best_threads(graphs: Sequence[Data]) -> int:
    """One thread or all of torch's, whichever runs the published code faster on these graphs."""
    reference, everything = Reference(graphs), torch.get_num_threads()
    seconds = {}
    for threads in (everything, 1):
        with limited(threads):
            seconds[threads] = take_turns({"code": lambda: reference.epoch("code")}, rounds=2)["code"]
    return min(seconds, key=lambda threads: seconds[threads])


def measure(graphs: list[Data], subset: int | None, rounds: int) -> dict[str, Any]:
    """All versions and both presets in turn; the reference on ``subset`` graphs, or on all of them."""
    sizes = np.array([len(g.x) for g in graphs])
    chosen = np.arange(len(graphs)) if subset is None else stratified(sizes, subset, seed=0)
    sample = [graphs[i] for i in stratified(sizes, 30, seed=1)]
    threads = best_threads(sample)
    everything = torch.get_num_threads()
    trial = {n: np.median(our_epochs(graphs, "paper", EPOCHS["paper"], n)) for n in (everything, 1)}
    our_threads = {"paper": min(trial, key=lambda n: trial[n]), "default": everything}
    reference = Reference([graphs[i] for i in chosen])
    theirs: dict[str, list[float]] = {version: [] for version in VERSIONS}
    ours: dict[str, list[float]] = {preset: [] for preset in PRESETS}
    for _ in range(rounds):
        for version, found in theirs.items():
            with limited(threads):
                start = time.perf_counter()
                reference.epoch(version)
                found.append((time.perf_counter() - start) * len(graphs) / len(chosen))
        for preset, found in ours.items():
            found += our_epochs(graphs, preset, EPOCHS[preset], our_threads[preset])
    seconds = {name: float(np.median(found)) for name, found in (theirs | ours).items()}
    return {
        "training_graphs": len(graphs),
        "nodes": int(sizes.sum()),
        "largest_graph": int(sizes.max()),
        "reference_graphs": len(chosen),
        "scaled_up": len(chosen) < len(graphs),
        "reference_threads": threads,
        "our_threads": our_threads,
        "rounds": rounds,
        "our_epochs_timed": {preset: len(found) for preset, found in ours.items()},
        "seconds_per_epoch": seconds,
        "times_faster": {
            preset: {version: seconds[version] / seconds[preset] for version in VERSIONS} for preset in PRESETS
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--subset", type=int, help="graphs for the reference, one of each size group; all by default")
    parser.add_argument("--out", type=Path, default=RESULTS / "authors.json")
    args = parser.parse_args()
    graphs = load("PROTEINS_full")
    train = split_indices(len(graphs), random_state=0)[0]
    found = measure([graphs[i] for i in train], args.subset, args.rounds)
    what = "an epoch on PROTEINS_full on CPU, preset paper, against the authors' code: times faster"
    bars = [bar(what, found["times_faster"]["paper"]["code"], at_least=50)]
    write_record(args.out, {"dataset": "PROTEINS_full", **found, "bars": bars})
    print(json.dumps({**found, "bars": bars}, indent=1))


if __name__ == "__main__":
    main()

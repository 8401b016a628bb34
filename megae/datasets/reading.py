"""From files to graphs: the reader of each layout, then the largest component or the sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import LargestConnectedComponents

from megae.datasets.amazon import read_npz_graph
from megae.datasets.digits import load_digits_graphs
from megae.datasets.facts import Counts, Entry, Variant
from megae.datasets.planetoid import read_planetoid
from megae.datasets.tu import read_tu_zip

__all__ = ["count", "read_whole", "reduce"]


def read_whole(entry: Entry, variant: Variant, folder: Path) -> list[Data]:
    """All graphs that the files of a variant hold, whole."""
    if entry.layout == "embedded":
        return load_digits_graphs()
    path = folder / variant.files[0].name
    if entry.layout == "tu":
        return read_tu_zip(path, entry.prefix)
    if entry.layout == "npz":
        return [read_npz_graph(path)]
    return [read_planetoid(folder, entry.prefix, largest_component=False)]


def reduce(entry: Entry, variant: Variant, graphs: list[Data]) -> list[Data]:
    """What :func:`megae.datasets.load` returns of them: the largest component, or a fixed sample of graphs."""
    if entry.single:
        return [LargestConnectedComponents()(graph) for graph in graphs]
    if variant.sample is not None and len(graphs) > variant.sample:
        chosen = np.random.default_rng(0).permutation(len(graphs))[: variant.sample]
        return [graphs[k] for k in chosen]
    return graphs


def count(graphs: list[Data]) -> Counts:
    """Count what the graphs hold; edges are undirected, so half the columns of ``edge_index``.

    Examples
    --------
    >>> count(load_digits_graphs()).edges == 1797 * 112
    True
    """
    low = min(float(graph.x.min()) for graph in graphs)
    high = max(float(graph.x.max()) for graph in graphs)
    labels = [graph.y for graph in graphs if graph.y is not None and graph.y.dim() == 1]
    whole = bool(labels) and not labels[0].is_floating_point()
    return Counts(
        graphs=len(graphs),
        nodes=sum(len(graph.x) for graph in graphs),
        edges=sum(graph.edge_index.shape[1] for graph in graphs) // 2,
        features=graphs[0].x.shape[1],
        classes=int((torch.cat(labels).unique() >= 0).sum()) if whole else None,
        low=low,
        high=high,
    )

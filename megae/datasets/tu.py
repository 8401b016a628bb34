"""Sets in the layout of the TUDataset collection: one zip of text files per set."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from torch_geometric.data import Data
from torch_geometric.data.separate import separate
from torch_geometric.io import read_tu_data
from torch_geometric.utils import to_undirected

from megae.datasets.archive import extract_flat

_NEEDED = ("A", "graph_indicator", "node_attributes")
_OPTIONAL = ("graph_labels", "graph_attributes")


def read_tu_zip(path: Path, name: str) -> list[Data]:
    """Read a TUDataset zip: one ``Data`` per graph, ``x`` the node attributes alone, without one-hot node labels.

    Every edge counts once and holds in both directions; self-loops are dropped.

    Parameters
    ----------
    path : path of the zip
    name : str
        Prefix of its members, ``NAME/NAME_A.txt`` and so on.

    Returns
    -------
    list of Data
        ``x`` (N, D) float32, ``edge_index`` (2, 2E), ``y`` (1,) the class from 0, or (1, T) regression targets
        where the zip holds ``NAME_graph_attributes.txt``.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        found = extract_flat(path, folder, {f"{name}_{part}.txt" for part in (*_NEEDED, *_OPTIONAL)})
        lacking = [f"{name}_{part}.txt" for part in _NEEDED if f"{name}_{part}.txt" not in found]
        if len(lacking) == len(_NEEDED):
            raise ValueError(f"{path} holds no {name}_*.txt; it is not the zip of {name}")
        if lacking:
            raise ValueError(f"{path} lacks {', '.join(lacking)}; it is not the whole zip of {name}")
        for file in found:
            _end_last_line(folder / file)
        try:
            data, slices, _ = read_tu_data(str(folder), name)
        except (ValueError, IndexError, RuntimeError, TypeError) as error:
            raise ValueError(f"{path} cannot be read as {name} ({error}); fetch it again") from error
    count = len(slices["x"]) - 1
    _check(path, data, slices, count)
    if len(slices["edge_index"]) < count + 1:  # the last graphs have no edges
        rest = slices["edge_index"][-1:].expand(count + 1 - len(slices["edge_index"]))
        slices["edge_index"] = torch.cat([slices["edge_index"], rest])
    graphs = []
    for k in range(count):
        graph = separate(Data, data, k, slices, decrement=False)
        edge_index = to_undirected(graph.edge_index, num_nodes=len(graph.x))
        graphs.append(Data(x=graph.x.clone(), edge_index=edge_index, y=graph.y))
    return graphs


def _end_last_line(path: Path) -> None:
    """PyG's reader drops what follows the last line end."""
    with path.open("r+b") as file:
        if file.seek(0, 2) == 0:
            return
        file.seek(-1, 2)
        if file.read(1) != b"\n":
            file.write(b"\n")


def _check(path: Path, data: Data, slices: dict[str, torch.Tensor], count: int) -> None:
    if data.x is None or len(data.x) != int(slices["x"][-1]):
        rows = 0 if data.x is None else len(data.x)
        raise ValueError(f"{path}: {rows} rows of attributes for {int(slices['x'][-1])} nodes; fetch it again")
    if data.y is not None and len(data.y) != count:
        raise ValueError(f"{path}: {len(data.y)} labels for {count} graphs; fetch it again")
    sizes = slices["x"].diff()
    if data.edge_index is None or data.edge_index.numel() == 0:
        return
    cuts = slices["edge_index"]
    owner = torch.repeat_interleave(torch.arange(len(cuts) - 1), cuts.diff())
    if (data.edge_index < 0).any() or (data.edge_index >= sizes[owner]).any():
        raise ValueError(f"{path}: an edge joins two graphs, or the nodes are not in order of their graphs")

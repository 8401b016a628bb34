"""Sets in the layout of the TUDataset collection: one zip of text files per set."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from torch_geometric.data import Data
from torch_geometric.data.separate import separate
from torch_geometric.io import read_tu_data


def read_tu_zip(path: Path, name: str) -> list[Data]:
    """Read a TUDataset zip: one ``Data`` per graph, ``x`` the node attributes alone, without one-hot node labels.

    Duplicate edges count once and self-loops are dropped.

    Parameters
    ----------
    path : path of the zip
    name : str
        Prefix of its members, ``NAME/NAME_A.txt`` and so on.
    """
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.namelist() if Path(m).name.startswith(f"{name}_") and m.endswith(".txt")]
            if not members:
                raise ValueError(f"{path} holds no {name}_*.txt; it is not the zip of {name}")
            for member in members:
                (Path(folder) / Path(member).name).write_bytes(archive.read(member))
        data, slices, sizes = read_tu_data(folder, name)
    columns = sizes["num_node_attributes"]
    graphs = []
    for k in range(len(slices["x"]) - 1):
        graph = separate(Data, data, k, slices, decrement=False)
        graphs.append(Data(x=graph.x[:, :columns].clone(), edge_index=graph.edge_index, y=graph.y))
    return graphs

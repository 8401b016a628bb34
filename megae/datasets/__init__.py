"""Datasets by name.

- ``digits``: 1,797 handwritten digits as 8x8 grid graphs, embedded in scikit-learn.
- ``ENZYMES``: 600 proteins, from the official zip.
- ``Cora``: the citation network, largest component, from the official ``ind.*`` files.

:func:`load` fetches one by name, :func:`split_indices` divides its graphs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from torch_geometric.data import Data

from megae.datasets.digits import load_digits_graphs
from megae.datasets.planetoid import read_planetoid
from megae.datasets.split import split_indices
from megae.datasets.tu import read_tu_zip

__all__ = ["load", "load_digits_graphs", "names", "split_indices"]

_EMBEDDED: dict[str, Callable[[], list[Data]]] = {"digits": load_digits_graphs}
_TU = {"ENZYMES": "ENZYMES/ENZYMES.zip"}
_PLANETOID = {"Cora": "cora"}


def names() -> list[str]:
    """Return the names :func:`load` knows, sorted."""
    return sorted([*_EMBEDDED, *_TU, *_PLANETOID])


def load(name: str, root: str | os.PathLike[str] | None = None) -> list[Data]:
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    root : path, optional
        Folder that holds the datasets, one folder each; falls back to the environment variable ``MEGAE_DATA``.
        Embedded datasets are found without it.

    Returns
    -------
    list of torch_geometric.data.Data
        The graphs of the dataset, complete (no NaN).

    Examples
    --------
    >>> from megae.datasets import load
    >>> len(load("digits"))
    1797
    """
    if root is not None and not Path(root).is_dir():
        raise FileNotFoundError(f"root {os.fspath(root)!r} is not a folder; pass the one that holds the datasets")
    if name not in names():
        raise ValueError(f"unknown dataset {name!r}; known: {', '.join(names())}")
    if name in _EMBEDDED:
        return _EMBEDDED[name]()
    folder = _folder(name, root)
    if name in _TU:
        return read_tu_zip(folder / Path(_TU[name]).name, name)
    return [read_planetoid(folder, _PLANETOID[name])]


def _folder(name: str, root: str | os.PathLike[str] | None) -> Path:
    base = root or os.environ.get("MEGAE_DATA")
    wanted = "ind.*" if name in _PLANETOID else _TU[name]
    if not base:
        raise FileNotFoundError(
            f"{name} is not embedded: put its official file ({wanted}) into a folder {name}/ and name the folder above "
            "it in the environment variable MEGAE_DATA, or pass it as root"
        )
    folder = Path(base) / name
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not there; put the official file of {name} ({wanted}) into it")
    return folder

"""Datasets by name.

- ``digits``: 1,797 handwritten digits as 8x8 grid graphs, embedded in scikit-learn.

:func:`load` fetches one by name, :func:`split_indices` divides its graphs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from torch_geometric.data import Data

from megae.datasets.digits import load_digits_graphs
from megae.datasets.split import split_indices

__all__ = ["load", "load_digits_graphs", "names", "split_indices"]

_EMBEDDED: dict[str, Callable[[], list[Data]]] = {"digits": load_digits_graphs}


def names() -> list[str]:
    """Return the names :func:`load` knows, sorted."""
    return sorted(_EMBEDDED)


def load(name: str, root: str | os.PathLike[str] | None = None) -> list[Data]:
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    root : path, optional
        Folder that holds downloaded datasets. Embedded datasets are found without it.

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
        raise FileNotFoundError(
            f"root {os.fspath(root)!r} is not a folder; pass the one that holds the datasets"
        )
    if name not in _EMBEDDED:
        raise ValueError(f"unknown dataset {name!r}; known: {', '.join(names())}")
    return _EMBEDDED[name]()

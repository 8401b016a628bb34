"""Datasets by name: the embedded digits and the ten sets of the paper.

- ``digits``: 1,797 handwritten digits as 8x8 grid graphs, embedded in scikit-learn.
- many graphs: ``ENZYMES``, ``PROTEINS_full``, ``QM9``, ``Synthie``, ``FRANKENSTEIN``, ``FIRSTMM_DB``, from the
  official zips.
- one graph, its largest component: ``Cora``, ``Citeseer``, ``Pubmed`` from the official ``ind.*`` files, ``AmaPhoto``
  from the official npz.

:func:`load` reads one by name, :func:`split_indices` divides its graphs. :mod:`megae.datasets.catalogue` holds what is
known of each, :func:`check` compares it with that and with the paper, :func:`fetch` downloads it.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch_geometric.data import Data

from megae.datasets.catalogue import CATALOGUE
from megae.datasets.checking import Finding, check
from megae.datasets.digits import load_digits_graphs
from megae.datasets.facts import Entry
from megae.datasets.fetching import fetch
from megae.datasets.places import absent, folders, locate, offline
from megae.datasets.reading import read_whole, reduce
from megae.datasets.split import split_indices

__all__ = [
    "CATALOGUE",
    "Entry",
    "Finding",
    "check",
    "entry",
    "fetch",
    "load",
    "load_digits_graphs",
    "locate",
    "names",
    "split_indices",
]


def names() -> list[str]:
    """Return the names :func:`load` knows, sorted."""
    return sorted(CATALOGUE)


def entry(name: str) -> Entry:
    """Return what the catalogue holds of a set."""
    if name not in CATALOGUE:
        raise ValueError(f"unknown dataset {name!r}; known: {', '.join(names())}")
    return CATALOGUE[name]


def load(name: str, root: str | os.PathLike[str] | None = None, *, download: bool | None = None) -> list[Data]:
    """Load a dataset by name.

    Parameters
    ----------
    name : str
        One of :func:`names`.
    root : path, optional
        Folder that holds the datasets, one folder each. Without it: the environment variable ``MEGAE_DATA``, then
        the user cache. Embedded datasets are found without it.
    download : bool, optional
        Whether to download the official files where they are missing, into `root` if given, else into the user
        cache. Without it: yes, unless the environment variable ``MEGAE_OFFLINE`` is set, under which nothing is
        downloaded in any case.

    Returns
    -------
    list of torch_geometric.data.Data
        The graphs of the dataset, complete (no NaN): ``x`` (N, D) float32, ``edge_index`` (2, 2E) in both
        directions without self-loops, ``y`` (1,) the class of a graph, (1, T) its targets or (N,) the classes of
        its nodes.

    Examples
    --------
    >>> from megae.datasets import load
    >>> len(load("digits"))
    1797
    """
    known = entry(name)
    if root is not None:
        folders(root)
    if known.layout == "embedded":
        return read_whole(known, known.variants[0], Path())
    if download is None:
        download = not offline()
    found = locate(known, root)
    if found is None and download:
        fetch(known, root)
        found = locate(known, root)
    if found is None:
        raise FileNotFoundError(absent(known, root))
    folder, variant = found
    return reduce(known, variant, read_whole(known, variant, folder))

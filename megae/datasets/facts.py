"""The shape of a catalogue entry: what is known of a set before its files are read."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Counts", "Entry", "File", "PaperCounts", "Variant"]


@dataclass(frozen=True)
class File:
    """One official file.

    Parameters
    ----------
    name : str
        Its name in the folder of the set.
    url : str or None
        Where it is published; None where it cannot be downloaded.
    sha256 : tuple of (digest, what) pairs
        Bytes known to be good, and which copy they are.
    pinned : bool
        Whether these digests are those of the official file itself, so that other bytes are refused. Where they are
        not, a file with other bytes is accepted on its counts.
    """

    name: str
    url: str | None
    sha256: tuple[tuple[str, str], ...] = ()
    pinned: bool = False


@dataclass(frozen=True)
class Counts:
    """What a list of graphs holds: totals over all graphs; None where it is not known.

    Edges are undirected, once each, without self-loops.
    """

    graphs: int | None = None
    nodes: int | None = None
    edges: int | None = None
    features: int | None = None
    classes: int | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PaperCounts:
    """A row of the paper's Table 6 (means per graph, rounded) or Table 7 (totals of one graph)."""

    table: str
    graphs: int
    nodes: int
    edges: int
    features: int
    classes: int | None = None


@dataclass(frozen=True)
class Variant:
    """One set of files from which a dataset can be read.

    Parameters
    ----------
    files : tuple of File
        All are needed.
    whole : Counts
        What the files hold.
    counts : Counts
        What :func:`megae.datasets.load` returns: the largest component, or a sample, where one is taken.
    sample : int or None
        How many graphs are drawn from the file.
    """

    files: tuple[File, ...]
    whole: Counts
    counts: Counts
    sample: int | None = None

    @property
    def downloadable(self) -> bool:
        """Whether there are files and every one has an address."""
        return bool(self.files) and all(file.url for file in self.files)


@dataclass(frozen=True)
class Entry:
    """A set of the catalogue.

    Parameters
    ----------
    name : str
        Its name for :func:`megae.datasets.load`, and the name of its folder.
    layout : "embedded", "tu", "planetoid" or "npz"
        How its files are read.
    prefix : str
        How names inside the files begin.
    variants : tuple of Variant
        Where more than one is there, the first is read.
    paper : PaperCounts or None
        What the paper says of it.
    notes : tuple of str
        What a loader or an evaluation must know.
    differences : tuple of str
        Where it differs from what the paper says, and why.

    Examples
    --------
    >>> from megae.datasets.catalogue import CATALOGUE
    >>> CATALOGUE["Cora"].paper.nodes, CATALOGUE["Cora"].variants[0].whole.nodes
    (2485, 2708)
    """

    name: str
    layout: str
    prefix: str
    about: str
    variants: tuple[Variant, ...] = ()
    paper: PaperCounts | None = None
    notes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def single(self) -> bool:
        """Whether it is one graph, of which the largest component is taken."""
        return self.layout in ("planetoid", "npz")

    @property
    def official(self) -> Variant | None:
        """The files as published, where they can be downloaded."""
        return next((v for v in self.variants if v.downloadable), None)

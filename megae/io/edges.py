"""Edge lists: which node is joined to which, and how strongly.

An edge file has a header. Its endpoints are the columns named source and target (or from/to, src/dst,
u/v, node1/node2, in any case), or else the first two. The weight is the column named weight, or else the
third column if it holds numbers, which is said unless its name speaks of a weight, or else 1 for every edge.
A larger weight joins two nodes more closely. Edges have no direction: `a,b` and `b,a` are one edge, and an
edge that is listed several times counts once, with its largest weight. Self-loops and edges of weight 0 are
left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from megae.io.columns import classify, is_hole
from megae.io.document import Document, RawColumn
from megae.io.errors import InputError
from megae.io.large import LargeCells
from megae.io.texts import first_empty, positions

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["EdgeCounts", "EdgeList", "adjacency", "check_weights", "edges_of", "label", "labels_of", "without_zeros"]

_PAIRS = (("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2"))
_CLOSER = ("weight", "weights", "w", "similarity")
_LOG = logging.getLogger(__name__)


@dataclass
class EdgeList:
    """Edges as written: endpoints as node ids (or as row numbers from 0, if `positional`), weights
    (E,) or None."""

    path: Path
    source: Sequence[str]
    target: Sequence[str]
    weight: np.ndarray | None
    where: Callable[[int], str]
    positional: bool = False
    notes: list[str] = field(default_factory=list)
    header: tuple[str, str] | None = None
    _matched: tuple[Sequence[str], tuple[np.ndarray, np.ndarray]] | None = field(default=None, init=False, repr=False)

    def rows(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Where the endpoints stand among ``ids``: int64 (E,) each, -1 for those that are not there.

        The answer for the ids asked for last is kept: the search for the column of ids ends with the same question
        that the graph begins with.
        """
        if self._matched is None or self._matched[0] is not ids:
            self._matched = ids, positions(self.source, self.target, ids)
        return self._matched[1]


@dataclass
class EdgeCounts:
    """What became of the edges of a file."""

    listed: int = 0
    kept: int = 0
    unknown_dropped: int = 0
    self_loops: int = 0
    duplicates: int = 0
    zero_weight: int = 0
    weighted: bool = False
    isolated_nodes: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return asdict(self)


def edges_of(document: Document) -> EdgeList:
    """Read the edges a document holds: its own (GraphML, npz), or its rows as a table of edges."""
    if document.edges is not None:
        return document.edges
    columns = document.raw_columns()
    if len(columns) < 2:
        raise InputError(
            f"{document.path} has {len(columns)} column; edges need two, the ids of the two nodes that each edge joins"
        )
    by_name = {c.name.strip().lower(): c for c in reversed(columns)}
    pair = next((p for p in _PAIRS if p[0] in by_name and p[1] in by_name), None)
    source, target = (by_name[pair[0]], by_name[pair[1]]) if pair else (columns[0], columns[1])
    ends = [_endpoints(document, column) for column in (source, target)]
    rest = [c for c in columns if c is not source and c is not target]
    notes: list[str] = []
    weight = _weights(document, rest, notes)
    return EdgeList(
        document.path,
        ends[0],
        ends[1],
        weight,
        document.where,
        notes=notes,
        header=(source.name, target.name),
    )


def adjacency(
    edges: EdgeList, ids: Sequence[str], nodes_path: Path, *, drop_unknown: bool = False, hint: str = ""
) -> tuple[csr_array, EdgeCounts]:
    """Match edges to rows by id.

    Parameters
    ----------
    edges : EdgeList
        E edges.
    ids : sequence of str, length N
        The id of each row of the node table; they differ from each other.
    nodes_path : Path
        The node table, for messages.
    drop_unknown : bool
        Leave out edges of nodes that the table does not have, instead of refusing them.
    hint : str
        What else to say about an unknown node, such as where the ids came from.

    Returns
    -------
    A : scipy.sparse.csr_array of shape (N, N)
        Symmetric weights without diagonal.
    counts : EdgeCounts
        What was merged or left out.
    """
    from scipy.sparse import csr_array

    n = len(ids)
    if edges.positional:
        ids = [str(i) for i in range(n)]
    u, v = edges.rows(ids)
    weight = np.ones(len(u)) if edges.weight is None else edges.weight
    counts = EdgeCounts(listed=len(u), weighted=edges.weight is not None)
    _check_header_is_no_edge(edges, ids)
    unknown = (u < 0) | (v < 0)
    if unknown.any():
        if not drop_unknown:
            e = int(np.flatnonzero(unknown)[0])
            name = edges.source[e] if u[e] < 0 else edges.target[e]
            raise InputError(f"{edges.where(e)}: node {name!r} is not in {nodes_path}{_advice(name, ids)}{hint}")
        counts.unknown_dropped = int(unknown.sum())
    counts.self_loops = int(((u == v) & ~unknown).sum())
    counts.zero_weight = int(((weight == 0) & ~unknown & (u != v)).sum())
    keep = ~unknown & (u != v) & (weight > 0)
    low, high, weight = np.minimum(u, v)[keep], np.maximum(u, v)[keep], weight[keep]
    order = np.lexsort((-weight, low * n + high))
    low, high, weight = low[order], high[order], weight[order]
    first = np.ones(len(low), dtype=bool)
    first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    counts.duplicates = int((~first).sum())
    low, high, weight = low[first], high[first], weight[first]
    counts.kept = len(low)
    A = csr_array((np.r_[weight, weight], (np.r_[low, high], np.r_[high, low])), shape=(n, n), dtype=np.float64)
    counts.isolated_nodes = int((np.diff(A.indptr) == 0).sum())
    return A, counts


def label(value: Any) -> str:
    """A node id as text; whole numbers lose their decimal point, so that 7, 7.0 and '7' are one node."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def check_weights(weights: np.ndarray, where: Callable[[int], str]) -> None:
    """Refuse weights that are missing, infinite or negative, and say where the first one is."""
    bad = np.flatnonzero(~np.isfinite(weights) | (weights < 0))
    if bad.size:
        e = int(bad[0])
        w = weights[e]
        what = "is missing" if np.isnan(w) else f"{w:g} is infinite" if np.isinf(w) else f"{w:g} is negative"
        raise InputError(f"{where(e)}: the edge weight {what}; give every edge a finite weight of 0 or more")


def without_zeros(name: str) -> str:
    """A node id without leading zeros.

    Examples
    --------
    >>> [without_zeros(name) for name in ("01001", "1001", "000", "n01")]
    ['1001', '1001', '0', 'n01']
    """
    return name.lstrip("0") or name[:1]


def labels_of(column: RawColumn) -> Sequence[str]:
    """The column as node ids, N of them; the empty text where there is none."""
    import pandas as pd

    if isinstance(column.cells, LargeCells):
        return column.cells.labels()
    if column.cells is not None:
        return [cell.strip() for cell in column.cells]
    assert column.series is not None
    return ["" if pd.isna(v) else label(v) for v in column.series.tolist()]


def _endpoints(document: Document, column: RawColumn) -> Sequence[str]:
    labels = labels_of(column)
    e = first_empty(labels)
    if e is not None:
        raise InputError(
            f"{document.where(e)}, column {column.name!r}: the id is missing; name a node there or remove the line"
        )
    return labels


def _advice(name: str, ids: Sequence[str]) -> str:
    """What to do about a node that is not among the ids."""
    bare = without_zeros(name)
    twin = next((key for key in ids if without_zeros(key) == bare), None)
    if twin is None:
        return "; add it there or pass --drop-unknown"
    return f", but {twin!r} is: leading zeros were lost in one of the two files; write the ids alike in both"


def _weights(document: Document, rest: list[RawColumn], notes: list[str]) -> np.ndarray | None:
    named = [c for c in rest if c.name.strip().lower() == "weight"]
    chosen = named[0] if named else rest[0] if rest else None
    if chosen is None:
        return None
    column = classify(chosen, document.where)
    if column.kind not in ("float", "int", "bool"):
        if named:
            raise InputError(f"{document.path}, column {chosen.name!r}: edge weights must be numbers; fix or rename it")
        notes.append(f"{document.path}: column {chosen.name!r} is not a weight (it is text); all edges weigh 1")
        return None
    weights = column.series.to_numpy(np.float64, na_value=np.nan)
    if chosen.cells and not named and np.isnan(weights).all() and all(is_hole(c) for c in chosen.cells):
        return None
    check_weights(weights, document.where)
    if chosen.name.strip().lower() not in _CLOSER:
        notes.append(
            f"weights: column {chosen.name!r} (larger is closer); if it holds distances, give their inverse, "
            "or leave the column out to have all edges weigh 1; name it weight if it is right as it is"
        )
    return weights


def _check_header_is_no_edge(edges: EdgeList, ids: Sequence[str]) -> None:
    if edges.header and all(label(name) in ids for name in edges.header):
        raise InputError(
            f"{edges.path} line 1: {edges.header[0]!r} and {edges.header[1]!r} are nodes, so the "
            f"file seems to lack "
            "its header; put a first line such as source,target above the edges"
        )

"""Edge lists: which node is joined to which, and how strongly.

An edge file has a header. Its endpoints are the columns named source and target (or from/to, src/dst,
u/v, node1/node2, in any case), or else the first two, which is said. A first column without a name that counts the
lines from 0 is ignored. The weight is the column named weight, or else the one behind the endpoints if it holds
numbers, which is said unless its name speaks of a weight, or else 1 for every edge.
A larger weight joins two nodes more closely. Edges have no direction: `a,b` and `b,a` are one edge, and an
edge that is listed several times counts once, with its largest weight. Self-loops and edges of weight 0 are
left out.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from megae.columns import ENDPOINTS, LARGEST
from megae.io.columns import classify, has_comma, is_hole, number
from megae.io.document import Document, RawColumn
from megae.io.errors import InputError
from megae.io.large import LargeCells
from megae.io.texts import first_empty, positions

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "EdgeCounts",
    "EdgeList",
    "adjacency",
    "check_weights",
    "counts_rows",
    "edges_of",
    "label",
    "labels_of",
    "plain",
    "what_was_lost",
]

_DECIMAL = re.compile(r"([0-9]+)\.0+")
_FRACTION = re.compile(r"[+-]?[0-9]*\.[0-9]*[1-9][0-9]*(e[+-]?[0-9]+)?", re.IGNORECASE)
_NAMELESS = re.compile(r"(unnamed: ?[0-9]+|__index_level_0__)?", re.IGNORECASE)
_SEEN = 1000
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
    if len(columns) > 2 and counts_rows(columns[0]):
        columns = columns[1:]
    if len(columns) < 2:
        raise InputError(
            f"{document.path} has {len(columns)} column; edges need two, the ids of the two nodes that each edge joins"
        )
    by_name = {c.name.strip().lower(): c for c in reversed(columns)}
    pair = next((p for p in ENDPOINTS if p[0] in by_name and p[1] in by_name), None)
    source, target = (by_name[pair[0]], by_name[pair[1]]) if pair else (columns[0], columns[1])
    notes: list[str] = []
    if pair is None:
        _check_not_nodes(document, source, target)
        notes.append(
            f"endpoints: columns {source.name!r} and {target.name!r} of {document.path}; if others hold them, name "
            "those source and target"
        )
    ends = [_endpoints(document, column, known=pair is not None) for column in (source, target)]
    weight = _weights(document, columns, max(columns.index(source), columns.index(target)), notes)
    notes += _without_effect(document, weight)
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
            raise InputError(
                f"{edges.where(e)}: node {name!r} is not in {nodes_path}{_advice(name, ids)}{hint}{_taken(edges)}"
            )
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


def plain(name: str) -> str:
    """A node id without what other programs add or take off: leading zeros, and ``.0`` behind a whole number.

    Examples
    --------
    >>> [plain(name) for name in ("01001", "1001", "1001.0", "000", "n01", "v1.0")]
    ['1001', '1001', '1001', '0', 'n01', 'v1.0']
    """
    if name.endswith("0") and (whole := _DECIMAL.fullmatch(name)):
        name = whole[1]
    return name.lstrip("0") or name[:1] if name.startswith("0") else name


def what_was_lost(name: str, twin: str) -> str:
    """How two ids of one node came to differ, for messages.

    Examples
    --------
    >>> what_was_lost("7", "007"), what_was_lost("7.0", "7")
    ('leading zeros were lost in one of the two files', "one of the two files has '.0' behind whole numbers")
    """
    if bool(_DECIMAL.fullmatch(name)) != bool(_DECIMAL.fullmatch(twin)):
        return "one of the two files has '.0' behind whole numbers"
    return "leading zeros were lost in one of the two files"


def counts_rows(column: RawColumn) -> bool:
    """Whether the column has no name and holds 0, 1, 2 and so on, such as the index that pandas writes."""
    if not _NAMELESS.fullmatch(column.name.strip()):
        return False
    return all(key == str(row) for row, key in enumerate(labels_of(column)))


def labels_of(column: RawColumn) -> Sequence[str]:
    """The column as node ids, N of them; the empty text where there is none."""
    import pandas as pd

    if isinstance(column.cells, LargeCells):
        return column.cells.labels()
    if column.cells is not None:
        return [cell.strip() for cell in column.cells]
    assert column.series is not None
    return ["" if pd.isna(v) else label(v) for v in column.series.tolist()]


def _endpoints(document: Document, column: RawColumn, *, known: bool) -> Sequence[str]:
    """The ids in a column of endpoints; `known` says that its name tells what it is."""
    labels = labels_of(column)
    e = first_empty(labels)
    if e is not None:
        raise InputError(
            f"{document.where(e)}, column {column.name!r}: the id is missing; name a node there or remove the line"
            f"{'' if known else f' (if {document.path} is the table of nodes, pass it first, not by --edges)'}"
        )
    return labels


def _check_not_nodes(document: Document, source: RawColumn, target: RawColumn) -> None:
    """Refuse a table of nodes: its second column holds numbers with fractions, unlike its first."""
    found = [key for key in labels_of(target)[:_SEEN] if key]
    fractions = [key for key in found if _FRACTION.fullmatch(key)]
    ids = [key for key in labels_of(source)[:_SEEN] if not _FRACTION.fullmatch(key)]
    if fractions and 2 * len(fractions) > len(found) and ids:
        raise InputError(
            f"{document.path} looks like the table of nodes, not like edges: column {target.name!r} holds numbers such "
            f"as {fractions[0]!r} where ids of nodes are expected; pass the nodes first and the edges by --edges, or "
            "name the columns with the ids source and target"
        )


def _taken(edges: EdgeList) -> str:
    """Which columns were taken as endpoints, where their names do not tell."""
    if edges.header is None or tuple(name.strip().lower() for name in edges.header) in ENDPOINTS:
        return ""
    return f" (endpoints are taken from columns {edges.header[0]!r} and {edges.header[1]!r} of {edges.path})"


def _advice(name: str, ids: Sequence[str]) -> str:
    """What to do about a node that is not among the ids."""
    bare = plain(name)
    twin = next((key for key in ids if plain(key) == bare), None)
    if twin is None:
        return "; add it there or pass --drop-unknown"
    return f", but {twin!r} is: {what_was_lost(name, twin)}; write the ids alike in both"


def _weights(document: Document, columns: list[RawColumn], last: int, notes: list[str]) -> np.ndarray | None:
    """The weights, from the column named so or else the one behind the endpoints, which end at ``last``."""
    named = [c for c in columns if c.name.strip().lower() == "weight"]
    behind = columns[last + 1 :]
    chosen = named[0] if named else behind[0] if behind else None
    if chosen is None:
        return None
    try:
        column = classify(chosen, document.where)
    except InputError as error:
        raise _bad_weight(document, chosen) or error from None
    if column.kind not in ("float", "int", "bool"):
        if named:
            raise _bad_weight(document, chosen) or InputError(
                f"{document.path}, column {chosen.name!r}: edge weights must be numbers; fix or rename it"
            )
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


def _bad_weight(document: Document, column: RawColumn) -> InputError | None:
    """What is wrong with the first cell of a column of weights that is neither a hole nor a number in range."""
    texts = column.cells if column.cells is not None else labels_of(column)
    for e, cell in enumerate(texts):
        if is_hole(cell):
            continue
        value = number(cell)
        if value is not None and abs(value) <= LARGEST:
            continue
        place = f"{document.where(e)}, column {column.name!r}: the edge weight {cell!r}"
        if value is None and has_comma(cell):
            return InputError(f"{place} has a comma; write weights with a decimal point and no other mark")
        if value is None:
            return InputError(f"{place} is not a number; write a weight of 0 or more, or rename or remove the column")
        if np.isinf(value):
            return InputError(f"{place} is infinite or too large for a number; write a finite weight of 0 or more")
        return InputError(
            f"{place} is too large to compute with: weights may reach {LARGEST:g}; divide all weights by one number"
        )
    return None


def _without_effect(document: Document, weight: np.ndarray | None) -> list[str]:
    """A sentence if no edge joins anything."""
    if not document.n_rows:
        return [f"{document.path} holds no edges, only a header: no row is joined with another"]
    if weight is not None and not weight.any():
        return [f"{document.path}: all weights are 0, which leaves out every edge: no row is joined with another"]
    return []


def _check_header_is_no_edge(edges: EdgeList, ids: Sequence[str]) -> None:
    if edges.header and all(label(name) in ids for name in edges.header):
        raise InputError(
            f"{edges.path} line 1: {edges.header[0]!r} and {edges.header[1]!r} are nodes, so the "
            f"file seems to lack "
            "its header; put a first line such as source,target above the edges"
        )

"""Which column of a node table holds the ids that edges refer to.

In order: the column named by ``--id`` (``#`` means the row number, counted from 0); a column named id,
node, node_id, name or index (any case), or without a name, if an edge refers to one of its values; the
first column, if its values differ from each other and at least half of the nodes in the edges are among
them; the row number. GraphML nodes carry their own ids, .npz archives may (key ``ids``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from megae.io.document import Document, RawColumn
from megae.io.edges import EdgeList, labels_of
from megae.io.errors import InputError
from megae.io.texts import count_distinct

__all__ = ["IdChoice", "choose_ids"]

_NAMES = ("id", "node", "node_id", "name", "index", "__index_level_0__", "")


@dataclass
class IdChoice:
    """The ids, N different texts; the column they came from, if any; and that in words."""

    ids: list[str]
    column: str | None
    source: str


def choose_ids(document: Document, raw: Sequence[RawColumn], edges: EdgeList | None, wanted: str | None) -> IdChoice:
    """Find the ids of the rows.

    Parameters
    ----------
    document : Document
        The node table, N rows.
    raw : sequence of RawColumn
        Its columns.
    edges : EdgeList or None
        The edges whose endpoints the ids must match.
    wanted : str or None
        The user's choice: a column name, or ``#``.

    Returns
    -------
    IdChoice
        Checked: no id is missing, none occurs twice.
    """
    path = document.path
    if document.ids is not None:
        if wanted is not None:
            raise InputError(f"{path} carries the ids of its nodes itself; leave out --id")
        return _checked(document, IdChoice(document.ids, None, "node ids in the file"))
    if wanted == "#":
        return _row_numbers(document)
    if wanted is not None:
        column = next((c for c in raw if c.name == wanted), None)
        if column is None:
            raise InputError(
                f"{path} has no column {wanted!r} (asked for by --id); it has {', '.join(c.name for c in raw)}"
            )
        return _checked(document, _of(column))
    named = [c for name in _NAMES for c in raw if c.name.strip().lower() == name]
    if edges is None or edges.positional or not len(edges.source):
        return _checked(document, _of(named[0])) if named else _row_numbers(document)
    nodes = count_distinct(edges.source, edges.target)
    found = [(_share(edges, nodes, choice.ids), choice) for choice in map(_of, named)]
    if found and max(share for share, _ in found) > 0:
        return _checked(document, max(found, key=lambda pair: pair[0])[1])
    first = _of(raw[0])
    if raw[0] not in named and len(set(first.ids)) == len(first.ids) and _share(edges, nodes, first.ids) >= 0.5:
        return _checked(document, first)
    rows = _row_numbers(document)
    if _share(edges, nodes, rows.ids) > 0 or not (found or _share(edges, nodes, first.ids) > 0):
        return rows
    return _checked(document, found[0][1] if found else first)


def _row_numbers(document: Document) -> IdChoice:
    return IdChoice([str(i) for i in range(document.n_rows)], None, "row number")


def _of(column: RawColumn) -> IdChoice:
    return IdChoice(list(labels_of(column)), column.name, f"column {column.name!r}")


def _share(edges: EdgeList, nodes: int, ids: Sequence[str]) -> float:
    """The share of the different nodes in the edges that are among the ids, which may repeat."""
    known = np.zeros(len(ids) + 1, dtype=bool)
    for rows in edges.rows(ids):
        known[rows] = True  # -1, not there, is the last
    return int(known[:-1].sum()) / nodes


def _checked(document: Document, choice: IdChoice) -> IdChoice:
    different = set(choice.ids)
    if len(different) == len(choice.ids) and "" not in different:
        return choice
    first: dict[str, int] = {}
    for row, key in enumerate(choice.ids):
        if not key:
            raise InputError(
                f"{document.where(row)}: the id is missing ({choice.source}); give every row an id, "
                "or pass --id to name another column"
            )
        if key in first:
            raise InputError(
                f"{document.where(row)}: the id {key!r} occurs twice ({choice.source}), first at "
                f"{document.where(first[key])}; give every row its own id, or pass --id to name "
                f"another column"
            )
        first[key] = row
    return choice

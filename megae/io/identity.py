"""Which column of a node table holds the ids that edges refer to.

In order: the column named by ``--id`` (``#`` means the row number, counted from 0); a column named id,
node, node_id, name or index (any case), or without a name, if an edge refers to one of its values; the
first column, if its values differ from each other and at least half of the nodes in the edges are among
them; the row number. GraphML nodes carry their own ids, .npz archives may (key ``ids``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from megae.io.document import Document, RawColumn
from megae.io.edges import EdgeList, label
from megae.io.errors import InputError

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
    rows = IdChoice([str(i) for i in range(document.n_rows)], None, "row number")
    if wanted == "#":
        return rows
    if wanted is not None:
        column = next((c for c in raw if c.name == wanted), None)
        if column is None:
            raise InputError(
                f"{path} has no column {wanted!r} (asked for by --id); it has {', '.join(c.name for c in raw)}"
            )
        return _checked(document, _of(column))
    if edges is not None and edges.positional:
        edges = None
    ends = None if edges is None else set(edges.source) | set(edges.target)
    named = [c for name in _NAMES for c in raw if c.name.strip().lower() == name]
    if not ends:
        return _checked(document, _of(named[0])) if named else rows
    found = [(_share(ends, choice.ids), choice) for choice in map(_of, named)]
    if found and max(share for share, _ in found) > 0:
        return _checked(document, max(found, key=lambda pair: pair[0])[1])
    first = _of(raw[0])
    if raw[0] not in named and len(set(first.ids)) == len(first.ids) and _share(ends, first.ids) >= 0.5:
        return _checked(document, first)
    if _share(ends, rows.ids) > 0 or not (found or _share(ends, first.ids) > 0):
        return rows
    return _checked(document, found[0][1] if found else first)


def _of(column: RawColumn) -> IdChoice:
    import pandas as pd

    if column.cells is not None:
        ids = [cell.strip() for cell in column.cells]
    else:
        assert column.series is not None
        ids = ["" if pd.isna(v) else label(v) for v in column.series.tolist()]
    return IdChoice(ids, column.name, f"column {column.name!r}")


def _share(ends: set[str], ids: Sequence[str]) -> float:
    return len(ends & set(ids)) / len(ends)


def _checked(document: Document, choice: IdChoice) -> IdChoice:
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

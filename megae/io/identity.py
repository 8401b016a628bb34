"""Which column of a node table holds the ids that edges refer to.

``--id`` names it (``#`` means the row number, counted from 0). GraphML nodes carry their own ids, .npz archives may
(key ``ids``). Otherwise each column is compared with the edges: its share is how many of the different nodes in the
edges are among its values.

1. A column looks like one of ids if it is named id, node, node_id, name or index (any case), or without a name, and
   has a share at all; or if it hardly repeats itself and has most of the nodes (the first column, and one whose name
   ends in _id: half of them); or if it has as many as the row numbers.
2. Of those the one with the largest share is taken; among equals one with such a name, then the first column or one
   whose name ends in _id, then one without repetition. Where that leaves two, or where a column of a better name or
   place has half of the nodes too, the choice is the user's.
3. If no column looks like one of ids, row numbers are.

An id that is missing or occurs twice is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from megae.io.document import Document, RawColumn
from megae.io.edges import EdgeList, labels_of, without_zeros
from megae.io.errors import InputError
from megae.io.large import LargeCells
from megae.io.texts import count_distinct

__all__ = ["ROW_NUMBERS", "IdChoice", "choose_ids"]

ROW_NUMBERS = "row numbers"
"""What `IdChoice.source` says where no column holds the ids."""

_NAMES = ("id", "node", "node_id", "name", "index", "__index_level_0__", "")
_NAMED, _PLACED, _OTHER = 2, 1, 0
_HALF, _MOST = 0.5, 0.7
_REPEATED = 0.1


@dataclass
class IdChoice:
    """The ids, N different texts; the column they came from, if any; and that in words."""

    ids: list[str]
    column: str | None
    source: str


@dataclass
class _Candidate:
    """A column that edges may refer to: its ids, how many differ, its share, and how much its name and place say."""

    choice: IdChoice
    distinct: int
    share: float
    trust: int

    @property
    def unique(self) -> bool:
        return self.distinct == len(self.choice.ids)

    @property
    def rank(self) -> tuple[float, int, bool]:
        return self.share, self.trust, self.unique

    def looks_like_ids(self, rows: float) -> bool:
        """Whether to take it rather than row numbers, whose share is ``rows``."""
        if not self.share:
            return False
        n = len(self.choice.ids)
        hardly = n - self.distinct <= max(1, _REPEATED * n)
        enough = hardly and self.share >= (_HALF if self.trust else _MOST)
        return self.trust >= _NAMED or enough or self.share >= rows


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
    return _checked(document, _matched(document, raw, edges, named))


def _matched(document: Document, raw: Sequence[RawColumn], edges: EdgeList, named: list[RawColumn]) -> IdChoice:
    """The ids by comparison with the edges."""
    nodes = count_distinct(edges.source, edges.target)
    trust = {c.name: _PLACED for c in raw if c is raw[0] or c.name.strip().lower().endswith("_id")}
    trust |= {c.name: _NAMED + k for k, c in enumerate(reversed(named))}
    candidates: list[_Candidate] = []
    rows_share = 1.0
    for column in sorted(raw, key=lambda c: -trust.get(c.name, _OTHER)):
        if column.name not in trust and not _may_be_ids(column):
            continue
        choice = _of(column)
        found = _Candidate(
            choice, len(set(choice.ids)), _share(edges, nodes, choice.ids), trust.get(column.name, _OTHER)
        )
        candidates.append(found)
        if found.share == 1.0 and found.trust and found.unique:
            break  # nothing can match better
    else:
        rows = _row_numbers(document)
        rows_share = _share(edges, nodes, rows.ids)
        if not any(c.looks_like_ids(rows_share) for c in candidates):
            return rows if rows_share else _unlike(edges, candidates) or (candidates[0].choice if named else rows)
    return _best(document, [c for c in candidates if c.looks_like_ids(rows_share)])


def _best(document: Document, likely: list[_Candidate]) -> IdChoice:
    best = max(likely, key=lambda c: c.rank)
    rivals = [c for c in likely if c.trust > best.trust and c.share >= _HALF]
    rivals += [c for c in likely if c is not best and c.rank == best.rank]
    for rival in rivals:
        _checked(document, rival.choice)  # its share may be the smaller for an id that occurs twice
        raise InputError(
            f"{document.path}: edges may refer to column {best.choice.column!r} or to column {rival.choice.column!r}; "
            "say which holds the ids by --id"
        )
    return best.choice


def _unlike(edges: EdgeList, candidates: list[_Candidate]) -> IdChoice | None:
    """The column whose ids are those of the edges but for leading zeros, for the refusal that follows to speak of."""
    ends = {without_zeros(end) for texts in (edges.source, edges.target) for end in texts}
    shares = [len(ends & {without_zeros(key) for key in c.choice.ids}) for c in candidates]
    return candidates[int(np.argmax(shares))].choice if any(shares) else None


def _may_be_ids(column: RawColumn) -> bool:
    """Whether the column may hold ids: numbers with fractions, and many of them, are not worth a comparison."""
    if column.series is not None and getattr(column.series.dtype, "kind", "") == "f":
        values = column.series.to_numpy(np.float64, na_value=np.nan)
    elif isinstance(column.cells, LargeCells) and isinstance(column.cells.typed, np.ndarray):
        values = column.cells.typed
    else:
        return True
    known = values[np.isfinite(values)]
    return bool(known.size and (known == np.floor(known)).all())


def _row_numbers(document: Document) -> IdChoice:
    return IdChoice([str(i) for i in range(document.n_rows)], None, ROW_NUMBERS)


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
                f"{document.where(row)}: the id is missing ({choice.source}); give every row an id, or pass --id to "
                "name another column (--id '#' for row numbers from 0)"
            )
        if key in first:
            raise InputError(
                f"{document.where(row)}: the id {key!r} occurs twice ({choice.source}), first at "
                f"{document.where(first[key])}; give every row its own id, or pass --id to name another column "
                "(--id '#' for row numbers from 0)"
            )
        first[key] = row
    return choice

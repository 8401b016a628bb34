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
3. If no column looks like one of ids, row numbers are. A column without a name that holds just these, such as the
   index that pandas writes, says no more than they do: a column that has all nodes goes before it.
4. Where row numbers, or a column of a worse name or place, would win over a column that has nearly all nodes once
   leading zeros and ``.0`` behind whole numbers are dropped, in another order, the choice is the user's too.

An id that is missing or occurs twice is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from megae.io.document import Document, RawColumn
from megae.io.edges import EdgeList, counts_rows, labels_of, plain, what_was_lost
from megae.io.errors import InputError
from megae.io.large import LargeCells
from megae.io.texts import Texts, count_distinct

__all__ = ["ROW_NUMBERS", "IdChoice", "choose_ids"]

ROW_NUMBERS = "row numbers"
"""What `IdChoice.source` says where no column holds the ids."""

_NAMES = ("id", "node", "node_id", "name", "index", "__index_level_0__", "")
_NAMED, _PLACED, _OTHER, _COUNTED = 2, 1, 0, -1
_HALF, _MOST, _NEARLY_ALL = 0.5, 0.7, 0.9
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
    def complete(self) -> bool:
        return self.unique and self.share == 1.0

    @property
    def hardly_repeats(self) -> bool:
        n = len(self.choice.ids)
        return n - self.distinct <= max(1, _REPEATED * n)

    @property
    def rank(self) -> tuple[float, int, bool]:
        return self.share, self.trust, self.unique

    def looks_like_ids(self, rows: float) -> bool:
        """Whether to take it rather than row numbers, whose share is ``rows``."""
        if not self.share:
            return False
        enough = self.hardly_repeats and self.share >= (_HALF if self.trust else _MOST)
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
    if edges is not None and document.edges is None and edges.path.resolve() == path.resolve():
        raise InputError(f"{path} was given both as table of nodes and as --edges; give --edges the file of the edges")
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
    counter = next((c for c in raw if counts_rows(c)), None)
    others, named = [c for c in raw if c is not counter], [c for c in named if c is not counter]
    rows = _Candidate(_row_numbers(document) if counter is None else _of(counter), document.n_rows, 1.0, _COUNTED)
    nodes = count_distinct(edges.source, edges.target)
    candidates = _candidates(others, named, edges, nodes)
    if not any(c.complete and c.trust for c in candidates):
        rows.share = _share(edges, nodes, rows.choice.ids)
    likely = [c for c in candidates if c.looks_like_ids(rows.share)]
    if not likely and not rows.share:
        _refuse_unlike(document, edges, [*candidates, rows])
        return candidates[0].choice if named else rows.choice
    best = _best(document, likely, None if counter is None else rows) if likely else rows
    _refuse_lost(document, edges, best, candidates if best is rows else [*candidates, rows])
    return best.choice


def _candidates(raw: list[RawColumn], named: list[RawColumn], edges: EdgeList, nodes: int) -> list[_Candidate]:
    """The columns compared with the edges, by name and place, up to one that nothing can beat."""
    trust = {c.name: _PLACED for c in raw if c is raw[0] or c.name.strip().lower().endswith("_id")}
    trust |= {c.name: _NAMED + k for k, c in enumerate(reversed(named))}
    candidates: list[_Candidate] = []
    for column in sorted(raw, key=lambda c: -trust.get(c.name, _OTHER)):
        if column.name not in trust and not _may_be_ids(column):
            continue
        choice = _of(column)
        share = _share(edges, nodes, choice.ids)
        candidates.append(_Candidate(choice, len(set(choice.ids)), share, trust.get(column.name, _OTHER)))
        if candidates[-1].complete and candidates[-1].trust:
            break
    return candidates


def _best(document: Document, likely: list[_Candidate], counter: _Candidate | None) -> _Candidate:
    """The best of the columns that look like ids; ``counter`` is one without a name that holds the row numbers."""
    best = max(likely, key=lambda c: c.rank)
    rivals = [c for c in likely if c.trust > best.trust and c.share >= _HALF]
    rivals += [c for c in likely if c is not best and c.rank == best.rank]
    if counter is not None and counter.share >= best.share and not best.complete:
        if best.share < _HALF:
            return counter
        best, rivals = counter, [best]
    for rival in rivals:
        _checked(document, rival.choice)  # its share may be the smaller for an id that occurs twice
        raise InputError(
            f"{document.path}: edges may refer to column {best.choice.column!r} or to column {rival.choice.column!r}; "
            "say which holds the ids by --id"
        )
    return best


def _refuse_lost(document: Document, edges: EdgeList, best: _Candidate, others: list[_Candidate]) -> None:
    """Refuse what would win over a likelier column whose ids were changed on their way through another program."""
    likelier = [c for c in others if c is not best and (c.trust > best.trust or best.share < _HALF)]
    rivals = [c for c in likelier if c.share < 1.0 and c.hardly_repeats]
    if not rivals:
        return
    nodes = {plain(end) for end in _distinct(edges)}
    for rival in rivals:
        share = len(nodes.intersection(map(plain, rival.choice.ids))) / len(nodes)
        if share < _NEARLY_ALL or share <= rival.share:
            continue
        if any(plain(own) != plain(key) for own, key in zip(best.choice.ids, rival.choice.ids, strict=True)):
            _refuse_twins(document, edges, rival.choice)


def _refuse_unlike(document: Document, edges: EdgeList, candidates: list[_Candidate]) -> None:
    """Refuse edges whose nodes are in no column, if some column or the row numbers have them but for such changes."""
    nodes = {plain(end) for end in _distinct(edges)}
    shares = [len(nodes.intersection(map(plain, c.choice.ids))) / len(nodes) for c in candidates]
    share, trust, i = max((share, c.trust, -i) for i, (share, c) in enumerate(zip(shares, candidates, strict=True)))
    if share >= _HALF or (share and trust >= _NAMED):
        _refuse_twins(document, edges, candidates[-i].choice)


def _refuse_twins(document: Document, edges: EdgeList, choice: IdChoice) -> None:
    """Refuse the first node that is not among the ids of a column, or the row numbers, but for zeros."""
    known, twins = set(choice.ids), {plain(key): key for key in choice.ids}
    ends = ((e, end) for e, pair in enumerate(zip(edges.source, edges.target, strict=True)) for end in pair)
    e, name = next(((e, end) for e, end in ends if end not in known and plain(end) in twins), (-1, ""))
    if e < 0:
        return
    twin = twins[plain(name)]
    if choice.column is None:
        raise InputError(
            f"{edges.where(e)}: node {name!r} is in no column of {document.path}, but {twin!r} is a row number; "
            "write row numbers in the edges without leading zeros or '.0', or give the nodes a column with the ids"
        )
    raise InputError(
        f"{edges.where(e)}: node {name!r} is not in column {choice.column!r} of {document.path}, but {twin!r} is: "
        f"{what_was_lost(name, twin)}; write the ids alike in both, or say by --id what the edges refer to "
        "(--id '#': row numbers from 0)"
    )


def _distinct(edges: EdgeList) -> set[str]:
    """The different nodes in the edges."""
    if isinstance(edges.source, Texts) and isinstance(edges.target, Texts):
        return {*edges.source.array.unique().to_pylist(), *edges.target.array.unique().to_pylist()}
    return {*edges.source, *edges.target}


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

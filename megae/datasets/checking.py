"""Compare a set with what is known of it and with the paper's Tables 6 and 7."""

from __future__ import annotations

import hashlib
import math
import os
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from megae.datasets.catalogue import PAPER_SIZES
from megae.datasets.facts import Counts, Entry, Variant
from megae.datasets.places import absent, locate
from megae.datasets.reading import count, read_whole, reduce

__all__ = ["Finding", "check", "digest", "known_copy", "mismatches"]


@dataclass
class Finding:
    """What a check found.

    ``status`` is "ok", "absent" or "wrong"; ``problems`` say what is wrong, ``differences`` where the set is not what
    the paper says, and why, ``files`` which known copy each file is.
    """

    name: str
    status: str
    folder: str | None = None
    table: str | None = None
    agrees: bool | None = None
    counts: Counts | None = None
    files: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As what JSON has."""
        return asdict(self)


def check(entry: Entry, root: str | os.PathLike[str] | None = None) -> Finding:
    """Read a set, count it and compare.

    Parameters
    ----------
    entry : Entry of the catalogue
    root : path, optional
        Folder that holds the datasets; falls back as in :func:`megae.datasets.load`.

    Examples
    --------
    >>> from megae.datasets.catalogue import CATALOGUE
    >>> check(CATALOGUE["digits"]).status
    'ok'
    """
    start = time.perf_counter()
    found = (Path(), entry.variants[0]) if entry.layout == "embedded" else locate(entry, root)
    if found is None:
        return Finding(entry.name, "absent", differences=[_absent(entry, root)])
    folder, variant = found
    finding = Finding(entry.name, "ok", folder=str(folder) if variant.files else None)
    _check_files(finding, folder, variant)
    try:
        graphs = read_whole(entry, variant, folder)
    except (ValueError, OSError) as error:
        finding.problems.append(str(error))
    else:
        _check_counts(finding, entry, variant, graphs)
    finding.status = "wrong" if finding.problems else "ok"
    finding.seconds = time.perf_counter() - start
    return finding


def _absent(entry: Entry, root: str | os.PathLike[str] | None) -> str:
    hint = f"; with a network, megae data get {entry.name} fetches it" if entry.official else ""
    return absent(entry, root) + hint


def _check_files(finding: Finding, folder: Path, variant: Variant) -> None:
    for file in variant.files:
        sha256 = digest(folder / file.name)
        known = dict(file.sha256).get(sha256)
        if known is None and file.pinned:
            finding.problems.append(
                f"{folder / file.name} has sha256 {sha256[:12]}..., not that of {file.sha256[0][1]}; fetch it again"
            )
        finding.files[file.name] = known or f"sha256 {sha256[:12]}... is of no known copy; judged by its counts"


def _check_counts(finding: Finding, entry: Entry, variant: Variant, graphs: list[Data]) -> None:
    whole = count(graphs)
    finding.problems += [f"{entry.name}: {m}" for m in mismatches(whole, variant.whole)]
    if not all(bool(graph.x.isfinite().all()) for graph in graphs):
        finding.problems.append(f"{entry.name}: attributes hold NaN or infinity")
    taken = reduce(entry, variant, graphs)
    counts = whole if taken is graphs else count(taken)
    finding.counts = counts
    if not finding.problems:
        finding.problems += [f"{entry.name}: {m} after reduction" for m in mismatches(counts, variant.counts)]
    if entry.paper is not None:
        finding.table = entry.paper.table
        against = _against_paper(entry, counts)
        finding.agrees = not against
        finding.differences += against
        if entry.single and whole.nodes != counts.nodes:
            finding.differences.append(
                f"{entry.paper.table} counts the largest component alone, so that is what is read: the files hold "
                f"{whole.nodes:,} nodes and {whole.edges:,} edges"
            )
        if not entry.single:
            finding.differences += _sizes([len(graph.x) for graph in taken])
    finding.differences += [text.rstrip(".") for text in entry.differences]


def mismatches(found: Counts, known: Counts) -> list[str]:
    """What differs, field by field, where the known value is known.

    Examples
    --------
    >>> mismatches(Counts(graphs=3, nodes=9), Counts(graphs=4))
    ['3 graphs where 4 are expected']
    """
    wrong = []
    for item in fields(Counts):
        ours, theirs = getattr(found, item.name), getattr(known, item.name)
        if theirs is None or ours == theirs:
            continue
        if isinstance(theirs, float) and ours is not None and math.isclose(ours, theirs, rel_tol=2e-3, abs_tol=1e-9):
            continue  # ranges are noted to four digits
        word = {"low": "as smallest attribute", "high": "as largest attribute"}.get(item.name, item.name)
        wrong.append(f"{ours} {word} where {theirs} are expected")
    return wrong


def _against_paper(entry: Entry, counts: Counts) -> list[str]:
    """Where the row of the paper does not agree; means per graph agree if they round to its numbers."""
    paper = entry.paper
    assert paper is not None
    wrong = []
    for what in ("graphs", "nodes", "edges", "features", "classes"):
        theirs, ours = getattr(paper, what), getattr(counts, what)
        if theirs is None:
            continue
        mean = not entry.single and what in ("nodes", "edges")
        value = ours / counts.graphs if mean else ours
        if abs(value - theirs) > (0.5 if mean else 0):
            label = f"mean {what}" if mean else what
            wrong.append(f"{paper.table} says {theirs:,} {label}, the files hold {value:,.2f}".replace(".00", ""))
    return wrong


def _sizes(sizes: list[int]) -> list[str]:
    low, high = PAPER_SIZES
    said = f"the appendix says graphs have {low} to {high:,} nodes"
    out = []
    if min(sizes) < low:
        out.append(f"{said}; {sum(n < low for n in sizes)} of {len(sizes):,} have fewer, the smallest {min(sizes)}")
    if max(sizes) > high:
        out.append(f"{said}; {sum(n > high for n in sizes)} of {len(sizes):,} have more, the largest {max(sizes):,}")
    return out


def digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_copy(path: Path, sha256: tuple[tuple[str, str], ...]) -> str | None:
    """Which known copy a file is, or None."""
    return dict(sha256).get(digest(path))

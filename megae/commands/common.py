"""What the commands share: options, reading a graph, checking outputs before the long work, printing."""

from __future__ import annotations

import contextlib
import inspect
import json
import logging
import math
import os
import secrets
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from megae.io.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from megae.io import EdgeCounts, Table


class Device(StrEnum):
    """Where megae trains."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


DeviceOption = Annotated[Device, typer.Option(help="Where to train: auto takes the GPU if there is one.")]
SeedOption = Annotated[int, typer.Option(min=0, help="Same seed, same machine: same result.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines, nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace output files that exist.")]
MethodOption = Annotated[
    str, typer.Option(help="How to fill: megae, or a simple method such as mean, knn or feature-propagation.")
]
NodesArgument = Annotated[
    Path,
    typer.Argument(
        show_default=False,
        metavar="NODES",
        help="Table with one row per node and holes in it: .csv, .tsv, .parquet, .graphml or .npz. "
        "Holes in text files: empty cells, NA, NaN, null, None, ? and the like.",
    ),
]
EdgesOption = Annotated[
    Path | None,
    typer.Option(
        show_default=False,
        help="File with one row per edge: the ids of its two nodes, then perhaps a weight (a third column, "
        "or one named weight). Not needed for .graphml, or .npz with edge_index.",
    ),
]
IdOption = Annotated[
    str | None,
    typer.Option(
        "--id",
        show_default=False,
        help="Column of NODES with the ids that the edges use. Without it: the column that fits the edges "
        "best, else the row number from 0 (asked for by --id '#'); the output says which.",
    ),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        show_default=False,
        help="Columns to use and fill, separated by commas; text columns named here are filled as "
        "categories. Without it: all columns of numbers or TRUE/FALSE.",
    ),
]
DropUnknownOption = Annotated[
    bool, typer.Option("--drop-unknown", help="Leave out edges of nodes that NODES does not have.")
]


@dataclass
class Inputs:
    """A table and the graph over its rows; `A` is None if no edges were given."""

    table: Table
    A: csr_array | None
    counts: EdgeCounts | None
    notes: list[str] = field(default_factory=list)

    def graph_facts(self) -> dict[str, Any]:
        """What the graph is, for JSON."""
        if self.counts is None:
            return {"built": "knn"}
        return {"built": "edges", **self.counts.to_dict()}


def read_inputs(
    nodes: Path, edges: Path | None, *, id_column: str | None, columns: str | None, drop_unknown: bool
) -> Inputs:
    """Read the node table and the edges, and match the two."""
    from megae.io import adjacency, edges_of, open_document, read_table

    listed = None if edges is None else edges_of(open_document(edges))
    wanted = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    if wanted == []:
        raise InputError("--columns names no column; separate names by commas, as in --columns income,age")
    table = read_table(nodes, edges=listed, id_column=id_column, columns=wanted)
    listed = listed or table.document.edges
    if listed is None:
        return Inputs(table, None, None)
    hint = "" if id_column else f" (ids are taken from: {table.id_source}; --id names another column)"
    A, counts = adjacency(listed, table.ids, nodes, drop_unknown=drop_unknown, hint=hint)
    notes = list(listed.notes)
    if counts.unknown_dropped:
        left, what = counts.unknown_dropped, "edge" if counts.listed == 1 else "edges"
        notes.append(
            f"--drop-unknown: {left:,} of {counts.listed:,} {what} left out, of nodes that {nodes} does not have"
        )
    return Inputs(table, A, counts, notes)


def text_left_open(table: Table) -> list[str]:
    """Sentences about columns that have holes and take no part: those of text, and those of other types."""
    from megae.io.columns import is_hole

    texts: dict[str, int] = {}
    others: dict[str, int] = {}
    for column in table.columns:
        if column.fillable or column.name == table.id_column:
            continue
        cells = column.series
        missing = cells.isna().to_numpy() | np.asarray([isinstance(c, str) and is_hole(c) for c in cells], dtype=bool)
        if missing.any():
            textual = all(isinstance(cell, str) for cell in cells[~missing])
            (texts if textual and not missing.all() else others)[column.name] = int(missing.sum())
    advice = "name them in --columns to have them filled as categories"
    sentences = [f"columns of text keep their holes: {_counted(texts)}; {advice}"] if texts else []
    if others:
        sentences.append(
            f"columns that hold neither numbers nor text keep their holes: {_counted(others)}; "
            "write them as numbers or text if they shall be filled"
        )
    return sentences


def _counted(holes: dict[str, int]) -> str:
    shown = ", ".join(f"{name!r} ({n:,})" for name, n in list(holes.items())[:5])
    return shown + (", ..." if len(holes) > 5 else "")


def check_outputs(
    outputs: dict[str, Path | None], inputs: Sequence[Path | None], *, force: bool, in_place: str = "--out"
) -> None:
    """Refuse, before the long work, outputs that exist, collide or cannot be written.

    Parameters
    ----------
    outputs : dict
        Option name to path, None where not asked for.
    inputs : sequence of Path or None
        Files that are read. Only ``in_place`` may replace the first of them, and only with ``--force``.
    force : bool
        Whether existing files may be replaced.
    in_place : str
        The option whose output is the first input, filled.
    """
    taken: dict[str, str] = {}
    read = [os.path.realpath(p) for p in inputs if p is not None]
    for option, path in outputs.items():
        if path is None:
            continue
        real = os.path.realpath(path)
        if real in taken:
            raise InputError(f"{option} and {taken[real]} both name {path}; give them different names")
        taken[real] = option
        if real in read and not (force and option == in_place and real == read[0]):
            raise InputError(f"{option} {path} is one of the input files; choose another name")
        if path.exists() and not path.is_file():
            raise InputError(f"{option} {path} exists and is not a file; choose another name")
        if path.exists() and not force:
            raise InputError(f"{option} {path} exists already; choose another name or pass --force to replace it")
        _check_folder(option, Path(real).parent)


def check_page(option: str, path: Path | None) -> None:
    """Refuse a name that is not one of a web page."""
    if path is not None and path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{option} {path}: the report is a web page; give it the ending .html")


def check_listing(option: str, path: Path | None) -> None:
    """Refuse a name that is not one of a plain table."""
    if path is not None and path.suffix.lower() not in (".csv", ".tsv", ".tab", ".parquet", ".pq"):
        raise InputError(f"{option} {path}: give it the ending .csv, .tsv or .parquet")


def check_journal(option: str, path: Path) -> None:
    """Refuse, before the long work, a file that cannot be written on and on; its folder is made if need be."""
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder; name a file in it, such as {path / 'megae-tune.log'}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        raise InputError(
            f"{option} {path} cannot be written to ({error.strerror}); name a file in a folder that can"
        ) from error
    _check_folder(option, folder)


def _check_folder(option: str, folder: Path) -> None:
    if not folder.is_dir():
        raise InputError(f"{option}: the folder {folder} does not exist; create it first")
    probe = folder / f".megae-{secrets.token_hex(6)}.tmp"
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError as error:
        raise InputError(
            f"{option}: cannot write into the folder {folder} ({error.strerror}); choose another folder"
        ) from error
    probe.unlink()


def imputer_class(method: str) -> type[Any]:
    """The class of a method, or a refusal that lists the methods there are."""
    from megae.imputers import REGISTRY

    if method not in REGISTRY:
        raise InputError(f"--method {method!r} is not known; choose one of {', '.join(sorted(REGISTRY))}")
    return REGISTRY[method]


def make_imputer(method: str, options: dict[str, Any], flags: dict[str, str]) -> Any:
    """Build an imputer with the options it has.

    Parameters
    ----------
    method : str
        Name in the registry.
    options : dict
        Constructor arguments; None means not given.
    flags : dict
        For arguments the user gave by hand: the option's name, to refuse it where the method has no such
        argument.
    """
    cls = imputer_class(method)
    known = inspect.signature(cls.__init__).parameters
    for name, flag in flags.items():
        if options.get(name) is not None and name not in known:
            raise InputError(f"{flag} does not apply to the method {method!r}; leave it out or use --method megae")
    return cls(**{name: value for name, value in options.items() if value is not None and name in known})


def check_time_budget(seconds: float | None) -> None:
    """Refuse a time budget in which nothing can be learnt."""
    if seconds is not None and not seconds > 0:
        raise InputError(f"--time-budget {seconds:g} is no time to train in; give seconds above 0, or leave it out")


def check_device(device: Device) -> None:
    """Refuse cuda where there is none."""
    if device is Device.cuda:
        import torch

        if not torch.cuda.is_available():
            raise InputError("--device cuda: no CUDA device is available here; use --device cpu or auto")


@contextlib.contextmanager
def working(*, quiet: bool, as_json: bool) -> Iterator[list[str]]:
    """Run the long work: log lines go to stderr, nothing reaches stdout under ``--json``, warnings are
    gathered."""
    logger = logging.getLogger("megae")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("megae: %(message)s"))
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING if quiet or as_json else logging.INFO)
    logger.propagate = False
    messages: list[str] = []
    try:
        with contextlib.ExitStack() as stack:
            if as_json or quiet:
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))
            caught = stack.enter_context(warnings.catch_warnings(record=True))
            warnings.simplefilter("always", UserWarning)
            yield messages
            for item in caught:
                text = " ".join(str(item.message).split())
                if issubclass(item.category, (UserWarning, RuntimeWarning)) and text not in messages:
                    messages.append(text)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def warn(messages: Sequence[str]) -> None:
    """Warnings, one line each, on stderr."""
    for message in messages:
        print(f"megae: warning: {message}", file=sys.stderr)


def print_json(result: dict[str, Any]) -> None:
    """One JSON object on stdout; what is not a finite number becomes null."""
    print(json.dumps(plain(result), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Numpy values, paths and tuples as what JSON has."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)

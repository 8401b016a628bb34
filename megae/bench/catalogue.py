"""The paper's tables and figures as data: what is run, on what, which number the paper prints, and what is doubtful.

Each file ``experiments/NAME.json`` is one table or figure of Gao et al., AAAI 2023. A test compares every number with
the paper's source, cell by cell and in both directions. Nothing here loads torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal
from difflib import get_close_matches
from importlib.resources import files
from typing import Any, NoReturn

from megae.io.errors import InputError

__all__ = ["FULL", "METHODS", "Experiment", "Row", "Source", "Value", "load_experiment", "names", "read_experiment"]

KINDS = ("imputation", "spectra")
MECHANISMS = ("mcar", "mar", "mnar", "whole-node")
ORIGINS = ("paper", "ours", "floor")
EXTRAS = ("accuracy", "entropy", "spectra")
NEEDS = {"rmse": None, "accuracy": "accuracy", "entropy_change": "entropy"}
"""What the paper prints, and the extra that must be measured to stand beside it."""
BOUNDS = {"rmse": (0, math.inf), "accuracy": (0, 1), "entropy_change": (-1, math.inf)}

IMPUTERS = (
    "megae", "mean", "graph-mean", "zero", "median", "knn", "svd", "mice", "missforest", "gain", "ot", "miracle",
    "graphvae", "molgan", "vgae", "grape", "gdn", "gc-mc", "srmgcnn", "feature-propagation", "pcfi", "inv-mlp",
    "inv-gcn",
)  # fmt: skip
CLASSIFIERS = ("gcnmf", "pagnn")
"""They classify nodes of a graph with holes without filling it, so they have an accuracy and no RMSE."""
FULL = "full"
"""Full features: nothing is missing, so accuracy alone is measured, once for all mechanisms and rates."""
METHODS = (*IMPUTERS, *CLASSIFIERS, FULL)


@dataclass(frozen=True)
class Source:
    """Where a table or figure stands: the file of the paper's source, and the ``\\label`` in it."""

    file: str
    label: str


@dataclass(frozen=True)
class Row:
    """One method of a table.

    Attributes
    ----------
    label : str
        Unique in its experiment; the paper's own name where ``origin`` is "paper".
    method : str
        Name of an imputer, of a classifier that fills nothing, or "full".
    settings : dict
        Keyword arguments of the method.
    origin : {"paper", "ours", "floor"}
        Whose row it is: the paper's, one added here, or a simple method every other must beat.
    doubt : str or None
        What is unsure about taking this method for that row.
    """

    label: str
    method: str
    settings: dict[str, Any] = field(hash=False)
    origin: str
    doubt: str | None


@dataclass(frozen=True)
class Value:
    """One number of the paper; ``value`` and ``printed`` are None where it shows a picture only.

    ``printed`` is the text of the cell. Shares are printed in percent, and an RMSE printed with a plus sign is the
    increase over the table's base row: ``value`` is then base plus increase.
    """

    row: str
    dataset: str
    mechanism: str
    rate: float | None
    measure: str
    value: float | None
    printed: str | None


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes
    ----------
    mechanisms, rates, datasets : tuple
        Every row runs on each combination, ``trials`` times.
    extras : dict of dataset to tuple of str
        What is measured beside RMSE.
    normalise_by : str or None
        Label of the row whose RMSE all others are divided by.
    doubts : tuple of str
        What the paper leaves open, and where it contradicts itself.
    """

    name: str
    title: str
    kind: str
    source: Source
    mechanisms: tuple[str, ...]
    rates: tuple[float, ...]
    trials: int
    datasets: tuple[str, ...]
    extras: dict[str, tuple[str, ...]] = field(hash=False)
    rows: tuple[Row, ...]
    values: tuple[Value, ...]
    doubts: tuple[str, ...]
    normalise_by: str | None = None

    def row(self, label: str) -> Row:
        """Return the row of that label."""
        for row in self.rows:
            if row.label == label:
                return row
        raise ValueError(f"{self.name} has no row {label!r}{_near(label, [row.label for row in self.rows])}")

    def paper_value(self, row: str, dataset: str, mechanism: str, rate: float | None, measure: str) -> float | None:
        """Return the paper's number, or None where it prints none.

        Full features have no holes: their accuracy answers for every mechanism and rate.

        Examples
        --------
        >>> load_experiment("table1").paper_value("MEGAE", "ENZYMES", "mcar", 0.1, "rmse")
        0.0223
        >>> load_experiment("table1").paper_value("PCFI", "ENZYMES", "mcar", 0.1, "rmse") is None
        True
        """
        full = self.row(row).method == FULL
        for key, asked, known in (
            ("dataset", dataset, self.datasets),
            ("mechanism", mechanism, self.mechanisms),
            ("rate", rate, (None, *self.rates)),
            ("measure", measure, tuple(NEEDS)),
        ):
            if asked not in known:
                raise ValueError(f"{self.name} has no {key} {asked!r}{_near(asked, known)}")
        for value in self.values:
            if (value.row, value.dataset, value.measure) == (row, dataset, measure) and (
                full or (value.mechanism, value.rate) == (mechanism, rate)
            ):
                return value.value
        return None


def names() -> list[str]:
    """Return the names of all experiments, sorted.

    Examples
    --------
    >>> names()[:3]
    ['figure1', 'figure3', 'figure4']
    """
    folder = files("megae.bench") / "experiments"
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def load_experiment(name: str) -> Experiment:
    """Load the experiment of that name.

    Examples
    --------
    >>> load_experiment("table4").row("GWNN").settings
    {'preset': 'paper', 'bands': 9, 'frame': 'heat'}
    """
    if name not in names():
        raise ValueError(f"there is no experiment {name!r}{_near(name, names())}")
    text = (files("megae.bench") / "experiments" / f"{name}.json").read_text(encoding="utf-8")
    experiment = read_experiment(text, where=f"{name}.json")
    if experiment.name != name:
        raise InputError(f"{name}.json: name is {experiment.name!r}; it must be the file's own, {name!r}")
    return experiment


def read_experiment(content: str | Mapping[str, Any], where: str = "experiment") -> Experiment:
    """Check an experiment and return it.

    Parameters
    ----------
    content : str or mapping
        JSON text, or what it holds.
    where : str
        What errors call it, such as the file's name.

    Raises
    ------
    InputError
        Names file and key, and says what must stand there.
    """
    part = _Part(_parse(content, where) if isinstance(content, str) else content, where, "").mapping(
        tuple(entry.name for entry in fields(Experiment) if entry.name != "normalise_by"), optional=("normalise_by",)
    )
    source = part["source"].mapping(("file", "label"))
    datasets = part["datasets"].unique(_Part.text)
    rows = tuple(_row(entry) for entry in part["rows"].entries())
    if not rows:
        part["rows"].fail("must hold one row or more")
    for i, row in enumerate(rows):
        if row.label in [other.label for other in rows[:i]]:
            part["rows"].fail(f"[{i}].label {row.label!r} stands on an earlier row too; labels must be unique")
    extras = {
        entry.choice(datasets, key): entry.unique(lambda extra: extra.choice(EXTRAS))
        for key, entry in part["extras"].mapping(None).items()
    }
    experiment = Experiment(
        name=part["name"].text(),
        title=part["title"].text(),
        kind=part["kind"].choice(KINDS),
        source=Source(source["file"].text(), source["label"].text()),
        mechanisms=part["mechanisms"].unique(lambda entry: entry.choice(MECHANISMS)),
        rates=part["rates"].unique(lambda entry: entry.number(0, 1)),
        trials=part["trials"].count(),
        datasets=datasets,
        extras=extras,
        rows=rows,
        values=(),
        doubts=part["doubts"].unique(_Part.text),
        normalise_by=part["normalise_by"].choice([row.label for row in rows]) if "normalise_by" in part else None,
    )
    values: dict[tuple[Any, ...], Value] = {}
    for entry in part["values"].entries():
        value = _value(entry, experiment)
        cell = (value.row, value.dataset, value.mechanism, value.rate, value.measure)
        if cell in values:
            entry.fail(f"gives {value.measure} of row {value.row!r} on {value.dataset} a second time; keep one")
        values[cell] = value
    return replace(experiment, values=tuple(values.values()))


def _row(entry: _Part) -> Row:
    part = entry.mapping(("label", "method", "settings", "origin", "doubt"))
    method = part["method"].choice(METHODS)
    settings = {key: setting.scalar() for key, setting in part["settings"].mapping(None).items()}
    if method == FULL and settings:
        part["settings"].fail(f"must be empty, since full features take no settings; got {settings}")
    doubt = None if part["doubt"].content is None else part["doubt"].text()
    return Row(part["label"].text(), method, settings, part["origin"].choice(ORIGINS), doubt)


def _value(entry: _Part, experiment: Experiment) -> Value:
    part = entry.mapping(("row", "dataset", "mechanism", "rate", "measure", "value", "printed"))
    row = experiment.row(part["row"].choice([row.label for row in experiment.rows]))
    if row.origin != "paper":
        part["row"].fail(f"is {row.label!r} of origin {row.origin!r}; the paper has numbers of its own rows only")
    dataset = part["dataset"].choice(experiment.datasets)
    measure = part["measure"].choice(tuple(NEEDS))
    needed = NEEDS[measure]
    if needed is not None and needed not in experiment.extras.get(dataset, ()):
        part["measure"].fail(f"is {measure!r}, so extras must name {needed!r} for {dataset}")
    if measure == "rmse" and row.method in (*CLASSIFIERS, FULL):
        part["measure"].fail(f"is 'rmse', which {row.method} has not, since it fills nothing; use 'accuracy'")
    rate = part["rate"].content
    if (rate is None) != (row.method == FULL):
        part["rate"].fail(f"must be null for full features and for nothing else, got {rate!r} for {row.label!r}")
    if rate is not None and part["rate"].number(0, 1) not in experiment.rates:
        part["rate"].fail(f"must be one of {', '.join(map(str, experiment.rates))}, got {rate!r}")
    number, printed = part["value"].content, part["printed"].content
    if (number is None) != (printed is None):
        part["value"].fail(f"is {number!r} and printed {printed!r}; give both, or null for both")
    if number is not None:
        number = part["value"].number(*BOUNDS[measure])
        wanted = _printed_number(part["printed"], measure)
        if wanted is not None and wanted != number:
            part["value"].fail(f"is {number}, but printed {printed!r} says {wanted}")
    mechanism = part["mechanism"].choice(experiment.mechanisms)
    return Value(row.label, dataset, mechanism, rate, measure, number, printed)


def _printed_number(printed: _Part, measure: str) -> float | None:
    """The number a cell says, or None for an increase, which says it together with another cell."""
    text = printed.text()
    try:
        number = Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ArithmeticError:
        printed.fail(f"must be a number, with a % sign behind it or not, got {text!r}")
    if text.endswith("%") == (measure == "rmse"):
        printed.fail(f"is {text!r}; an RMSE is printed without a % sign, a share with one")
    return None if measure == "rmse" and text.startswith("+") else float(number)


class _Part:
    """A piece of an experiment and its place, so that every error says where."""

    def __init__(self, content: Any, where: str, key: str) -> None:
        self.content, self.where, self.key = content, where, key

    def fail(self, problem: str) -> NoReturn:
        space = "" if problem.startswith("[") else " "
        raise InputError(f"{self.where}: {self.key or 'the file'}{space}{problem}")

    def mapping(self, required: Sequence[str] | None, optional: Sequence[str] = ()) -> dict[str, _Part]:
        """The entries by key; with ``required`` None, any keys."""
        if not isinstance(self.content, Mapping):
            self.fail(f"must be an object with keys, got {self.content!r}")
        for key in required or ():
            if key not in self.content:
                self.fail(f"has no key {key!r}; add it")
        known = [*(required or self.content), *optional]
        for key in self.content:
            if not isinstance(key, str) or key not in known:
                self.fail(f"has the unknown key {key!r}{_near(key, known)}")
        prefix = f"{self.key}." if self.key else ""
        return {key: _Part(content, self.where, f"{prefix}{key}") for key, content in self.content.items()}

    def entries(self) -> list[_Part]:
        if not isinstance(self.content, list | tuple):
            self.fail(f"must be a list, got {self.content!r}")
        return [_Part(entry, self.where, f"{self.key}[{i}]") for i, entry in enumerate(self.content)]

    def unique(self, read: Any) -> tuple[Any, ...]:
        """Every entry as ``read`` takes it, none twice."""
        found: list[Any] = []
        for entry in self.entries():
            if (content := read(entry)) in found:
                entry.fail(f"is {content!r} once more; keep one")
            found.append(content)
        return tuple(found)

    def text(self) -> str:
        if not isinstance(self.content, str) or not self.content.strip() or self.content != self.content.strip():
            self.fail(f"must be text without spaces around it, got {self.content!r}")
        return self.content

    def choice(self, options: Sequence[str], content: Any = None) -> str:
        content = self.content if content is None else content
        if content not in options:
            self.fail(f"must be one of {', '.join(options)}; got {content!r}")
        return content

    def number(self, low: float, high: float) -> float:
        """A finite number strictly between the two."""
        x = self.content
        if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x) or not low < x < high:
            self.fail(f"must be a number between {low} and {high}, got {x!r}")
        return float(x)

    def count(self) -> int:
        if isinstance(self.content, bool) or not isinstance(self.content, int) or self.content < 1:
            self.fail(f"must be a whole number of 1 or more, got {self.content!r}")
        return self.content

    def scalar(self) -> Any:
        if not isinstance(self.content, str | int | float | bool | None):
            self.fail(f"must be text, a number, true, false or null, got {self.content!r}")
        return self.content


def _parse(text: str, where: str) -> Any:
    """JSON without repeated keys and without NaN."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise InputError(f"{where}: key {key!r} stands twice in one object; keep one")
        return dict(pairs)

    def no_constant(constant: str) -> NoReturn:
        raise InputError(f"{where}: {constant} is not a number; use null where there is none")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"{where}: not JSON, line {error.lineno} column {error.colno}: {error.msg}") from error


def _near(asked: Any, known: Sequence[Any]) -> str:
    near = get_close_matches(str(asked), [str(option) for option in known], n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"{hint} Known: {', '.join(map(str, known))}"

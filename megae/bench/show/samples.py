"""From records of trials to the numbers behind each cell of an experiment's table."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from megae.bench.catalogue import CLASSIFIERS, FULL, NEEDS, Experiment, Row
from megae.bench.extras import PREPARED
from megae.bench.units import proportional
from megae.datasets import CATALOGUE

Record = Mapping[str, Any]
UNITS = ("paper", "ours")
VARIANTS: dict[str, tuple[str | None, ...]] = {"accuracy": ("centred", "row-normalised")}
"""Features are prepared for the classifier in two ways; the first is the one to read."""


@dataclass(frozen=True)
class Column:
    """One measure on one dataset, by one mechanism at one rate (None: nothing is missing).

    ``variant`` is what an accuracy is filed under, by how features were prepared for the classifier; None for other
    measures.
    """

    dataset: str
    mechanism: str
    rate: float | None
    measure: str
    variant: str | None = None

    @property
    def better(self) -> int:
        """-1 where less is better, 1 where more is, 0 where neither is."""
        return {"rmse": -1, "accuracy": 1}.get(self.measure, 0)

    @property
    def of_graphs(self) -> bool:
        """Whether whole graphs are classified, not the nodes of one."""
        return self.dataset in CATALOGUE and not CATALOGUE[self.dataset].single

    @property
    def prepared(self) -> str | None:
        """How features were prepared for the classifier; the same variant stands for another way on whole graphs."""
        return PREPARED[self.variant] if self.variant is not None and self.of_graphs else self.variant

    @property
    def measure_name(self) -> str:
        """Measure and preparation in one name."""
        return self.measure if self.variant is None else f"{self.measure} ({self.prepared})"

    def unit(self, unit: str) -> str:
        """What its figures are counted in, where ``unit`` is that of the errors."""
        return unit if self.measure == "rmse" else "share"


@dataclass
class Sample:
    """What the trials of one row say about one column.

    Parameters
    ----------
    values : dict from seed to figure
    pairs : dict from seed to ndarray of shape (P_seed,)
        Errors of single test graphs, or of single columns on one graph, in the unit of the figures or up to one
        factor in it; NaN without a hole. Seeds whose record has none are left out.
    names : dict from seed to P_seed names
        Which graph or column each pair is, where the record tells.
    over : str or None
        What the pairs are: "test graph" or "column".
    errors : dict from seed to message
    found : int
        Records in which the figure was asked for, whether or not there is one.
    """

    values: dict[int, float] = field(default_factory=dict)
    pairs: dict[int, np.ndarray] = field(default_factory=dict)
    names: dict[int, Sequence[Hashable]] = field(default_factory=dict)
    over: str | None = None
    errors: dict[int, str] = field(default_factory=dict)
    found: int = 0


def columns_of(experiment: Experiment) -> list[Column]:
    """The columns of a table: what the paper's table or figure is about, or all that is measured where it does not say.

    Trials are shared between experiments, so a record may hold more than one of them shows. Full features have a
    column of their own on each dataset with accuracy, at rate None.

    Examples
    --------
    >>> from megae.bench.catalogue import load_experiment
    >>> [c.measure_name for c in columns_of(load_experiment("table5"))][:2]
    ['rmse', 'entropy_change']
    """
    printed = {value.measure for value in experiment.values}
    full = any(row.method == FULL for row in experiment.rows)
    columns = []
    for dataset in experiment.datasets:
        extras = experiment.extras.get(dataset, ())
        measured = [m for m, extra in NEEDS.items() if extra is None or extra in extras]
        measures = [m for m in measured if not printed or m in printed]
        for mechanism in experiment.mechanisms:
            for measure in measures:
                variants = VARIANTS.get(measure, (None,))
                columns += [Column(dataset, mechanism, r, measure, v) for r in experiment.rates for v in variants]
        if full and "accuracy" in measures:
            columns += [Column(dataset, experiment.mechanisms[0], None, "accuracy", v) for v in VARIANTS["accuracy"]]
    return columns


def asked(row: Row, column: Column) -> bool:
    """Whether a row has a figure in a column at all."""
    if (row.method == FULL) != (column.rate is None):
        return False
    return column.measure == "accuracy" or row.method not in CLASSIFIERS


class Records:
    """Records by what was run, for lookups.

    Parameters
    ----------
    records : iterable of dict
        As :mod:`megae.bench.store` reads them; of two of one trial, one without an error counts.
    settings : mapping or None
        Settings every trial was run with beside those of its row.
    """

    def __init__(self, records: Iterable[Record], settings: Mapping[str, Any] | None = None) -> None:
        self.settings = dict(settings or {})
        self.used: dict[str, Record] = {}
        self._by_cell: dict[tuple[Any, ...], dict[int, Record]] = {}
        for record in records:
            trial = record["trial"]
            rate, mechanism = trial["rate"], trial["mechanism"]
            if trial["method"] == FULL:
                rate = mechanism = None
            cell = self._by_cell.setdefault(
                (trial["dataset"], mechanism, rate, trial["method"], _canonical(trial["settings"])), {}
            )
            before = cell.get(trial["seed"])
            if before is None or before["status"] != "ok":
                cell[trial["seed"]] = record

    def sample(self, row: Row, column: Column, unit: str) -> Sample:
        """Gather what the trials of a row say about a column; RMSE in ``unit``."""
        mechanism = None if row.method == FULL else column.mechanism
        settings = _canonical({**row.settings, **self.settings})
        cell = self._by_cell.get((column.dataset, mechanism, column.rate, row.method, settings), {})
        sample = Sample()
        needed = NEEDS[column.measure]
        for seed, record in sorted(cell.items()):
            self.used[record["key"]] = record
            if record["status"] != "ok":
                sample.errors[seed] = str(record["error"])
                continue
            sample.found += needed is None or needed in record["trial"]["extras"]
            value = figure_of(record, column, unit)
            if value is None:
                continue
            sample.values[seed] = value
            errors = errors_of(record, unit) if column.measure == "rmse" else None
            if errors is not None:
                pairs = record["pairs"]
                sample.over = pairs["over"]
                sample.pairs[seed] = np.array(errors, dtype=np.float64)
                if "ids" in pairs:
                    sample.names[seed] = pairs["ids"]
                elif pairs["over"] == "column":
                    sample.names[seed] = range(len(errors))
        return sample


def figure_of(record: Record, column: Column, unit: str) -> float | None:
    """The figure of a record for a column, or None where it was not measured."""
    found: Any
    if column.measure == "rmse":
        found = ((record.get("scores") or {}).get(unit) or {}).get("rmse")
    elif column.measure == "accuracy":
        found = (record.get("accuracy") or {}).get(column.variant)
    else:
        found = record.get(column.measure)
    return None if found is None else float(found)


def errors_of(record: Record, unit: str) -> list[float | None] | None:
    """Errors of single test graphs or columns in a unit, or up to one factor in it; None where the record has none.

    Earlier records have them in our unit alone, without naming it.
    """
    errors = (record.get("pairs") or {}).get("rmse")
    if isinstance(errors, list):
        errors = {"ours": errors}
    found: list[float | None] | None = (errors or {}).get("ours" if proportional(record["trial"]["dataset"]) else unit)
    return found


def _canonical(settings: Mapping[str, Any]) -> str:
    return json.dumps(dict(settings), sort_keys=True)

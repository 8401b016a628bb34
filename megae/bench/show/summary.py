"""An experiment's table in figures: means over trials, ranks, tests against the best, the paper's value beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.stats import rankdata

from megae.bench.catalogue import Experiment, Row
from megae.bench.protocol import PROTOCOL
from megae.bench.show.samples import UNITS, Column, Record, Records, Sample, asked, columns_of
from megae.bench.show.significance import (
    ALPHA,
    PairedTest,
    compare_pairs,
    compare_trials,
    holm,
    least_possible,
    pairs_of,
)
from megae.io.errors import InputError


@dataclass(frozen=True)
class Cell:
    """One row in one column.

    Parameters
    ----------
    state : str
        "ok", "partial" (some trials are missing or failed), "error" (all that ran failed), "not run", or "none"
        (the row has no such figure).
    mean, sd : float or None
        Over ``n`` trials; ``sd`` (with n - 1) is None for fewer than two.
    failed : int
        Trials that ended in an error.
    rank : float or None
        Among rows with all trials; ties share the mean of their ranks.
    p : float or None
        Against the best row, two-sided, after Holm over all pairs of rows.
    verdict : str
        "best", "level" (not significantly worse than the best), "behind", "open" (too few pairs to tell) or "".
    ratio : float or None
        To the mean of the row that the experiment normalises by.
    paper : float or None
        What the paper prints.
    test : PairedTest or None
        The test before Holm.
    """

    state: str
    mean: float | None = None
    sd: float | None = None
    n: int = 0
    failed: int = 0
    rank: float | None = None
    p: float | None = None
    verdict: str = ""
    ratio: float | None = None
    paper: float | None = None
    test: PairedTest | None = None


@dataclass(frozen=True)
class MeanRank:
    """Mean of a row's ranks over ``columns`` of the ``of`` columns in which rows are ranked."""

    rank: float
    columns: int
    of: int


@dataclass
class Summary:
    """A table ready to be printed.

    Parameters
    ----------
    experiment : Experiment
    unit : "paper" or "ours", of the RMSE
    trials : how many each cell should rest on
    columns : list of Column
    cells : dict from (row label, Column) to Cell
    mean_ranks : dict from measure to dict from row label to MeanRank
    tested_by : dict from Column to what its test is paired over: "test graph", "named test graph", "column" or "trial"
    too_few : dict from Column to the smallest p-value its tests could have given, where that is above alpha
    records : the records the figures come from
    notes : what a reader should know, in sentences
    errors : trials that failed, in lines
    """

    experiment: Experiment
    unit: str
    trials: int
    columns: list[Column]
    cells: dict[tuple[str, Column], Cell]
    mean_ranks: dict[str, dict[str, MeanRank]] = field(default_factory=dict)
    tested_by: dict[Column, str] = field(default_factory=dict)
    too_few: dict[Column, float] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def summarise(
    experiment: Experiment,
    records: Iterable[Record],
    unit: str = "paper",
    *,
    trials: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Summary:
    """Make the table of an experiment from records of trials.

    A cell's mean is over the seeds that all complete rows of its column have: those asked for, and any more that are
    common to them. Rows with fewer are shown with what they have, neither ranked nor tested.

    Parameters
    ----------
    experiment : Experiment
    records : iterable of records; those of other experiments are passed over
    unit : "paper" or "ours"
        What RMSE is counted in.
    trials : int or None
        How many seeds make a row complete; None for as many as the experiment has.
    settings : mapping or None
        Settings every trial was run with beside those of its row.
    """
    if unit not in UNITS:
        raise InputError(f"unit must be one of {', '.join(UNITS)}; got {unit!r}")
    if experiment.kind != "imputation":
        raise InputError(f"{experiment.name} shows {experiment.kind}, not figures of trials: it has no table")
    wanted = experiment.trials if trials is None else trials
    if wanted < 1:
        raise InputError(f"trials must be at least 1, got {wanted}")
    given = list(records)
    current = [record for record in given if record["protocol"] == PROTOCOL]
    found = Records(current, settings)
    summary = Summary(experiment, unit, wanted, columns_of(experiment), {})
    if len(current) < len(given):
        summary.notes.append(
            f"Left out, since they were made under another protocol than {PROTOCOL} and cannot be compared: "
            f"{len(given) - len(current)} of {len(given)} records."
        )
    failed: dict[tuple[str, str, str], dict[int, None]] = {}
    for column in summary.columns:
        samples = {row.label: found.sample(row, column, unit) for row in experiment.rows if asked(row, column)}
        _fill_column(summary, column, samples)
        for label, sample in samples.items():
            place = f"{column.dataset}, full features" if column.rate is None else place_of(column)
            for seed, message in sample.errors.items():
                failed.setdefault((label, place, message), {})[seed] = None
    summary.errors = [
        f"{label} on {place}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}: {message}"
        for (label, place, message), seeds in failed.items()
    ]
    summary.records = list(found.used.values())
    summary.mean_ranks = _mean_ranks(summary)
    return summary


def place_of(column: Column) -> str:
    """Dataset, mechanism and rate of a column, in words."""
    return f"{column.dataset}, {column.mechanism}, {column.rate:g} missing"


def _fill_column(summary: Summary, column: Column, samples: Mapping[str, Sample]) -> None:
    """Make the cells of one column."""
    need = set(range(summary.trials))
    complete = [label for label, sample in samples.items() if need <= sample.values.keys()]
    common = set.intersection(*(set(samples[label].values) for label in complete)) if complete else need
    cells: dict[str, Cell] = {}
    for row in summary.experiment.rows:
        cells[row.label] = Cell("none")
        if row.label in samples:
            cell = _cell(samples[row.label], common, row.label in complete)
            cells[row.label] = replace(cell, paper=_paper(summary.experiment, row, column))
    if column.better and len(complete) > 1:
        kept = {label: _over(samples[label], common) for label in complete}
        for label, rank in zip(complete, _ranks(column, [cells[label] for label in complete]), strict=True):
            cells[label] = replace(cells[label], rank=rank)
        _test(summary, column, kept, cells)
    by = summary.experiment.normalise_by
    if column.measure == "rmse" and by is not None and by in samples:
        reference = samples[by].values
        for label, sample in samples.items():
            cells[label] = replace(cells[label], ratio=_ratio(sample.values, reference, common))
    summary.cells.update({(label, column): cell for label, cell in cells.items()})


def _cell(sample: Sample, common: set[int], complete: bool) -> Cell:
    values = np.array([value for seed, value in sample.values.items() if seed in common])
    failed = len(sample.errors)
    if len(values) == 0:
        ran = "none" if sample.found else "not run"
        return Cell("error" if failed else ran, failed=failed)
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return Cell("ok" if complete else "partial", float(values.mean()), sd, len(values), failed)


def _over(sample: Sample, seeds: set[int]) -> Sample:
    """The sample on these seeds alone."""
    return replace(
        sample,
        values={s: v for s, v in sample.values.items() if s in seeds},
        pairs={s: v for s, v in sample.pairs.items() if s in seeds},
    )


def _ranks(column: Column, cells: Sequence[Cell]) -> list[float]:
    """Ranks of complete rows, the best first; means that differ by the rounding of records alone share a rank."""
    means = [float(f"{cell.mean:.6g}") for cell in cells]
    return [float(rank) for rank in rankdata(-column.better * np.array(means), method="average")]


def _test(summary: Summary, column: Column, samples: Mapping[str, Sample], cells: dict[str, Cell]) -> None:
    """Compare every ranked row with the best; rows as good as the best to the last digit are best too."""
    first = min(samples, key=lambda label: cells[label].rank or 0.0)
    best = samples[first]
    over = _paired_over(column, best, samples)
    tests: dict[str, PairedTest] = {}
    for label, sample in samples.items():
        if cells[label].rank == cells[first].rank:
            cells[label] = replace(cells[label], verdict="best")
            continue
        try:
            test = _compare(over, best, sample)
        except ValueError as error:
            summary.notes.append(f"{label} against {first} on {place_of(column)}: {error}.")
            test = None
        cells[label] = replace(cells[label], verdict="open", test=test)
        if test is not None:
            tests[label] = test
    if not tests:
        return
    summary.tested_by[column] = over
    family = pairs_of(len(samples))
    least = least_possible(list(tests.values()), family)
    if least > ALPHA:
        summary.too_few[column] = least
    for label, p in zip(tests, holm([test.p for test in tests.values()], family), strict=True):
        verdict = "behind" if p < ALPHA else "open" if max(least, tests[label].least) > ALPHA else "level"
        cells[label] = replace(cells[label], p=p, verdict=verdict)


def _paired_over(column: Column, best: Sample, samples: Mapping[str, Sample]) -> str:
    """What the rows of a column are compared over: trials, unless all of them have errors of single graphs or columns.

    One test for the whole column: marks that come from tests of different strength could not be read side by side.
    """
    if column.measure != "rmse" or any(sample.values.keys() > sample.pairs.keys() for sample in samples.values()):
        return "trial"
    named = best.names.keys() >= best.pairs.keys()
    return "named test graph" if best.over == "test graph" and named else str(best.over)


def _compare(over: str, best: Sample, other: Sample) -> PairedTest | None:
    if over == "trial":
        return compare_trials(best.values, other.values)
    return compare_pairs(best.pairs, other.pairs, None if over == "test graph" else best.names)


def _ratio(values: Mapping[int, float], reference: Mapping[int, float], common: set[int]) -> float | None:
    """Ratio of means over the seeds both have."""
    seeds = values.keys() & reference.keys() & common
    below = sum(reference[seed] for seed in seeds)
    return sum(values[seed] for seed in seeds) / below if below > 0 else None


def _paper(experiment: Experiment, row: Row, column: Column) -> float | None:
    if row.origin != "paper":
        return None
    return experiment.paper_value(row.label, column.dataset, column.mechanism, column.rate, column.measure)


def _mean_ranks(summary: Summary) -> dict[str, dict[str, MeanRank]]:
    """Mean ranks of each measure; of accuracy the first variant alone counts."""
    ranks: dict[str, dict[str, list[float]]] = {}
    counts: dict[str, int] = {}
    for column in summary.columns:
        found = {label: c.rank for (label, where), c in summary.cells.items() if where == column and c.rank is not None}
        if not found or column.variant not in (None, "centred"):
            continue
        counts[column.measure] = counts.get(column.measure, 0) + 1
        for label, rank in found.items():
            ranks.setdefault(column.measure, {}).setdefault(label, []).append(rank)
    return {
        measure: {label: MeanRank(float(np.mean(r)), len(r), counts[measure]) for label, r in by_row.items()}
        for measure, by_row in ranks.items()
    }

"""What stands under a table: how to read it, what was tested and how, the units, and where it was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from megae.bench.catalogue import Experiment
from megae.bench.show.samples import Column, Record
from megae.bench.show.significance import ALPHA, LEAST_TRIALS
from megae.bench.show.summary import Summary, place_of
from megae.bench.units import PAPER_UNITS

MOST_COMMANDS = 12


def legend(summary: Summary) -> list[str]:
    """How to read the figures."""
    measures = {column.measure for column in summary.columns}
    shown = set(summary.tested_by)
    lines = [
        f"Ours: mean ± standard deviation over {_count(summary.trials, 'trial')}. The paper's figures stand in columns "
        "of their own and enter no mean, rank or test; the paper gives no spread.",
        "A rank (#) counts rows with all trials, the best first. Bold: the best. ≈: not significantly worse than the "
        f"best (p ≥ {ALPHA:g}). ?: not tested, or too few pairs or trials to tell (a t-test takes at least "
        f"{LEAST_TRIALS}). All trials and no mark: significantly worse.",
    ]
    if "entropy_change" in measures:
        lines.append(
            "Entropy change: graph spectral entropy of the filled test graphs against the true ones, in percent. It "
            "describes a fill and is not ranked."
        )
    if "accuracy" in measures:
        lines.append(_accuracy(summary))
    if summary.experiment.normalise_by is not None:
        lines.append(f"Ratio: mean RMSE over that of the row {summary.experiment.normalise_by}, on the same trials.")
    return lines + (_tests(summary) if shown else [])


def _accuracy(summary: Summary) -> str:
    """What an accuracy is of, and what each way of preparing features does."""
    kinds = {column.of_graphs for column in summary.columns if column.measure == "accuracy"}
    what = " or ".join(["test graphs"] * (True in kinds) + ["test nodes"] * (False in kinds))
    ways = ["Features are prepared in two ways, the same for every method."]
    if True in kinds:
        ways.append(
            "Standardised (whole graphs): columns get mean 0 and deviation 1 over the training graphs; rows are not "
            "scaled."
        )
    if False in kinds:
        ways.append("Centred (nodes): column means are taken off, then rows are scaled to length 1.")
    ways.append(
        "Row-normalised: rows are divided by the sum of their absolute values, which erases what is left of features "
        "close to the column mean."
    )
    return f"Accuracy: share of {what} that a 2-layer GCN on the filled features gets right. {' '.join(ways)}"


def _tests(summary: Summary) -> list[str]:
    """What the p-values are."""
    kinds = set(summary.tested_by.values())
    lines = [
        "Significance: the best row against every other, two-sided. Which row is best was read off the same trials, so "
        "Holm's correction counts all pairs of ranked rows of a column.",
        *_which(summary),
    ]
    if "test graph" in kinds:
        lines.append(
            "Pairs are test graphs. A graph can be in the test part of several trials, so trials are not independent: "
            "each is tested for itself, and the p-values are combined as twice their median, which holds under any "
            "dependence."
        )
    if "named test graph" in kinds:
        lines.append(
            "Pairs are test graphs. A graph that is in the test part of several trials counts once, with the mean of "
            "its differences."
        )
    if "column" in kinds:
        lines.append(
            "Pairs are columns of the one graph, each counting once with the mean of its differences over the trials. "
            "Columns of one table are not independent: these p-values are about this table, and optimistic."
        )
    if "trial" in kinds:
        lines.append(
            "So few numbers as there are trials tell only large differences from chance, and trials share one dataset: "
            "take a t-test as a hint."
        )
    return lines + _too_few(summary)


def _which(summary: Summary) -> list[str]:
    """Which test was made of what, a sentence for each."""
    rmse = {column: kind for column, kind in summary.tested_by.items() if column.measure == "rmse"}
    pairs = [column for column, kind in rmse.items() if kind != "trial"]
    trials = [column for column, kind in rmse.items() if kind == "trial"]
    accuracy = [column for column in summary.tested_by if column.measure == "accuracy"]
    lines = []
    if pairs:
        lines.append(
            f"RMSE{_on(pairs, trials)}: Wilcoxon signed-rank test on errors in the unit shown, pair by pair. It asks "
            "whether the other row errs more on most pairs, the mean by how much: a row can have the best mean without "
            "being significantly better."
        )
    if trials:
        lines.append(
            f"RMSE{_on(trials, pairs)}: {_t_test(summary, trials)} on the figures shown, since not all records there "
            f"hold the errors of single {_singles(trials)} in this unit."
        )
    if accuracy:
        lines.append(f"Accuracy is one number per trial: a {_t_test(summary, accuracy)}.")
    return lines


def _on(columns: Sequence[Column], others: Sequence[Column]) -> str:
    """Where a test was made, if another was made elsewhere: whole datasets by name, of the rest each place."""
    if not others:
        return ""
    shared = {column.dataset for column in others}
    return " on " + ", ".join(dict.fromkeys(place_of(c) if c.dataset in shared else c.dataset for c in columns))


def _t_test(summary: Summary, columns: Sequence[Column]) -> str:
    sizes = sorted({c.test.trials for (_, where), c in summary.cells.items() if c.test and where in columns})
    return f"paired t-test over {' or '.join(map(str, sizes))} trials"


def _singles(columns: Sequence[Column]) -> str:
    kinds = {column.of_graphs for column in columns}
    return " or ".join(["test graphs"] * (True in kinds) + ["columns"] * (False in kinds))


def _too_few(summary: Summary) -> list[str]:
    """Columns where no difference could have become significant."""
    lines = []
    for column, least in summary.too_few.items():
        pairs = min(c.test.pairs for (_, where), c in summary.cells.items() if where == column and c.test is not None)
        lines.append(
            f"{place_of(column)}: {_count(pairs, 'pair')} per test cannot give a p-value below {least:.2g} with so "
            "many rows, so nothing there can be significant."
        )
    return lines


def units(summary: Summary) -> list[str]:
    """What RMSE is counted in; one sentence for each unit on the page."""
    if all(column.measure != "rmse" for column in summary.columns):
        return []
    datasets = dict.fromkeys(c.dataset for c in summary.columns if c.measure == "rmse")
    scales: dict[str, list[str]] = {}
    for dataset in datasets:
        words = PAPER_UNITS[dataset][0] if dataset in PAPER_UNITS else "the same as ours"
        scales.setdefault(words, []).append(dataset)
    listed = "; ".join(f"{', '.join(sets)}: {words}" for words, sets in scales.items())
    paper = (
        "Unit of the paper: an error is divided by a scale the paper does not state and its MEAN row gives away; it "
        f"uses hidden values, so the scorer alone knows it ({listed})."
    )
    ours = "Our unit: an error is divided by the range of its column over what training shows."
    chosen = "Our figures are in the unit of the paper, as the paper's are."
    if summary.unit == "ours":
        chosen = "Our figures are in our unit, the paper's in the unit of the paper: do not compare one with the other."
    headline = (
        "RMSE: the root of the mean square over the holes of a graph, averaged over test graphs; on one graph, over "
        "all its holes."
    )
    return [headline, chosen, *([ours, paper] if summary.unit == "ours" else [paper, ours])]


def origins(used: Sequence[Record]) -> list[tuple[str, str]]:
    """Name and value of each fact about the runs whose records are used: machines, versions, commands."""
    if not used:
        return [("Trials", "none has been run")]
    failed = sum(record["status"] != "ok" for record in used)
    facts = [("Trials", f"{len(used):,}" + (f", of which {failed:,} ended in an error" if failed else ""))]
    facts += [("Machine", line) for line in _counted(_machine(record) for record in used)]
    facts += [("Versions", line) for line in _counted(_versions(record) for record in used)]
    commands = _counted(str(record["surroundings"].get("command") or "not recorded") for record in used)
    facts += [("Command", line) for line in commands[:MOST_COMMANDS]]
    if len(commands) > MOST_COMMANDS:
        facts.append(("Command", f"and {len(commands) - MOST_COMMANDS} more"))
    return facts


def doubts(experiment: Experiment) -> list[str]:
    """What is unsure: about single rows, then about the whole."""
    rows = [f"{row.label}: {row.doubt}" for row in experiment.rows if row.doubt]
    return rows + list(experiment.doubts)


def lead(summary: Summary) -> str:
    """How far the runs are, in a sentence."""
    experiment = summary.experiment
    states: dict[tuple[str, str, str, float], set[str]] = {}
    for (label, column), cell in summary.cells.items():
        if column.rate is not None and cell.state != "none":
            states.setdefault((label, column.dataset, column.mechanism, column.rate), set()).add(cell.state)
    begun = sum(bool(found - {"not run"}) for found in states.values())
    whole = sum(found == {"ok"} for found in states.values())
    by = " by one mechanism" if len(experiment.mechanisms) > 1 else ""
    at = " at one rate" if len(experiment.rates) > 1 else ""
    source = f"{experiment.source.label} of {experiment.source.file}"
    beside = f"the paper's own figures ({source}) stand beside ours"
    if all(value.value is None for value in experiment.values):
        beside = f"the paper ({source}) prints no figure that could stand beside ours"
    trials = f"all {summary.trials} trials" if summary.trials > 1 else "their trial"
    return (
        f"{begun:,} of {_count(len(states), 'cell')} run so far, {whole:,} of them with {trials} (a cell is a row on "
        f"one dataset{by}{at}); {beside}."
    )


def _machine(record: Record) -> str:
    where = record["surroundings"]
    cores = f", {_count(where['cpu_count'], 'core')}" if where.get("cpu_count") else ""
    gpu = f", {where['gpu']}" if where.get("gpu") else ", no GPU"
    return f"{where.get('cpu') or 'unknown processor'}{cores}{gpu}, trained on {record.get('device') or 'cpu'}"


def _versions(record: Record) -> str:
    where = record["surroundings"]
    more = [f"{name} {version}" for name, version in (where.get("versions") or {}).items()]
    return ", ".join([f"megae {where.get('megae')}", f"Python {where.get('python')}", *more])


def _counted(lines: Iterable[str]) -> list[str]:
    """Distinct lines, the most frequent first, with how many trials each stands for where there is more than one."""
    counts = Counter(lines).most_common()
    return [line if len(counts) == 1 else f"{line} ({_count(n, 'trial')})" for line, n in counts]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"

"""Summaries as text: aligned Markdown, CSV that pandas reads back, HTML that escapes and scrolls."""

from __future__ import annotations

import io
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from show_cases import experiment, record, row, value
from test_bench_summary import noisy, trials

from megae.bench.catalogue import load_experiment
from megae.bench.show import FORMATS, render, summarise
from megae.bench.show.markdown import WIDEST
from megae.bench.show.render import CSV_COLUMNS
from megae.io.errors import InputError

ROWS = [
    row("MEAN", "mean", doubt="Whose mean is not said."),
    row("zero", "zero"),
    row("KNN", "knn", origin="ours"),
    row("SVD", "svd"),
    row("MICE", "mice"),
    row("GAIN", "gain"),
]
VALUES = [value("MEAN", 0.0602), value("SVD", 0.0783)]


@pytest.fixture
def made() -> list[dict]:
    """MEAN best, zero level with it, KNN behind, SVD partial, MICE failed, GAIN not run."""
    records = noisy("mean", 0.0, 0.01, 1) + noisy("zero", 0.0005, 0.01, 2) + noisy("knn", 0.05, 0.01, 3)
    records += trials("svd", [0.2, 0.3])
    return records + [record("mice", s, error="ValueError: `a` | <b>\nsecond line") for s in range(3)]


def lines_of(text: str) -> dict[str, list[str]]:
    """Cells of the first pipe table, by row label."""
    table = text.split("\n\n")[3].splitlines()
    return {(cells := [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]])[0]: cells[1:] for line in table}


def test_markdown_by_row(made):
    found = summarise(experiment(ROWS, VALUES), made)
    cells = lines_of(render(found, "markdown"))
    means = {label: f"{c.mean:.4f}" for (label, _), c in found.cells.items() if c.mean is not None}
    assert cells["row"] == ["RMSE", "#", "paper"]
    assert re.fullmatch(rf"\*\*{means['MEAN']}\*\* ± 0\.\d{{4}}", cells["MEAN"][0])
    assert re.fullmatch(rf"{means['zero']} +± 0\.\d{{4}} ≈", cells["zero"][0])
    assert re.fullmatch(rf"{means['KNN']} +± 0\.\d{{4}}", cells["KNN"][0]), "significantly worse: no mark"
    assert cells["SVD"] == ["0.2500   ± 0.0707 (2 of 3)", "–", "0.0783"]
    assert cells["MICE"] == ["error", "–", "–"]
    assert cells["GAIN"] == ["not run", "–", "–"]
    assert [cells[label][1:] for label in ("MEAN", "zero", "KNN")] == [["1", "0.0602"], ["2", "–"], ["3", "–"]]


def test_markdown_is_aligned_and_tells_its_origins(made):
    text = render(summarise(experiment(ROWS, VALUES), made))
    for block in text.split("\n\n"):
        if block.startswith("|"):
            assert len({len(line) for line in block.splitlines()}) == 1
            assert re.fullmatch(r"\|( :?-+:? \|)+", block.splitlines()[1])
    assert "- Machine: Test CPU, 2 cores, no GPU, trained on cpu" in text
    assert "- Versions: megae 0.1.0, Python 3.11.2, torch 2.13.0, numpy 2.4.0" in text
    assert "- Command: megae bench run toy" in text
    assert "- Trials: 14, of which 3 ended in an error" in text
    assert "- MEAN: Whose mean is not said." in text
    assert "- The unit is not stated." in text
    assert "- `MICE on ENZYMES, mcar, 0.1 missing, seeds 0, 1, 2: ValueError: 'a' | <b> second line`" in text
    assert "twice their median" in text


def test_several_machines_and_commands_are_counted(made):
    other = [record("gain", s, 0.1, gpu="Big GPU", command=f"megae bench run toy --seed {s}") for s in range(3)]
    text = render(summarise(experiment(ROWS, VALUES), made + other))
    assert "- Machine: Test CPU, 2 cores, no GPU, trained on cpu (14 trials)" in text
    assert "- Machine: Test CPU, 2 cores, Big GPU, trained on cpu (3 trials)" in text
    assert "- Command: megae bench run toy --seed 2 (1 trial)" in text


def test_labels_cannot_break_the_table():
    text = render(summarise(experiment([row("a|b", "mean"), row("c", "zero")]), trials("mean", [0.1] * 3)))
    assert "| a\\|b |" in text
    assert lines_of(text)["c"] == ["not run"]


def test_the_footer_says_which_test_was_made_where(made):
    table = experiment(ROWS, VALUES, datasets=["ENZYMES", "QM9"])
    text = render(summarise(table, made))
    assert "- RMSE: Wilcoxon signed-rank test on errors in the unit shown, pair by pair." in text
    assert "t-test over" not in text
    old = trials("mean", [0.1, 0.2, 0.3], dataset="QM9") + trials("zero", [0.2, 0.4, 0.5], dataset="QM9")
    text = render(summarise(table, [*made, *old]))
    assert "- RMSE on ENZYMES: Wilcoxon signed-rank test on errors in the unit shown" in text
    assert (
        "- RMSE on QM9: paired t-test over 3 trials on the figures shown, since not all records there hold the errors "
        "of single test graphs in this unit." in text
    )
    assert "take a t-test as a hint" in text


def test_the_footer_tells_places_of_one_dataset_apart():
    table = experiment(ROWS[:2], rates=[0.1, 0.3])
    made = noisy("mean", 0.0, 0.01, 1) + noisy("zero", 0.05, 0.01, 2)
    made += trials("mean", [0.1, 0.2, 0.3], rate=0.3) + trials("zero", [0.2, 0.4, 0.5], rate=0.3)
    text = render(summarise(table, made))
    assert "- RMSE on ENZYMES, mcar, 0.1 missing: Wilcoxon" in text
    assert "- RMSE on ENZYMES, mcar, 0.3 missing: paired t-test over 3 trials" in text


def test_rows_that_could_not_be_compared_are_marked_so():
    made = trials("mean", [0.1, 0.2]) + trials("zero", [0.2, 0.4])
    text = render(summarise(experiment(ROWS[:2]), made, trials=2))
    assert lines_of(text)["zero"][0].endswith("?")
    assert "a t-test takes at least 3" in text
    assert "Significance:" not in text


def test_units_are_explained_and_told_apart(made):
    table = experiment(ROWS, VALUES)
    paper, ours = (render(summarise(table, made, unit)) for unit in ("paper", "ours"))
    assert "ENZYMES: each column's range over the whole set" in paper
    assert "Our figures are in the unit of the paper" in paper
    assert lines_of(ours)["row"] == ["RMSE", "#", "paper, its unit"]
    assert "do not compare one with the other" in ours
    assert lines_of(ours)["MEAN"][2] == lines_of(paper)["MEAN"][2] == "0.0602", "the paper's figures stay as they are"


def test_accuracy_of_whole_graphs_stands_standardised_first_in_percent():
    table = experiment(ROWS[:2], [value("MEAN", 0.6206, measure="accuracy")], extras={"ENZYMES": ["accuracy"]})
    records = [
        record(m, s, 0.1, accuracy=(a + step * s, 0.5), extras=["accuracy"])
        for m, a, step in (("mean", 0.70, 0.01), ("zero", 0.6, 0.02)) for s in range(3)
    ]  # fmt: skip
    text = render(summarise(table, records))
    cells = lines_of(text)
    assert cells["row"] == ["accuracy % standardised", "#", "accuracy % row-normalised", "paper"]
    assert cells["MEAN"] == ["**71.00** ± 1.00", "1", "**50.00** ± 0.00", "62.06"]
    assert "a paired t-test over 3 trials" in text
    assert "RMSE: the root" not in text, "no unit is explained that is not on the page"


def accuracy_page(*datasets: str, form: str = "markdown") -> str:
    table = experiment(ROWS[:2], datasets=list(datasets), extras={name: ["accuracy"] for name in datasets})
    made = [record("mean", 0, 0.1, accuracy=(0.7, 0.6), extras=["accuracy"], dataset=name) for name in datasets]
    return render(summarise(table, made), form)


@pytest.mark.parametrize("form", FORMATS)
def test_accuracy_says_how_features_of_nodes_and_of_whole_graphs_were_prepared(form):
    nodes, graphs, both = (accuracy_page(*names, form=form) for names in (["Cora"], ["ENZYMES"], ["Cora", "ENZYMES"]))
    assert ("centred" in nodes, "standardised" in nodes) == (True, False)
    assert ("centred" in graphs, "standardised" in graphs) == (False, True)
    assert "centred" in both
    assert "standardised" in both


def test_the_footer_claims_no_scaling_of_rows_where_there_is_none():
    nodes, graphs, both = (accuracy_page(*names) for names in (["Cora"], ["ENZYMES"], ["Cora", "ENZYMES"]))
    assert "Accuracy: share of test nodes that" in nodes
    assert "Accuracy: share of test graphs that" in graphs
    assert "Accuracy: share of test graphs or test nodes that" in both
    centred = "Centred (nodes): column means are taken off, then rows are scaled to length 1."
    standardised = "mean 0 and deviation 1 over the training graphs; rows are not scaled."
    assert [centred in page for page in (nodes, graphs, both)] == [True, False, True]
    assert [standardised in page for page in (nodes, graphs, both)] == [False, True, True]


def test_the_lead_counts_cells_not_rows(made):
    table = experiment(ROWS, VALUES, datasets=["ENZYMES", "QM9"])
    lead = render(summarise(table, [*made, record("mean", 0, 0.1, dataset="QM9")])).split("\n\n")[1]
    assert lead.startswith("6 of 12 cells run so far, 3 of them with all 3 trials (a cell is a row on one dataset); ")
    rates = experiment([*ROWS[:2], row("GCNMF", "gcnmf"), row("full features", "full")], rates=[0.1, 0.3], trials=1)
    lead = render(summarise(rates, [record("mean", 0, 0.1, rate=0.3)])).split("\n\n")[1]
    assert lead.startswith("1 of 4 cells run so far, 1 of them with their trial (a cell is a row on one dataset at one")


def test_full_features_have_a_sentence():
    rows = [*ROWS[:2], row("full features", "full")]
    full = value("full features", 0.8, measure="accuracy", rate=None)
    table = experiment(rows, [full], extras={"ENZYMES": ["accuracy"]})
    records = [record("full", s, accuracy=(0.8, 0.7), extras=["accuracy"]) for s in range(3)]
    text = render(summarise(table, records))
    assert (
        "reference out of the ranking: 80.00 ± 0.00 standardised, 70.00 ± 0.00 row-normalised; the paper has 80.00."
        in text
    )
    assert "full features" not in lines_of(text)
    assert "ranking: not run; the paper has 80.00." in render(summarise(table, []))


def test_ratios_are_shown_where_the_experiment_normalises():
    records = trials("mean", [0.1] * 3) + trials("zero", [0.25] * 3)
    cells = lines_of(render(summarise(experiment(ROWS[:2], normalise_by="MEAN"), records)))
    assert cells["row"] == ["RMSE", "#", "/ MEAN"]
    assert (cells["MEAN"][2], cells["zero"][2]) == ("1.000", "2.500")


def test_increases_of_the_paper_are_shown_as_plain_errors():
    text = render(summarise(load_experiment("table5"), []))
    assert re.search(r"\| L_R +\| not run \| 0\.0292 \|", text)
    assert re.search(r"\| L_R \+ L_S +\| not run \| 0\.0223 \|", text)
    assert "| -29 |" in re.sub(" +", " ", text)


def test_wide_tables_are_taken_apart_in_markdown():
    text = render(summarise(load_experiment("table3"), []))
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    assert len(tables) > 2
    assert max(len(line) for block in tables for line in block.splitlines()) <= WIDEST
    heads = " ".join(block.splitlines()[0] for block in tables)
    assert heads.count("paper") == 10, "each rate of each dataset keeps its own"


def test_csv_comes_back_through_pandas(made):
    found = summarise(experiment(ROWS, VALUES), made)
    frame = pd.read_csv(io.StringIO(render(found, "csv")))
    assert tuple(frame.columns) == CSV_COLUMNS
    assert len(frame) == len(ROWS) * len(found.columns)
    for _, line in frame.iterrows():
        cell = found.cells[line["row"], found.columns[0]]
        for name, expected in (("mean", cell.mean), ("sd", cell.sd), ("rank", cell.rank), ("p_vs_best", cell.p)):
            assert pd.isna(line[name]) if expected is None else line[name] == pytest.approx(expected, rel=1e-15)
        assert line["n"] == cell.n
        assert line["unit"] == "paper"
    assert frame.set_index("row").loc["MEAN", "paper"] == 0.0602
    assert render(summarise(experiment(ROWS, VALUES), made, "ours"), "csv").splitlines()[1].split(",")[6] == "ours"


def test_csv_has_lines_for_variants_ratios_and_full_features():
    rows = [row('a,"b"', "mean"), row("full features", "full")]
    table = experiment(rows, extras={"ENZYMES": ["accuracy"]}, normalise_by='a,"b"')
    frame = pd.read_csv(io.StringIO(render(summarise(table, trials("mean", [0.1] * 3)), "csv")))
    assert list(frame["row"]) == ['a,"b"'] * 4 + ["full features"] * 2
    assert list(frame["measure"]) == [
        "rmse", 'rmse / a,"b"', "accuracy (standardised)", "accuracy (row-normalised)",
        "accuracy (standardised)", "accuracy (row-normalised)",
    ]  # fmt: skip
    assert list(frame["unit"]) == ["paper", "ratio", "share", "share", "share", "share"]
    assert frame["rate"].isna().tolist() == [False] * 4 + [True] * 2


class Cells(HTMLParser):
    """Text of table cells, and whether each is bold; tags in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.bold: list[str] = []
        self.tags: list[tuple[str, str | None]] = []
        self.path: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs).get("class")))
        if tag not in ("meta", "br", "img"):
            self.path.append(tag)
        if tag == "td":
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.path.pop() == tag

    def handle_data(self, data):
        if "td" in self.path:
            self.cells[-1] += data
        if self.path and self.path[-1] == "b" and "td" in self.path:
            self.bold.append(data)


def test_html_stands_alone_with_the_best_in_bold(made):
    found = summarise(experiment(ROWS, VALUES), made)
    page = render(found, "html")
    read = Cells(page)
    column = found.columns[0]
    assert read.path == []
    assert page.startswith("<!doctype html>")
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert read.bold == [f"{found.cells['MEAN', column].mean:.4f}"]
    assert read.cells[2] == "0.0602"
    assert any(cell.endswith("rank 2, p = " + f"{found.cells['zero', column].p:.2g}") for cell in read.cells)
    assert read.cells.count("not run") == read.cells.count("error") == 1
    tables = [i for i, (tag, _) in enumerate(read.tags) if tag == "table"]
    assert tables
    assert all(read.tags[i - 1][1].split()[0] == "scroll" for i in tables), "wide tables scroll in a box of their own"


def test_html_escapes_labels_and_messages():
    evil = "<script>alert(1)</script>&"
    table = experiment([row(evil, "mean", doubt=evil), row("b", "zero")], normalise_by=evil, title=evil)
    records = [*trials("mean", [0.1] * 3), record("zero", 0, error=evil, command=evil)]
    page = render(summarise(table, records), "html")
    assert "<script" not in page
    read = Cells(page)
    assert read.cells[0] == evil
    assert page.count("&lt;script&gt;") >= 6, "title, label, ratio, doubt, error and command"


def test_an_empty_experiment_renders_in_every_format():
    for name in ("table1", "figure3", "figure4"):
        found = summarise(load_experiment(name), [])
        for form in FORMATS:
            assert "none has been run" in render(found, form) or form == "csv"


def test_an_unknown_format_is_refused():
    with pytest.raises(InputError, match="format must be one of markdown, csv, html; got 'pdf'"):
        render(summarise(experiment(ROWS), []), "pdf")

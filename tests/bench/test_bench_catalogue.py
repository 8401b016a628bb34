"""The paper's tables as data: every number against the paper's source, and the loader's word on bad files.

Tests that read the source need the environment variable MEGAE_PAPER to name its folder.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tex_tables import Cell, environment, read_table, tabular, without_comments

from megae.bench.catalogue import FULL, METHODS, Experiment, Value, load_experiment, names, read_experiment
from megae.io import InputError

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "megae" / "bench" / "experiments"
TABLES = ["table1", "table2", "table3", "table4", "table5", "table8", "table9"]
BY_METHOD = [name for name in TABLES if name not in ("table4", "table5")]
FIGURES = ["figure1", "figure3", "figure4"]
SETS = {
    "PRO_full": "PROTEINS_full", "FRANKE": "FRANKENSTEIN", "FIRST_DB": "FIRSTMM_DB", "PubMed": "Pubmed",
    "CiteSeer": "Citeseer",
}  # fmt: skip
"""What the paper calls some datasets in its tables."""
HEADS = {
    **{name: (name, "rmse") for name in ("GWNN", "SGWT", "Ours", "L_R")},
    "L_R+L_S": ("L_R + L_S", "rmse"),
    "Delta_1": ("L_R", "entropy_change"),
    "Delta_2": ("L_R + L_S", "entropy_change"),
}
"""Columns of Tables 4 and 5: row and measure. Delta_1 stands beside L_R, whatever the caption says."""

Key = tuple[str, str, float | None, str]


@pytest.fixture(scope="module")
def paper() -> str:
    folder = os.environ.get("MEGAE_PAPER")
    if not folder:
        pytest.skip("MEGAE_PAPER is not set; name the folder that holds the paper's source in it")
    return (Path(folder) / "megae_aaai23.tex").read_text(encoding="utf-8")


def columns(rows: list[list[Cell]]) -> list[tuple[str, float, str]]:
    """Dataset, rate and measure of every column of a table that has a row for each method."""
    out = []
    for top, below in zip(rows[0][1:], rows[1][1:], strict=True):
        rate = re.search(r"(0\.\d+)\s+miss", below.text, re.IGNORECASE)
        measure = "accuracy" if "acc." in (top.text + below.text).lower() else "rmse"
        name = top.text.split(" (")[0]
        out.append((SETS.get(name, name), float(rate[1]) if rate else 0.1, measure))
    return out


def source_cells(source: str, name: str) -> dict[Key, str]:
    """Every number of a table's rows as printed, by row, dataset, rate and measure."""
    rows = read_table(source, name)
    out: dict[Key, str] = {}
    if name not in BY_METHOD:
        for row in rows[1:]:
            for head, cell in zip(rows[0][1:], row[1:], strict=True):
                label, measure = HEADS[head.text]
                out[label, SETS.get(row[0].text, row[0].text), 0.1, measure] = cell.text
        return out
    for row in rows[2:]:
        if row[0].text == "Performance gain":
            continue
        for (dataset, rate, measure), cell in zip(columns(rows), row[1:], strict=True):
            if cell.text != "-":
                out[row[0].text, dataset, rate, measure] = cell.text
    for (dataset, _, _), cell in zip(columns(rows), rows[0][1:], strict=True):
        if full := re.search(r"Acc\. = (\S+) with full", cell.text):
            out["full features", dataset, None, "accuracy"] = full[1]
    return out


def worth(text: str) -> Decimal:
    """The number a cell prints; percent as a share."""
    return Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)


def differences(experiment: Experiment, cells: dict[Key, str]) -> list[str]:
    """What the experiment and the source do not agree on, looked at from both sides."""
    ours = {(v.row, v.dataset, v.rate, v.measure): v for v in experiment.values if v.printed is not None}
    out = [f"{key}: the source prints nothing" for key in ours.keys() - cells.keys()]
    out += [f"{key}: the source prints {cells[key]}, the experiment nothing" for key in cells.keys() - ours.keys()]
    for key in ours.keys() & cells.keys():
        text, wanted = cells[key], worth(cells[key])
        if key[3] == "rmse" and text.startswith("+"):
            [base] = [worth(t) for k, t in cells.items() if k[1:] == key[1:] and not t.startswith("+")]
            wanted += base
        if ours[key].printed != text or ours[key].value != float(wanted):
            out.append(f"{key}: the source prints {text} ({wanted}), the experiment {ours[key]}")
    return out


@pytest.mark.parametrize("name", TABLES)
def test_every_number_is_the_papers_and_every_number_of_the_paper_is_there(paper, name):
    experiment = load_experiment(name)
    cells = source_cells(paper, name)
    assert len(cells) > 10
    assert differences(experiment, cells) == []
    printed_by = dict.fromkeys(key[0] for key in cells)
    assert [row.label for row in experiment.rows if row.origin == "paper"] == list(printed_by)


def rows_text(source: str, name: str) -> str:
    """The LaTeX of a table's rows, without header and performance gains, by the rules around them."""
    body = tabular(environment(without_comments(source), name))
    last = body.rindex("\\midrule") if name in BY_METHOD else body.index("\\bottomrule")
    return body[body.index("\\midrule") : last]


@pytest.mark.parametrize("name", TABLES)
def test_digits_counted_without_reading_cells(paper, name):
    raw = Counter(re.findall(r"[+-]?\d+\.\d+|[+-]\d+(?=\\%)", rows_text(paper, name)))
    values = [v for v in load_experiment(name).values if v.rate is not None]
    assert raw == Counter(v.printed.removesuffix("%") for v in values)


def off_by_a_digit(value: Value) -> Value:
    """Value and text both with another last digit, so that only the source can tell."""
    text = re.sub(r"\d(?=%?$)", lambda m: str((int(m[0]) + 1) % 10), value.printed)
    change = worth(text) - worth(value.printed)
    return replace(value, printed=text, value=float(Decimal(repr(value.value)) + change))


ALTERATIONS: dict[str, Callable[[Value], Value | None]] = {
    "digit": off_by_a_digit,
    "value alone": lambda v: replace(v, value=v.value + 0.0001),
    "text alone": lambda v: replace(v, printed=v.printed.replace("%", "0%") if "%" in v.printed else v.printed + "0"),
    "left out": lambda v: None,
    "other rate": lambda v: replace(v, rate=0.2),
    "no number": lambda v: replace(v, value=None, printed=None),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_the_comparison_reports_any_altered_number(paper, name, alteration):
    experiment, cells = load_experiment(name), source_cells(paper, name)
    for i, value in enumerate(experiment.values):
        altered = ALTERATIONS[alteration](value)
        values = [*experiment.values[:i], *([altered] if altered else []), *experiment.values[i + 1 :]]
        assert differences(replace(experiment, values=tuple(values)), cells), value


@pytest.mark.parametrize("name", TABLES)
def test_the_comparison_reports_swapped_numbers_and_an_altered_source(paper, name):
    experiment = load_experiment(name)
    one = experiment.values[0]
    two = next(v for v in experiment.values if v.printed != one.printed and v.measure == one.measure)
    swap = {one: replace(one, value=two.value, printed=two.printed), two: replace(two, value=one.value)}
    swapped = replace(experiment, values=tuple(swap.get(v, v) for v in experiment.values))
    assert len(differences(swapped, source_cells(paper, name))) == 2
    text = rows_text(paper, name)
    numbers = list(re.finditer(r"\d\.\d+", text))
    for number in numbers[:: len(numbers) // 4]:
        digit = str((int(number[0][-1]) + 1) % 10)
        source = paper.replace(text, text[: number.end() - 1] + digit + text[number.end() :])
        assert differences(experiment, source_cells(source, name)), number[0]


def gains(source: str, name: str) -> list[tuple[str, str, str]]:
    """Dataset, printed and computed gain, where "Performance gain" does not follow from the rows above it."""
    rows, cells, out = read_table(source, name), source_cells(source, name), []
    for (dataset, rate, measure), cell in zip(columns(rows), rows[-1][1:], strict=True):
        here = {k[0]: worth(t) for k, t in cells.items() if k[1:] == (dataset, rate, measure)}
        sign = 1 if measure == "rmse" else -1
        peers = [sign * (v - here["MEGAE"]) for k, v in here.items() if k != "MEGAE" and not k.startswith("Inv_")]
        for text, found in zip(cell.text.split(" | "), (min(peers), max(peers)), strict=True):
            if worth(text) != found:
                out.append((dataset, text, f"{100 * found:.2f}%" if measure == "accuracy" else f"{found:.4f}"))
    return out


@pytest.mark.parametrize("name", BY_METHOD)
def test_doubts_name_every_performance_gain_that_does_not_follow_from_the_rows(paper, name):
    told = [doubt for doubt in load_experiment(name).doubts if doubt.startswith("Performance gain")]
    wrong = gains(paper, name)
    assert len(told) == len(wrong)
    for doubt, words in zip(told, wrong, strict=True):
        assert all(word in doubt for word in words), (doubt, words)


def test_the_average_gain_of_table1_is_what_the_doubt_says(paper):
    cells = source_cells(paper, "table1")
    rmse = {k[:2]: float(worth(t)) for k, t in cells.items() if k[3] == "rmse"}

    def average(datasets: list[str], ablations: bool) -> str:
        best = {
            d: min(v for k, v in rmse.items() if k[1] == d and k[0] != "MEGAE" and (ablations or "Inv" not in k[0]))
            for d in datasets
        }
        return f"{100 * sum(1 - rmse['MEGAE', d] / best[d] for d in datasets) / len(datasets):.1f} %"

    every = list(load_experiment("table1").datasets)
    [doubt] = [doubt for doubt in load_experiment("table1").doubts if "on average" in doubt]
    claimed = re.search(r"achieves (\S+)\\% lower RMSE", paper)
    found = average(every, False), average(every, True), average([d for d in every if d != "Synthie"], True)
    assert re.findall(r"\d+\.\d %", doubt) == [f"{claimed[1]} %", *found]


@pytest.mark.parametrize("name", FIGURES)
def test_figures_without_numbers_have_none(paper, name):
    shown = environment(without_comments(paper), name)
    assert shown.startswith("\\begin{figure")
    assert "tabular" not in shown
    assert "\\includegraphics" in shown
    assert all(v.value is None and v.printed is None for v in load_experiment(name).values)


def test_what_runs_where():
    assert names() == sorted([*TABLES, *FIGURES])
    figure = load_experiment("figure3")
    assert (figure.mechanisms, figure.rates, figure.normalise_by) == (("mcar", "mnar", "mar"), (0.3,), "MEAN")
    assert [name for name in names() if load_experiment(name).kind == "spectra"] == ["figure1"]
    assert {row.settings["bands"] for row in load_experiment("figure4").rows} == {3, 6, 9, 12, 15, 20}


@pytest.mark.parametrize("name", names())
def test_names_are_those_of_this_package(name):
    from megae.datasets import CATALOGUE

    experiment = load_experiment(name)
    assert set(experiment.datasets) <= set(CATALOGUE)
    assert experiment.source.label == experiment.name
    assert experiment.doubts
    others = {"MEAN": "graph-mean", "GAE": "vgae", "full features": FULL, "column mean": "mean"}
    for row in experiment.rows:
        ours = row.settings or "MEGAE" in row.label
        plain = re.sub("[ _]", "-", re.sub(r" \(.*\)$", "", row.label).lower())  # a form of a method stands in brackets
        assert row.method == others.get(row.label, plain) or (row.method == "megae" and ours), row
    runs = [(row.method, json.dumps(row.settings, sort_keys=True)) for row in experiment.rows]
    assert len(set(runs)) == len(runs), "two rows run the same thing"
    floors = {"zero", "mean", "median", "feature-propagation", "knn"}
    assert {row.method for row in experiment.rows if row.origin == "floor"} <= floors
    if name in (*BY_METHOD, "figure3"):
        assert floors <= {row.method for row in experiment.rows}
    if name in BY_METHOD:
        assert "svd" in {row.method for row in experiment.rows}, "it fills tables of any width"


def test_every_method_is_known_and_takes_its_settings():
    from megae.imputers import REGISTRY

    assert set(REGISTRY) <= set(METHODS)
    for name in names():
        for row in load_experiment(name).rows:
            if row.method in REGISTRY:
                assert set(row.settings) <= set(inspect.signature(REGISTRY[row.method]).parameters), (name, row)


@pytest.mark.filterwarnings("ignore:the model does not help")
@pytest.mark.parametrize("name", ["table4", "table5", "figure4"])
def test_ablations_fit(name):
    import torch
    from torch_geometric.data import Data

    from megae import MEGAEImputer

    ring = torch.stack([torch.arange(24), (torch.arange(24) + 1) % 24])
    x = torch.sin(torch.arange(48.0)).reshape(24, 2)
    x[::5, 0] = torch.nan
    for row in load_experiment(name).rows:
        imputer = MEGAEImputer(**row.settings, max_steps=1, hidden=4, diagnose=False, random_state=0, device="cpu")
        assert not imputer.fit_transform(Data(x=x, edge_index=ring)).x.isnan().any()
        for key in {"bands", "frame"} & set(row.settings):
            assert imputer.config_[key] == row.settings[key]


def test_the_files_are_in_the_wheel(monkeypatch):
    from setuptools import Distribution

    monkeypatch.chdir(ROOT)
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]
    build = Distribution({"packages": ["megae"], "package_data": data}).get_command_obj("build_py")
    build.ensure_finalized()
    build.analyze_manifest()
    shipped = {Path(file).resolve() for file in build.find_data_files("megae", "megae")}
    assert {FOLDER / f"{name}.json" for name in names()} <= shipped


def test_loading_needs_no_torch():
    code = (
        "import sys; from megae.bench.catalogue import load_experiment, names; [load_experiment(n) for n in names()]; "
        "assert not {'torch', 'sklearn', 'pandas', 'scipy'} & set(sys.modules), 'heavy packages were loaded'"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, env=environ)
    assert done.returncode == 0, done.stderr


def test_paper_value():
    table3 = load_experiment("table3")
    assert table3.paper_value("PaGNN", "AmaPhoto", "mcar", 0.99, "accuracy") == 0.7151
    assert table3.paper_value("PaGNN", "AmaPhoto", "mcar", 0.99, "rmse") is None
    for rate in (None, 0.1, 0.99):
        assert table3.paper_value("full features", "Pubmed", "mcar", rate, "accuracy") == 0.7711
    assert load_experiment("table5").paper_value("L_R", "QM9", "mcar", 0.1, "entropy_change") == -0.18
    assert load_experiment("table5").paper_value("L_R", "QM9", "mcar", 0.1, "rmse") == 0.1584
    assert load_experiment("figure3").paper_value("GDN", "QM9", "mar", 0.3, "rmse") is None
    with pytest.raises(ValueError, match=r"table3 has no row 'PAGNN'; did you mean 'PaGNN'\?"):
        table3.paper_value("PAGNN", "AmaPhoto", "mcar", 0.99, "accuracy")
    for wrong in (("cora", "mcar", 0.1, "rmse"), ("Pubmed", "mar", 0.1, "rmse"), ("Pubmed", "mcar", 0.2, "rmse")):
        with pytest.raises(ValueError, match="table3 has no "):
            table3.paper_value("GDN", *wrong)
    with pytest.raises(ValueError, match="no measure 'pooled_rmse'"):
        table3.paper_value("GDN", "Pubmed", "mcar", 0.1, "pooled_rmse")


def test_an_unknown_experiment_names_the_nearest():
    with pytest.raises(ValueError, match=r"no experiment 'table_1'; did you mean 'table1'\?"):
        load_experiment("table_1")


WRONG: list[tuple[tuple[Any, ...], Any, str]] = [
    (("rows", 3, "origin"), "papr", r"rows\[3\]\.origin must be one of paper, ours, floor; got 'papr'"),
    (("rows", 3, "method"), "mise", r"rows\[3\]\.method must be one of .*mice"),
    (("rows", 3, "label"), "KNN", r"rows\[3\]\.label 'KNN' stands on an earlier row"),
    (("rows", 3, "label"), " KNN", r"rows\[3\]\.label must be text without spaces"),
    (("rows", 3, "settings"), {"a": [1]}, r"rows\[3\]\.settings\.a must be text, a number"),
    (("rows", 3, "setings"), {}, r"rows\[3\] has the unknown key 'setings'; did you mean 'settings'"),
    (("rows", -1, "settings"), {"a": 1}, r"rows\[\d+\]\.settings must be empty"),
    (("rows",), [], "rows must hold one row or more"),
    (("values", 0, "row"), "zero", r"values\[0\]\.row is 'zero' of origin 'floor'"),
    (("values", 0, "row"), "MEEN", r"values\[0\]\.row must be one of"),
    (("values", 0, "dataset"), "Cora", r"values\[0\]\.dataset must be one of"),
    (("values", 0, "mechanism"), "mar", r"values\[0\]\.mechanism must be one of mcar"),
    (("values", 0, "rate"), 0.3, r"values\[0\]\.rate must be one of 0\.1"),
    (("values", 0, "rate"), None, r"values\[0\]\.rate must be null for full features and for nothing else"),
    (("values", 0, "value"), 0.0603, r"values\[0\]\.value is 0\.0603, but printed '0\.0602'"),
    (("values", 0, "value"), None, r"values\[0\]\.value is None and printed '0\.0602'; give both"),
    (("values", 0, "value"), True, r"values\[0\]\.value must be a number"),
    (("values", 0, "printed"), "0,0602", r"values\[0\]\.printed must be a number"),
    (("values", 0, "printed"), "6.02%", r"values\[0\]\.printed is '6\.02%'; an RMSE"),
    (("values", 2, "measure"), "accuracy", r"values\[2\]\.measure is 'accuracy', so extras must name"),
    (("values", 1, "dataset"), "ENZYMES", r"values\[1\] gives rmse of row 'MEAN' on ENZYMES a second time"),
    (("extras", "Cora"), ["accuracy"], r"extras\.Cora must be one of ENZYMES.*got 'Cora'"),
    (("extras", "QM9"), ["acuracy"], r"extras\.QM9\[0\] must be one of accuracy, entropy"),
    (("rates",), [0.1, 0.1], r"rates\[1\] is 0\.1 once more"),
    (("rates",), [1.0], r"rates\[0\] must be a number between 0 and 1"),
    (("mechanisms",), "mcar", "mechanisms must be a list"),
    (("trials",), 0, "trials must be a whole number of 1 or more"),
    (("kind",), "table", "kind must be one of imputation, spectra"),
    (("source",), "table1", "source must be an object"),
    (("normalise_by",), "MEEN", "normalise_by must be one of MEAN"),
]


@pytest.mark.parametrize(("place", "content", "message"), WRONG, ids=lambda x: str(x)[:40])
def test_a_bad_file_is_refused_by_file_and_key(place, content, message):
    document = json.loads((FOLDER / "table1.json").read_text(encoding="utf-8"))
    assert read_experiment(document) == load_experiment("table1")
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = content
    with pytest.raises(InputError, match=f"^mine.json: {message}"):
        read_experiment(json.dumps(document), where="mine.json")
    with pytest.raises(InputError, match=message):
        read_experiment(document)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "mine.json: not JSON, line 1 column 2"),
        ('{"name": 1, "name": 2}', "mine.json: key 'name' stands twice"),
        ('{"trials": NaN}', "mine.json: NaN is not a number"),
        ("{}", "mine.json: the file has no key 'name'; add it"),
        ("[]", "mine.json: the file must be an object"),
    ],
)
def test_text_that_is_no_experiment_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        read_experiment(text, where="mine.json")

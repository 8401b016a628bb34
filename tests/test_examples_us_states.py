"""The US states example: the committed files are what the script makes, and say what the README says."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import os
import re
import zipfile
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "examples" / "us_states"


def read(path: Path) -> list[list[str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("us_states_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nodes_are_truth_with_documented_holes(make: ModuleType) -> None:
    nodes, truth = read(FOLDER / "nodes.csv"), read(FOLDER / "truth.csv")
    assert nodes[0] == truth[0] == ["state", *map(str, range(1929, 2010))]
    assert [row[0] for row in nodes] == [row[0] for row in truth]
    cells, full = np.array(nodes[1:])[:, 1:], np.array(truth[1:])[:, 1:]
    assert cells.shape == (48, 81)
    holes = cells == ""
    assert np.array_equal(cells[~holes], full[~holes])
    assert np.array_equal(holes, make.punch(48, 81))
    assert holes.sum() == 760
    assert not holes.all(axis=0).any()
    assert not holes.all(axis=1).any()
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"default_rng({make.SEED})" in readme
    assert f"probability {make.RATE}" in readme
    assert all(digest in readme for digest in make.SHA256.values())


def test_truth_is_complete_and_plausible() -> None:
    header, *rows = read(FOLDER / "truth.csv")
    income = {row[0]: dict(zip(header[1:], map(int, row[1:]), strict=True)) for row in rows}
    assert len(income) == 48
    assert income["Alabama"]["1929"] == 323
    assert income["Wyoming"]["2009"] == 42504
    # The Depression cut incomes, later decades multiplied them: shuffled rows or columns would show.
    assert all(years["1933"] < years["1929"] < years["1969"] < years["2009"] for years in income.values())
    assert income["Connecticut"]["2005"] > income["Mississippi"]["2005"]


def test_borders_are_real_once_each_and_connected() -> None:
    states = [row[0] for row in read(FOLDER / "truth.csv")[1:]]
    header, *edges = read(FOLDER / "edges.csv")
    assert header == ["source", "target"]
    assert len(edges) == 107
    assert len({frozenset(edge) for edge in edges}) == 107
    assert all(len(set(edge)) == 2 for edge in edges)
    near: dict[str, set[str]] = {state: set() for state in states}
    for a, b in edges:
        near[a].add(b)
        near[b].add(a)
    assert near["California"] == {"Oregon", "Nevada", "Arizona"}
    assert near["Maine"] == {"New Hampshire"}
    assert near["Florida"] == {"Georgia", "Alabama"}
    assert near["Washington"] == {"Oregon", "Idaho"}
    assert len(near["Tennessee"]) == len(near["Missouri"]) == 8
    reached, frontier = {"Maine"}, ["Maine"]
    while frontier:
        fresh = near[frontier.pop()] - reached
        reached |= fresh
        frontier += fresh
    assert reached == set(states)


def small_wheel(make: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, gal: str) -> Path:
    header = ",".join(['"Name"', '"STATE_FIPS"', *make.YEARS])
    body = [f'"{name}",{i},' + ",".join(f"{i}{year}" for year in make.YEARS) for i, name in enumerate("ABC")]
    content = {"usjoin.csv": "\n".join([header, *body, ""]), "states48.gal": gal}
    path = folder / "small.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in content.items():
            archive.writestr(f"{make.FOLDER}/{name}", text)
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in content.items()}
    monkeypatch.setattr(make, "SHA256", digests)
    return path


def test_make_reads_names_and_neighbours(make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = small_wheel(make, tmp_path, monkeypatch, "3\n0 1\n2\n1 1\n2\n2 2\n0 1\n")
    make.make(wheel, tmp_path)
    assert (tmp_path / "edges.csv").read_text() == "source,target\nA,C\nB,C\n"
    truth, nodes = read(tmp_path / "truth.csv"), read(tmp_path / "nodes.csv")
    assert truth[2] == ["B", *(f"1{year}" for year in range(1929, 2010))]
    holes = make.punch(3, 81)
    assert nodes[3][1:] == ["" if hole else cell for cell, hole in zip(truth[3][1:], holes[2], strict=True)]


@pytest.mark.parametrize(
    ("gal", "message"),
    [
        ("3\n0 1\n2\n1 1\n2\n2 1\n0\n", "one side"),
        ("3\n0 2\n2\n1 0\n\n2 1\n0\n", "line 3"),
        ("2\n", "holds 2"),
    ],
)
def test_make_refuses_broken_borders(
    make: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gal: str, message: str
) -> None:
    wheel = small_wheel(make, tmp_path, monkeypatch, gal)
    with pytest.raises(ValueError, match=message):
        make.make(wheel, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["small.whl"]


def test_make_refuses_another_source(make: ModuleType, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.whl", "w") as archive:
        archive.writestr(f"{make.FOLDER}/usjoin.csv", "changed")
    with pytest.raises(ValueError, match="sha256"):
        make.make(tmp_path / "other.whl", tmp_path)


def test_make_gives_the_committed_bytes(make: ModuleType, tmp_path: Path) -> None:
    wheel = os.environ.get("LIBPYSAL_WHEEL")
    if not wheel:
        pytest.skip("LIBPYSAL_WHEEL does not name the wheel of libpysal 4.14.1")
    make.make(Path(wheel), tmp_path)
    for name in ("nodes.csv", "edges.csv", "truth.csv"):
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes()


def test_scoring_code_of_the_readme_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import pandas as pd

    nodes, truth = (pd.read_csv(FOLDER / f"{name}.csv", index_col="state") for name in ("nodes", "truth"))
    nodes.fillna(truth * 1.1).to_csv(tmp_path / "filled.csv")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "us_states").symlink_to(FOLDER)
    monkeypatch.chdir(tmp_path)
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert len(code) == 1
    exec(compile(code[0], "README.md", "exec"), {})
    assert capsys.readouterr().out == "mean error 10.0% of the true income over 760 holes\n"

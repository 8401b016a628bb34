"""What the README and the docs show runs as it is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from megae.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "examples").glob("*/README.md"))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [body for name, body in FENCE.findall(page.read_text(encoding="utf-8")) if name == language]


def run_python(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the Python blocks of a page one after the other in one namespace, as a reader would."""
    monkeypatch.chdir(folder)
    (folder / "examples").symlink_to(ROOT / "examples")
    names: dict[str, Any] = {}
    for k, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{page.name}, Python block {k + 1}", "exec"), names)
    return names


@pytest.mark.filterwarnings("ignore:the (model|graph) does not help")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_python_blocks_of_the_readme(tmp_path, monkeypatch):
    names = run_python(ROOT / "README.md", tmp_path, monkeypatch)
    nodes, filled = names["nodes"], names["filled"]
    assert filled.index.equals(nodes.index)
    assert filled.columns.equals(nodes.columns)
    assert (filled.dtypes == nodes.dtypes).all()
    seen = nodes.notna().to_numpy()
    np.testing.assert_array_equal(filled.to_numpy()[seen], nodes.to_numpy()[seen])
    assert not filled.isna().any().any()
    np.testing.assert_array_equal(names["same"], filled)
    assert set(names["imputer"].diagnostics_["rmse"]) == {"megae", "graph_free", "mean", "propagation"}
    assert names["imputer"].diagnostics_["units"] == "each column's observed range"
    assert ((names["lower"] <= names["upper"]).to_numpy()).all()
    assert len(names["draws"]) == 5
    assert all(graph.x.isfinite().all() for graph in names["test_filled"])
    assert int(names["whole"].imputed_mask.sum()) == 22
    assert names["scores"].shape == (48, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["examples", "states.ckpt", "states.safetensors"]


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda p: p.name)
def test_the_python_blocks_of_the_docs(page, tmp_path, monkeypatch):
    run_python(page, tmp_path, monkeypatch)


def test_the_readme_opens_with_the_two_commands():
    first, second = blocks(ROOT / "README.md", "sh")[:2]
    assert [line.partition("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]
    assert second.splitlines() == ["pip install .", "megae demo"]
    assert len(blocks(ROOT / "README.md", "python")[0].splitlines()) == 5


def command_lines() -> list[tuple[str, str]]:
    """Every line of a shell block, on any page, that calls megae."""
    return [
        (page.name, line.partition("#")[0].strip())
        for page in PAGES
        for language in ("sh", "")
        for block in blocks(page, language)
        for line in block.splitlines()
        if line.startswith("megae ")
    ]


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_shown_commands_and_their_options_exist(page, line):
    group = typer.main.get_command(app)
    args = shlex.split(line)[1:]
    command = group.commands.get(args[0])
    assert command is not None, f"{page} shows {line!r}, which is no command"
    command.make_context(args[0], args[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_shown_make_targets_exist(page):
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for block in blocks(page, "sh"):
        for line in block.splitlines():
            if line.startswith("make "):
                assert line.split()[1] in targets

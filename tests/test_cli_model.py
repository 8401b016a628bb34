"""``--save-model`` and ``--model``: train once, fill again without training, refuse what does not fit."""

from __future__ import annotations

import json
import struct

import pytest

from megae.cli import main

CELLS = ["" if i % 4 == 1 else f"{i % 3}.25" for i in range(24)]
NODES = "id,x,y\n" + "".join(f"n{i},{i % 5}.5,{cell}\n" for i, cell in enumerate(CELLS))
EDGES = "s,t\n" + "".join(f"n{i},n{i + 1}\n" for i in range(23))
USUAL = ["impute", "nodes.csv", "--edges", "edges.csv"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a table, its graph, a model of one step and what it filled."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "nodes.csv").write_text(NODES)
    (folder / "edges.csv").write_text(EDGES)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        outputs = ["--out", "o.csv", "--save-model", "m.megae", "--intervals", "i.csv", "--report", "r.html"]
        assert main([*USUAL, *outputs, "--quiet", "--max-steps", "1", "--device", "cpu"]) == 0
    return folder


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    for path in trained.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def again(*more: str) -> int:
    return main([*USUAL, "--out", "again.csv", "--model", "m.megae", *more])


def test_a_loaded_model_fills_the_same_without_training(folder, monkeypatch):
    monkeypatch.setattr("megae.imputers.MEGAEImputer.fit", lambda *a, **k: pytest.fail("trained again"))
    assert again("--quiet") == 0
    assert (folder / "again.csv").read_bytes() == (folder / "o.csv").read_bytes()


def test_a_loaded_model_fills_other_rows_and_reordered_columns(folder):
    (folder / "nodes.csv").write_text("y,id,x\n1,a,\n,b,2.5\n2,c,0.5\n")
    (folder / "edges.csv").write_text("s,t\na,b\nb,c\n")
    assert again("--quiet") == 0
    assert ",," not in (folder / "again.csv").read_text()


def test_all_outputs_stand_and_intervals_hold_the_fill(folder):
    import pandas as pd

    bounds, filled = pd.read_csv("i.csv"), pd.read_csv("o.csv")
    assert (bounds["y_lower"] <= filled["y"] + 1e-9).all()
    assert (filled["y"] <= bounds["y_upper"] + 1e-9).all()
    assert "<html" in (folder / "r.html").read_text()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_intervals_hold_the_category_at_both_ends(folder, ending):
    import pandas as pd

    regions = ["" if i % 6 == 2 else ("urban", "rural, flat")[i % 2] for i in range(60)]
    rows = "".join(f'n{i},{i % 5}.5,"{r}",{"" if i % 4 == 1 else i % 3}\n' for i, r in enumerate(regions))
    (folder / "nodes.csv").write_text("id,income,region,y\n" + rows)
    (folder / "edges.csv").write_text("s,t\n" + "".join(f"n{i},n{i + 1}\n" for i in range(59)))
    args = ["--columns", "income,region,y", "--intervals", f"b.{ending}", "--coverage", "0.5", "--max-steps", "1"]
    assert main([*USUAL, "--out", "c.csv", *args, "--report", "c.html", "--quiet"]) == 0
    filled = pd.read_csv("c.csv")
    bounds = pd.read_csv("b.csv") if ending == "csv" else pd.read_parquet("b.parquet")
    assert bounds["region_lower"].tolist() == bounds["region_upper"].tolist() == filled["region"].tolist()
    assert [r for r, known in zip(bounds["region_lower"], regions, strict=True) if known] == [r for r in regions if r]
    assert (bounds["y_lower"] <= bounds["y_upper"]).all()


def test_training_figures_are_in_the_json(folder, capsys):
    assert again("--json") == 0
    assert {"megae", "mean", "propagation"} <= set(json.loads(capsys.readouterr().out)["diagnostics"]["rmse"])


def _newer(data: bytes) -> bytes:
    """The same file with every format version in its header raised."""
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    meta = header["__metadata__"]
    for key, value in meta.items():
        if "version" in key and value.isdigit():
            meta[key] = str(int(value) + 1000)
        elif value.startswith("{"):
            inner = json.loads(value)
            for name in inner:
                if "version" in name and isinstance(inner[name], int):
                    inner[name] += 1000
            meta[key] = json.dumps(inner)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[8 + size :]


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda data: data[: len(data) // 2], "m.megae"),
        (lambda data: data[:5], "m.megae"),
        (lambda data: b"{}" * 50, "m.megae"),
        (_newer, "upgrade megae"),
    ],
    ids=["truncated", "stub", "foreign", "newer"],
)
def test_bad_model_files(folder, capsys, spoil, word):
    path = folder / "m.megae"
    path.write_bytes(spoil(path.read_bytes()))
    assert again() == 2
    captured = capsys.readouterr()
    assert word in captured.err
    assert captured.err.count("\n") == 1
    assert not (folder / "again.csv").exists()


@pytest.mark.parametrize(
    ("nodes", "parts"),
    [
        ("id,x,z\nn1,1.5,2\nn2,,3\n", ["other columns", "lacks 'y'", "does not know 'z'"]),
        ("id,x\nn1,1.5\nn2,\n", ["lacks 'y'"]),
        ("id,x,y,z\nn1,1.5,2,3\nn2,,3,3\n", ["does not know 'z'", "--columns"]),
    ],
)
def test_a_model_for_other_columns_is_refused(folder, capsys, nodes, parts):
    (folder / "nodes.csv").write_text(nodes)
    assert again("--drop-unknown") == 2
    err = capsys.readouterr().err
    assert all(part in err for part in parts)
    assert not (folder / "again.csv").exists()


def test_missing_model_and_missing_edges(folder, capsys):
    assert main(["impute", "nodes.csv", "--out", "again.csv", "--model", "nope"]) == 2
    assert "--model nope does not exist" in capsys.readouterr().err
    assert main(["impute", "nodes.csv", "--out", "again.csv", "--model", "m.megae"]) == 2
    assert "--edges" in capsys.readouterr().err


def test_existing_model_is_refused_before_training(folder, capsys):
    args = ["impute", "nodes.csv", "--edges", "edges.csv", "--out", "again.csv", "--save-model", "m.megae"]
    assert main(args) == 2
    assert "--save-model m.megae exists already" in capsys.readouterr().err

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from megae.cli import main
from megae.datasets import CATALOGUE
from megae.datasets.facts import Counts, File, Variant

TOY = Counts(graphs=2, nodes=5, edges=3, features=1, classes=2)


def write_enzymes(root: Path, labels: str = "1\n2\n") -> None:
    (root / "ENZYMES").mkdir(parents=True)
    with zipfile.ZipFile(root / "ENZYMES" / "ENZYMES.zip", "w") as archive:
        archive.writestr("ENZYMES/ENZYMES_A.txt", "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n")
        archive.writestr("ENZYMES/ENZYMES_graph_indicator.txt", "1\n1\n1\n2\n2\n")
        archive.writestr("ENZYMES/ENZYMES_graph_labels.txt", labels)
        archive.writestr("ENZYMES/ENZYMES_node_attributes.txt", "0.5\n1\n2\n3\n4\n")


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small set in the place of ENZYMES, which the catalogue expects."""
    write_enzymes(tmp_path / "root")
    variant = replace(CATALOGUE["ENZYMES"].variants[0], whole=TOY, counts=TOY)
    monkeypatch.setitem(CATALOGUE, "ENZYMES", replace(CATALOGUE["ENZYMES"], variants=(variant,)))
    return tmp_path / "root"


def run(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    code = main(["data", *map(str, args)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", ["list", "get", "check", "info"])
def test_every_command_explains_itself(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert "--json" in out
    assert "--root" in out


def test_list_says_what_is_here(capsys, toy):
    code, out, _ = run(capsys, "list", "--root", toy)
    assert code == 0
    *lines, hint = out.splitlines()
    assert hint.startswith("absent: megae data get NAME downloads it")
    states = {line.split()[0]: line.split()[1] for line in lines}
    assert len(states) == 11
    assert states["ENZYMES"] == "here"
    assert states["digits"] == "embedded"
    assert states["Cora"] == "absent"
    code, out, _ = run(capsys, "list", "--root", toy, "--json")
    rows = {row["name"]: row for row in json.loads(out)["sets"]}
    assert rows["ENZYMES"]["folder"] == str(toy / "ENZYMES")
    assert rows["Cora"]["folder"] is None


def test_info_names_files_counts_and_traps(capsys, tmp_path):
    code, out, _ = run(capsys, "info", "Citeseer", "--root", tmp_path)
    assert code == 0
    assert "ind.citeseer.test.index from https://" in out
    assert "2,120 nodes, 3,679 edges, 3,703 attributes, 6 classes" in out
    assert "Table 7: 2,120 nodes" in out
    assert "15 nodes of the graph are in no feature file" in out
    code, out, _ = run(capsys, "info", "Citeseer", "--root", tmp_path, "--json")
    result = json.loads(out)
    assert result["paper"]["nodes"] == 2120
    assert result["variants"][0]["files"][0]["sha256"][0][0].startswith("d20de191")
    assert result["state"] == "absent"


def test_check_of_everything_explains_what_is_absent_and_succeeds(capsys, toy):
    code, out, err = run(capsys, "check", "--root", toy)
    assert (code, err) == (0, "")
    assert "ENZYMES        ok" in out
    assert "Table 6 differs" in out
    assert "note: Table 6 says 600 graphs, the files hold 2" in out
    assert f"put FRANKENSTEIN.zip (from https://www.chrsmrrs.com/graphkerneldatasets/) into {toy}{os.sep}" in out
    assert out.endswith("1 as expected, 9 not here, 0 wrong\n")


def test_a_named_set_that_is_absent_is_an_error(capsys, toy):
    code, out, err = run(capsys, "check", "ENZYMES", "Cora", "--root", toy)
    assert code == 2
    assert "1 as expected, 1 not here, 0 wrong" in out
    assert err == "megae: error: not as expected: Cora\n"
    code, out, err = run(capsys, "check", "Cora", "--root", toy, "--json")
    assert code == 2
    result = json.loads(out)
    assert (result["absent"], result["error"]) == (1, "not as expected: Cora")
    assert "put ind.cora.x" in result["sets"][0]["differences"][0]


def test_a_wrong_set_is_an_error_even_unnamed(capsys, tmp_path, monkeypatch):
    write_enzymes(tmp_path)
    code, out, err = run(capsys, "check", "--root", tmp_path)
    assert code == 2
    assert "wrong: ENZYMES: 2 graphs where 600 are expected" in out
    assert err == "megae: error: not as expected: ENZYMES\n"


def test_a_damaged_zip_is_reported_not_raised(capsys, toy):
    (toy / "ENZYMES" / "ENZYMES.zip").write_bytes(b"PK nothing")
    code, out, err = run(capsys, "check", "ENZYMES", "--root", toy, "--json")
    assert code == 2
    finding = json.loads(out)["sets"][0]
    assert finding["status"] == "wrong"
    assert "not a whole zip file" in finding["problems"][0]
    assert "Traceback" not in err


def test_check_of_the_embedded_set(capsys):
    code, out, _ = run(capsys, "check", "digits", "--json")
    assert code == 0
    assert json.loads(out)["sets"][0]["counts"]["graphs"] == 1797


@pytest.mark.parametrize("command", ["get", "check", "info"])
def test_an_unknown_name_lists_the_known(capsys, command):
    code, _, err = run(capsys, command, "Coral")
    assert code == 2
    assert "unknown dataset 'Coral'; known: AmaPhoto" in err


def test_a_root_that_is_no_folder_is_bad_input(capsys, tmp_path):
    code, _, err = run(capsys, "check", "--root", tmp_path / "gone")
    assert code == 2
    assert "is not a folder" in err


def test_get_of_what_is_here_downloads_nothing(capsys, toy):
    code, out, _ = run(capsys, "get", "ENZYMES", "--root", toy)
    assert code == 0
    assert out == f"ENZYMES is already in {toy / 'ENZYMES'} (megae data check ENZYMES examines it)\n"
    code, out, _ = run(capsys, "get", "digits", "--json")
    assert json.loads(out)["downloaded"] is False


def test_get_without_a_network_says_where_to_put_what(capsys, tmp_path, monkeypatch):
    file = File("FRANKENSTEIN.zip", "http://127.0.0.1:9/FRANKENSTEIN.zip")
    entry = replace(CATALOGUE["FRANKENSTEIN"], variants=(Variant((file,), TOY, TOY),))
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", entry)
    code, out, err = run(capsys, "get", "FRANKENSTEIN", "--root", tmp_path, "--json")
    assert code == 2
    assert err.count("\n") == 1
    assert "could not be reached" in err
    assert f"put FRANKENSTEIN.zip (from http://127.0.0.1:9/) into {tmp_path / 'FRANKENSTEIN'}{os.sep}" in err
    assert set(json.loads(out)) == {"error"}


@pytest.mark.parametrize("root", ["there", "new"])
def test_get_asks_nobody_when_downloads_are_forbidden(capsys, tmp_path, monkeypatch, root):
    def asked(*args, **options):
        raise AssertionError("the network was asked")

    (tmp_path / "there").mkdir()
    monkeypatch.setattr("requests.get", asked)
    monkeypatch.setenv("MEGAE_OFFLINE", "1")
    code, out, err = run(capsys, "get", "FRANKENSTEIN", "--root", tmp_path / root)
    assert (code, out) == (2, "")
    assert err.startswith("megae: error: MEGAE_OFFLINE is set, so nothing is downloaded, and FRANKENSTEIN is not here:")
    assert f"into {tmp_path / root / 'FRANKENSTEIN'}{os.sep}; or unset MEGAE_OFFLINE" in err
    assert [path.name for path in tmp_path.rglob("*")] == ["there"]
    code, out, _ = run(capsys, "get", "digits")
    assert (code, out) == (0, "digits is embedded: it needs no files\n")


@pytest.mark.data("ENZYMES", "PROTEINS_full", "QM9", "Synthie", "FIRSTMM_DB", "Cora", "Citeseer", "Pubmed", "AmaPhoto")
def test_check_passes_on_the_nine_real_sets(capsys, data_root, monkeypatch, tmp_path):
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *a, **kw: str(tmp_path))
    code, out, _ = run(capsys, "check", "--json")
    assert code == 0
    result = json.loads(out)
    assert result["ok"] + result["absent"] == 10
    status = {finding["name"]: finding["status"] for finding in result["sets"]}
    assert [name for name in status if status[name] != "ok"] in ([], ["FRANKENSTEIN"])

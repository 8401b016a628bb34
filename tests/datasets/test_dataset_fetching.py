"""Downloads: verified, put in place whole or not at all, and one clear sentence without a network."""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from dataset_cases import Server, tu_texts, write_planetoid, write_zip

from megae.cli import main
from megae.datasets import CATALOGUE, fetch, load
from megae.datasets.facts import Counts, Entry, File, Variant

TOY = Counts(graphs=3, nodes=6, edges=3, features=780, classes=2)


def frankenstein(server: Server, counts: Counts = TOY) -> Entry:
    file = File("FRANKENSTEIN.zip", f"{server.url}/FRANKENSTEIN.zip")
    return replace(CATALOGUE["FRANKENSTEIN"], variants=(Variant((file,), counts, counts),))


@pytest.fixture
def toy_zip(tmp_path: Path) -> bytes:
    return write_zip(
        tmp_path / "made.zip", tu_texts("FRANKENSTEIN", 780), "FRANKENSTEIN/", zipfile.ZIP_STORED
    ).read_bytes()


@pytest.fixture
def cora(server: Server, tmp_path: Path) -> Entry:
    """Cora's entry with small files, their digests pinned."""
    write_planetoid(tmp_path / "made", "cora")
    files = []
    for path in sorted((tmp_path / "made").iterdir()):
        server.files[path.name] = path.read_bytes()
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        files.append(File(path.name, f"{server.url}/{path.name}", ((sha256, "the official file"),), pinned=True))
    counts = Counts(1, 8, 5, 4, 3)
    return replace(CATALOGUE["Cora"], variants=(Variant(tuple(files), counts, counts),))


def test_load_fetches_into_the_user_cache(cache: Path, server: Server, toy_zip: bytes, monkeypatch) -> None:
    server.files["FRANKENSTEIN.zip"] = toy_zip
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", frankenstein(server))
    assert [tuple(g.x.shape) for g in load("FRANKENSTEIN")] == [(3, 780), (2, 780), (1, 780)]
    assert [p.relative_to(cache).as_posix() for p in sorted(cache.rglob("*"))] == [
        ".FRANKENSTEIN.lock",
        "FRANKENSTEIN",
        "FRANKENSTEIN/FRANKENSTEIN.zip",
    ]
    load("FRANKENSTEIN")
    assert len(server.ranges) == 1, "the second time it is read from the cache"


def test_get_makes_the_folder_it_is_told(cache: Path, server: Server, toy_zip: bytes, tmp_path, monkeypatch) -> None:
    server.files["FRANKENSTEIN.zip"] = toy_zip
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", frankenstein(server))
    root = tmp_path / "new" / "er"
    for downloads in (1, 1):
        assert main(["data", "get", "FRANKENSTEIN", "--root", str(root)]) == 0
        assert len(server.ranges) == downloads
    assert len(load("FRANKENSTEIN", root)) == 3
    assert not cache.exists()


def test_get_refuses_a_file_as_its_folder(cache: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["data", "get", "FRANKENSTEIN", "--root", str(tmp_path / "file")]) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_load_looks_into_megae_data_first(cache: Path, server: Server, toy_zip: bytes, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", frankenstein(server))
    root = tmp_path / "mine"
    write_zip(root / "FRANKENSTEIN" / "FRANKENSTEIN.zip", tu_texts("FRANKENSTEIN", 780))
    monkeypatch.setenv("MEGAE_DATA", str(root))
    assert len(load("FRANKENSTEIN")) == 3
    assert server.ranges == []
    assert not cache.exists()


def test_a_wrong_digest_is_refused(cora: Entry, server: Server, tmp_path: Path) -> None:
    server.files["ind.cora.graph"] += b"x"
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(ValueError, match=r"is not the official ind\.cora\.graph"):
        fetch(cora, root)
    assert not (root / "Cora" / "ind.cora.graph").exists()
    assert not list(root.rglob("*.part"))


def test_only_what_is_missing_is_fetched(cora: Entry, server: Server, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    folder = fetch(cora, root)
    assert folder == root / "Cora"
    assert sorted(p.name for p in folder.iterdir()) == sorted(server.files)
    (folder / "ind.cora.tx").unlink()
    before = len(server.ranges)
    fetch(cora, root)
    assert len(server.ranges) == before + 1


def test_without_a_known_digest_the_counts_decide(cache: Path, server: Server, toy_zip: bytes, caplog) -> None:
    server.files["FRANKENSTEIN.zip"] = toy_zip
    with pytest.raises(ValueError, match=r"not FRANKENSTEIN: 3 graphs where 4 are expected; nothing was kept"):
        fetch(frankenstein(server, replace(TOY, graphs=4)))
    assert not [p for p in cache.rglob("*") if p.suffix in (".zip", ".part")]
    server.files["FRANKENSTEIN.zip"] = b"<html>moved</html>"
    with pytest.raises(ValueError, match="not a whole zip"):
        fetch(frankenstein(server))
    assert not [p for p in cache.rglob("*") if p.suffix in (".zip", ".part")]
    server.files["FRANKENSTEIN.zip"] = toy_zip
    with caplog.at_level("WARNING"):
        fetch(frankenstein(server))
    assert "accepted because its counts are right" in caplog.text


def test_a_known_copy_needs_no_counts(cache: Path, server: Server, toy_zip: bytes, caplog) -> None:
    server.files["FRANKENSTEIN.zip"] = toy_zip
    wrong = frankenstein(server, replace(TOY, graphs=4))
    file = replace(wrong.variants[0].files[0], sha256=((hashlib.sha256(toy_zip).hexdigest(), "a copy"),))
    with caplog.at_level(logging.WARNING, "megae"):
        fetch(replace(wrong, variants=(replace(wrong.variants[0], files=(file,)),)))
    assert caplog.text == ""


def test_what_broke_off_is_resumed_by_the_next_call(cache: Path, server: Server, toy_zip: bytes, monkeypatch) -> None:
    monkeypatch.setattr("megae.datasets.resume.time.sleep", lambda seconds: None)
    server.files["FRANKENSTEIN.zip"] = toy_zip
    server.cut = [20_000, 0, 0, 0]
    with pytest.raises(FileNotFoundError, match="could not be reached"):
        fetch(frankenstein(server))
    parts = list(cache.rglob("*.part"))
    assert len(parts) == 1
    size = parts[0].stat().st_size
    assert 10_000 < size <= 20_000 < len(toy_zip)
    server.cut = []
    fetch(frankenstein(server))
    assert server.ranges[-1] == f"bytes={size}-"
    assert (cache / "FRANKENSTEIN" / "FRANKENSTEIN.zip").read_bytes() == toy_zip


def test_without_a_network_one_sentence_says_where_to_put_what(cache: Path, monkeypatch) -> None:
    file = File("FRANKENSTEIN.zip", "http://127.0.0.1:9/FRANKENSTEIN.zip")
    entry = replace(CATALOGUE["FRANKENSTEIN"], variants=(Variant((file,), TOY, TOY),))
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", entry)
    with pytest.raises(FileNotFoundError) as raised:
        load("FRANKENSTEIN")
    message = str(raised.value)
    assert "\n" not in message
    assert "http://127.0.0.1:9/FRANKENSTEIN.zip could not be reached" in message
    assert f"put FRANKENSTEIN.zip (from http://127.0.0.1:9/) into {cache / 'FRANKENSTEIN'}" in message
    assert "MEGAE_DATA" in message


def test_offline_asks_nobody(cache: Path, server: Server, toy_zip: bytes, monkeypatch) -> None:
    server.files["FRANKENSTEIN.zip"] = toy_zip
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", frankenstein(server))
    with pytest.raises(FileNotFoundError, match=r"put FRANKENSTEIN\.zip"):
        load("FRANKENSTEIN", download=False)
    monkeypatch.setenv("MEGAE_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match=r"put FRANKENSTEIN\.zip"):
        load("FRANKENSTEIN")
    assert server.ranges == []


def test_a_server_that_says_no_is_quoted(cache: Path, server: Server) -> None:
    with pytest.raises(FileNotFoundError, match=r"FRANKENSTEIN\.zip answered 404; FRANKENSTEIN is not here: put"):
        fetch(frankenstein(server))
    assert [p.name for p in cache.rglob("*")] == [".FRANKENSTEIN.lock"], "nothing was begun, so nothing else is left"


FETCH = """
import sys
from dataclasses import replace
from megae.datasets import CATALOGUE, fetch
from megae.datasets.facts import Counts, File, Variant

url, root = sys.argv[1:]
counts = Counts(graphs=3, nodes=6, edges=3, features=780, classes=2)
variant = Variant((File("FRANKENSTEIN.zip", url),), counts, counts)
print("ready", flush=True)
sys.stdin.readline()
print(fetch(replace(CATALOGUE["FRANKENSTEIN"], variants=(variant,)), root))
"""
"""A process that fetches a set once it is told to."""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("there", [True, False], ids=["good", "refused"])
def test_processes_that_want_the_same_set_wait_for_one_that_fetches_it(
    server: Server, toy_zip: bytes, tmp_path: Path, there: bool
) -> None:
    if there:
        server.files["FRANKENSTEIN.zip"] = toy_zip
    server.delay = 0.3
    command = [sys.executable, "-c", FETCH, f"{server.url}/FRANKENSTEIN.zip", str(tmp_path / "root")]
    with contextlib.ExitStack() as stack:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(4)]
        for process in running:
            stack.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.communicate(timeout=300) for process in running]
    folder = tmp_path / "root" / "FRANKENSTEIN"
    if there:
        assert [process.returncode for process in running] == [0] * 4, told
        assert {out for out, _ in told} == {f"{folder}\n"}
        assert [path.name for path in folder.iterdir()] == ["FRANKENSTEIN.zip"]
        assert len(server.ranges) == 1, "one of them fetched it"
    else:
        errors = [err.splitlines()[-1] for _, err in told]
        assert all("FRANKENSTEIN.zip answered 404; FRANKENSTEIN is not here: put" in error for error in errors), errors
        assert not folder.exists()


def test_a_folder_that_vanishes_is_made_again(cache: Path, server: Server, toy_zip: bytes) -> None:
    server.files["FRANKENSTEIN.zip"] = toy_zip
    for _ in range(2):
        fetch(frankenstein(server))
        shutil.rmtree(cache / "FRANKENSTEIN")
    assert len(server.ranges) == 2


def test_offline_refuses_before_it_makes_a_folder(cache: Path, server: Server, monkeypatch) -> None:
    monkeypatch.setenv("MEGAE_OFFLINE", "1")
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", frankenstein(server))
    with pytest.raises(FileNotFoundError, match=r"MEGAE_OFFLINE is set, so nothing is downloaded, .* put FRANKENSTEIN"):
        fetch(CATALOGUE["FRANKENSTEIN"])
    with pytest.raises(FileNotFoundError, match="MEGAE_OFFLINE is set"):
        load("FRANKENSTEIN", download=True)
    assert (server.ranges, cache.exists()) == ([], False)


class Terminal(io.StringIO):
    """What stands in for a terminal."""

    def isatty(self) -> bool:
        return True


def test_load_shows_a_bar_on_a_terminal_and_lines_elsewhere(
    cache: Path, server: Server, toy_zip: bytes, monkeypatch, caplog
) -> None:
    server.files["FRANKENSTEIN.zip"] = toy_zip
    monkeypatch.setitem(CATALOGUE, "FRANKENSTEIN", frankenstein(server))
    monkeypatch.setattr("megae.datasets.progress.EVERY", 0.0)
    told = []
    for level, stream in ((logging.INFO, Terminal()), (logging.WARNING, Terminal()), (logging.INFO, io.StringIO())):
        caplog.clear()
        with caplog.at_level(level, "megae"), monkeypatch.context() as patch:
            patch.setattr("sys.stderr", stream)
            load("FRANKENSTEIN")
        told.append((stream.getvalue(), [r.message for r in caplog.records if r.levelno == logging.INFO]))
        shutil.rmtree(cache / "FRANKENSTEIN")
    (bar, beside), quiet, (nothing, lines) = told
    assert "FRANKENSTEIN.zip" in bar
    assert "%" in bar or "kB" in bar
    assert beside == []
    assert quiet == ("", [])
    assert nothing == ""
    size = f"{len(toy_zip) / 1e6:.1f}"
    assert lines[0] == f"downloading {server.url}/FRANKENSTEIN.zip"
    assert lines[-1] == f"FRANKENSTEIN.zip: {size} of {size} MB"

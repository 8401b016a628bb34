"""Zips that try to leave their folder, or to fill the disk, are refused before anything is written."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest
from dataset_cases import tu_texts, write_zip

from megae.datasets.archive import extract_flat, open_zip
from megae.datasets.tu import read_tu_zip


@pytest.mark.parametrize(
    "name", ["../TOY_A.txt", "TOY/../../TOY_A.txt", "/tmp/TOY_A.txt", "C:/TOY_A.txt", "..\\TOY_A.txt"]
)
def test_members_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
    path = write_zip(tmp_path / "toy.zip", tu_texts())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), "1, 2\n")
    target = tmp_path / "a" / "b"
    target.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="leads out of its folder"):
        extract_flat(path, target, {"TOY_A.txt"})
    with pytest.raises(ValueError, match="leads out of its folder"):
        read_tu_zip(path, "TOY")
    assert sorted(tmp_path.rglob("*")) == before


def test_symbolic_links_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "toy.zip"
    link = zipfile.ZipInfo("TOY/TOY_A.txt")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ValueError, match=r"symbolic link 'TOY/TOY_A\.txt'"):
        extract_flat(path, tmp_path, {"TOY_A.txt"})


def test_a_bomb_is_refused_by_what_it_declares(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "toy.zip", {"TOY_A.txt": "0" * 1_000_000, "other.txt": "0" * 1_000_000})
    assert path.stat().st_size < 10_000
    with pytest.raises(ValueError, match=r"unpack to 2,000,000 bytes, more than the 1,500,000"):
        extract_flat(path, tmp_path, {"TOY_A.txt"}, limit=1_500_000)
    assert extract_flat(path, tmp_path, {"TOY_A.txt"}, limit=2_000_000) == {"TOY_A.txt"}


def test_a_member_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "toy.zip", {"TOY_A.txt": "0" * 100_000}, folder="")
    raw = path.read_bytes()
    path.write_bytes(raw.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match="not a whole zip"):
        extract_flat(path, tmp_path, {"TOY_A.txt"})
    assert (tmp_path / "TOY_A.txt").stat().st_size <= 10


def test_what_is_no_zip_is_said_to_be_none(tmp_path: Path) -> None:
    path = tmp_path / "toy.zip"
    path.write_text("<html>not found</html>")
    with pytest.raises(ValueError, match=r"toy\.zip is not a whole zip"), open_zip(path):
        pass
    whole = write_zip(tmp_path / "cut.zip", tu_texts()).read_bytes()
    (tmp_path / "cut.zip").write_bytes(whole[:-40])
    with pytest.raises(ValueError, match=r"cut\.zip is not a whole zip"):
        read_tu_zip(tmp_path / "cut.zip", "TOY")


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "toy.zip", {"a/TOY_A.txt": "1, 2\n", "b/TOY_A.txt": "2, 1\n"})
    with pytest.raises(ValueError, match=r"two members named TOY_A\.txt"):
        extract_flat(path, tmp_path, {"TOY_A.txt"})

"""Zip files from elsewhere, opened without trusting their names or sizes."""

from __future__ import annotations

import contextlib
import shutil
import stat
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

__all__ = ["LIMIT", "extract_flat", "open_zip"]

LIMIT = 2 * 1024**3
"""Bytes a zip may declare to unpack to."""


@contextlib.contextmanager
def open_zip(path: Path, limit: int = LIMIT) -> Iterator[zipfile.ZipFile]:
    """Open a zip whose members stay in their folder and unpack to no more than `limit` bytes.

    A member may not be read past the size it declares, so the declared sizes bound what is written.

    Parameters
    ----------
    path : path of the zip
    limit : int
        Bytes that all members together may declare.

    Raises
    ------
    ValueError
        If it is no zip, is damaged, or holds a member that is absolute, climbs out, is a link or is encrypted.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _check(path, member)
            total = sum(member.file_size for member in archive.infolist())
            if total > limit:
                raise ValueError(f"{path} would unpack to {total:,} bytes, more than the {limit:,} allowed; refused")
            yield archive
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, EOFError) as error:
        raise ValueError(f"{path} is not a whole zip file ({error}); fetch it again") from error


def _check(path: Path, member: zipfile.ZipInfo) -> None:
    name = member.orig_filename
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if ".." in parts or name.startswith(("/", "\\")) or PureWindowsPath(name).drive or "\0" in name:
        raise ValueError(f"{path} holds the member {name!r}, which leads out of its folder; refused")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise ValueError(f"{path} holds the symbolic link {name!r}; refused")
    if member.flag_bits & 0x1:
        raise ValueError(f"{path} holds the encrypted member {name!r}; refused")


def extract_flat(path: Path, folder: Path, names: Collection[str], limit: int = LIMIT) -> set[str]:
    """Write the members with these base names into a folder, whatever folders they lie in inside the zip.

    Parameters
    ----------
    path : path of the zip
    folder : path that takes the files
    names : collection of str
        Base names; other members are left alone.
    limit : int
        Bytes that all members together may declare.

    Returns
    -------
    set of str
        The names that were there.
    """
    done: set[str] = set()
    with open_zip(path, limit) as archive:
        for member in archive.infolist():
            name = PurePosixPath(member.filename).name
            if member.is_dir() or name not in names:
                continue
            if name in done:
                raise ValueError(f"{path} holds two members named {name}; refused, since either could be meant")
            with archive.open(member) as source, (folder / name).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            done.add(name)
    return done

"""Files that are either whole or not there: write beside the target, then rename."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["atomic_path", "remove_stale"]

STALE = 600.0
"""Seconds after which a temporary file belongs to nobody; writing one takes far less."""

_TEMPORARY = re.compile(r"\..{0,100}\.[0-9a-f]{12}\.tmp(\.[^.]*)?")


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Hand out a temporary file in the folder of `path`, and rename it to `path` if the block succeeds.

    The temporary file ends in the suffix of `path`, so writers that look at the suffix work. If the block
    raises, whatever the reason, the temporary file is removed and `path` stays as it was.

    Parameters
    ----------
    path : str or path-like
        Where the finished file shall lie. A symbolic link is followed; the mode of an existing file is kept.

    Yields
    ------
    pathlib.Path
        An empty file to write to.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with atomic_path(folder / "a.txt") as tmp:
    ...     _ = tmp.write_text("whole")
    >>> (folder / "a.txt").read_text(), len(list(folder.iterdir()))
    ('whole', 1)
    """
    target = Path(os.path.realpath(path))
    mode: int | None = None
    if target.exists():
        mode = target.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            raise OSError(f"{path} is {kind}; name a file to write to")
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder does not exist; make it first", str(target.parent))
    temporary = target.with_name(f".{target.stem[:100]}.{secrets.token_hex(6)}.tmp{target.suffix}")
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        _flush(temporary)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def remove_stale(folder: str | os.PathLike[str], age: float = STALE) -> None:
    """Remove temporary files in a folder that :func:`atomic_path` left there when its process was killed.

    Parameters
    ----------
    folder : path
    age : seconds since the last change; younger files may be someone's and stay
    """
    oldest = time.time() - age
    for path in Path(folder).iterdir():
        with contextlib.suppress(OSError):  # another run may tidy up too, and some folders may only be read
            if _TEMPORARY.fullmatch(path.name) and path.stat().st_mtime < oldest:
                path.unlink()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems refuse fsync on folders
            os.fsync(descriptor)
    finally:
        os.close(descriptor)

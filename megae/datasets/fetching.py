"""Download the official files of a set: resumed, verified, and put in place only when they are good."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from megae.datasets.checking import known_copy, mismatches
from megae.datasets.facts import Entry, File, Variant
from megae.datasets.places import absent, cache_folder, offline
from megae.datasets.progress import telling
from megae.datasets.reading import count, read_whole
from megae.datasets.resume import ResumingDownloader

__all__ = ["fetch"]

logger = logging.getLogger(__name__)


def fetch(entry: Entry, root: str | os.PathLike[str] | None = None, *, progress: bool | None = None) -> Path:
    """Download what is missing of a set; several processes may, and one of them does.

    A file whose digest is pinned must have it. Another one must be a known copy, or, where its bytes are of no known
    copy, parse and have the counts of the catalogue. What fails is deleted; what broke off is kept and resumed.

    Parameters
    ----------
    entry : Entry of the catalogue
    root : path, optional
        Folder that takes the folder of the set, and beside it an empty file ``.NAME.lock`` that stays: who removes a
        lock takes it from those that wait for it. The user cache without it.
    progress : bool, optional
        Whether to draw a bar on stderr, rather than log how far it is. Without it: on a terminal, unless the logger
        ``megae`` has been told to keep quiet.

    Returns
    -------
    path
        The folder that holds the files.
    """
    from filelock import FileLock

    variant = entry.official
    if variant is None:
        raise FileNotFoundError(f"{entry.name} cannot be downloaded; {absent(entry, root)}")
    if offline():
        raise FileNotFoundError(
            f"MEGAE_OFFLINE is set, so nothing is downloaded, and {absent(entry, root)}; or unset MEGAE_OFFLINE"
        )
    base = Path(root) if root is not None else cache_folder()
    base.mkdir(parents=True, exist_ok=True)
    folder = base / entry.name
    with FileLock(base / f".{entry.name}.lock"):
        try:
            for file in variant.files:
                if not (folder / file.name).is_file():
                    (folder / ".incoming").mkdir(parents=True, exist_ok=True)
                    _fetch_file(entry, variant, file, folder, root, progress)
        finally:
            with contextlib.suppress(OSError):  # they hold something worth keeping, or were never made
                (folder / ".incoming").rmdir()
                folder.rmdir()
    return folder


def _fetch_file(
    entry: Entry, variant: Variant, file: File, folder: Path, root: str | os.PathLike[str] | None, bar: bool | None
) -> None:
    import pooch
    import requests

    assert file.url is not None
    pinned = f"sha256:{file.sha256[0][0]}" if file.pinned else None
    incoming = folder / ".incoming"
    arrived = incoming / file.name
    arrived.unlink(missing_ok=True)
    with telling(file.name, file.url, bar) as report, _quiet(pooch.get_logger()):
        downloader = ResumingDownloader(incoming / f"{file.name}.part", report)
        try:
            pooch.retrieve(file.url, pinned, fname=file.name, path=incoming, downloader=downloader)
        except requests.RequestException as error:
            status = None if error.response is None else error.response.status_code
            why = f"could not be reached ({type(error).__name__})" if status is None else f"answered {status}"
            raise FileNotFoundError(f"{file.url} {why}; {absent(entry, root)}") from None
        except ValueError as error:
            raise ValueError(f"what {file.url} sent is not the official {file.name}: {error}") from error
    try:
        _accept(entry, variant, file, incoming)
    except ValueError:
        arrived.unlink()
        raise
    os.replace(arrived, folder / file.name)


def _accept(entry: Entry, variant: Variant, file: File, incoming: Path) -> None:
    if file.pinned:
        return
    copy = known_copy(incoming / file.name, file.sha256)
    if copy is not None:
        logger.info("%s is %s", file.name, copy)
        return
    try:
        graphs = read_whole(entry, replace(variant, files=(file,)), incoming)
        wrong = mismatches(count(graphs), variant.whole)
    except ValueError as error:
        raise ValueError(f"what {file.url} sent is not {entry.name}: {error}") from error
    if wrong:
        raise ValueError(f"what {file.url} sent is not {entry.name}: {'; '.join(wrong)}; nothing was kept")
    logger.warning("%s: its bytes are of no known copy; accepted because its counts are right", file.name)


@contextlib.contextmanager
def _quiet(log: logging.Logger) -> Iterator[None]:
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)

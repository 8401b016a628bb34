"""Where the files of a set are looked for, and what to say where they are not."""

from __future__ import annotations

import os
from pathlib import Path

from megae.datasets.facts import Entry, Variant

__all__ = ["absent", "cache_folder", "folders", "locate", "offline"]


def offline() -> bool:
    """Whether the environment variable ``MEGAE_OFFLINE`` forbids downloads."""
    return bool(os.environ.get("MEGAE_OFFLINE"))


def cache_folder() -> Path:
    """The user's cache folder of megae, which takes downloads."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("megae", appauthor=False)) / "datasets"


def folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders that may hold datasets, in the order they are searched.

    Parameters
    ----------
    root : path, optional
        The only one, where given. Without it: the environment variable ``MEGAE_DATA``, then the user cache.
    """
    if root is not None:
        if not Path(root).is_dir():
            raise FileNotFoundError(f"root {os.fspath(root)!r} is not a folder; pass the one that holds the datasets")
        return [Path(root)]
    named = os.environ.get("MEGAE_DATA")
    if not named:
        return [cache_folder()]
    if not Path(named).is_dir():
        raise FileNotFoundError(
            f"MEGAE_DATA names {named}, which is not a folder; name the one that holds the datasets"
        )
    try:
        return [Path(named), cache_folder()]
    except ImportError:  # without platformdirs there is no cache to look in
        return [Path(named)]


def locate(entry: Entry, root: str | os.PathLike[str] | None = None) -> tuple[Path, Variant] | None:
    """The folder that holds all files of a variant of the set, and the variant; None where there is none."""
    for base in folders(root):
        for variant in entry.variants:
            if all((base / entry.name / file.name).is_file() for file in variant.files):
                return base / entry.name, variant
    return None


def absent(entry: Entry, root: str | os.PathLike[str] | None = None) -> str:
    """One sentence: which files are missing, where they are published and where to put them."""
    wanted = entry.official or entry.variants[0]
    base = Path(root) if root is not None else folders()[0]
    lacking = [file for file in wanted.files if not (base / entry.name / file.name).is_file()]
    names = ", ".join(file.name for file in lacking)
    source = lacking[0].url.rsplit("/", 1)[0] + "/" if lacking and lacking[0].url else "the publisher"
    place = f"{base / entry.name}{os.sep}"
    other = "" if root is not None else f", or set MEGAE_DATA to the folder that holds {entry.name}{os.sep}"
    return f"{entry.name} is not here: put {names} (from {source}) into {place}{other}"

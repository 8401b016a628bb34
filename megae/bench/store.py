"""Records of trials: one JSON file each, whole or not there, found again by the hash of what was computed."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from megae.bench.protocol import PROTOCOL
from megae.bench.trials import Trial
from megae.io.atomic import atomic_path, remove_stale
from megae.io.errors import InputError


class Store:
    """A folder of records.

    Parameters
    ----------
    folder : path
        Made by :meth:`prepare`, or on the first write.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> trial = Trial("digits", "mcar", 0.1, 0, "mean")
    >>> store.find(trial) is None
    True
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, trial: Trial) -> Path:
        """Where the record of a trial lies."""
        return self.folder / trial.dataset / f"{trial.method}-{trial.key}.json"

    def find(self, trial: Trial) -> dict[str, Any] | None:
        """The record of a trial, or None where there is none, or it lacks one of the extras asked for."""
        record = self._stored(trial)
        return record if record is not None and set(trial.extras) <= set(record["trial"]["extras"]) else None

    def _stored(self, trial: Trial) -> dict[str, Any] | None:
        """The record of a trial, whatever extras it has."""
        path = self.path(trial)
        if not path.is_file():
            return None
        record = read_record(path)
        if record["key"] != trial.key:
            raise ValueError(f"{path} holds another trial than its name says; move it away")
        return record

    def done(self, trial: Trial) -> bool:
        """Whether the trial has been computed without an error."""
        record = self.find(trial)
        return record is not None and record["status"] == "ok"

    def left(self, trial: Trial) -> Trial | None:
        """What is left to run of a trial: None where it is done, else the trial with all extras that its record has.

        Experiments share trials and differ in extras; the record of a trial is to hold those of all of them.
        """
        if self.done(trial):
            return None
        record = self._stored(trial)
        if record is None or record["status"] != "ok":
            return trial
        return replace(trial, extras=tuple(sorted({*trial.extras, *record["trial"]["extras"]})))

    def write(self, record: dict[str, Any]) -> Path:
        """Keep a record; one of the same trial is replaced, but no figures by an error."""
        trial = Trial.from_dict(record["trial"])
        path = self.path(trial)
        if record["status"] != "ok" and self.done(trial.without_extras()):
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_text(record_text(record), encoding="utf-8")
        return path

    def prepare(self, trials: Iterable[Trial]) -> None:
        """Make the folders that records of these trials go into, and see that they can be written to.

        A trial may take hours, and what it measured would be lost.
        """
        for folder in dict.fromkeys(self.path(trial).parent for trial in trials):
            probe = folder / f".probe.{secrets.token_hex(6)}.tmp"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                try:
                    probe.write_bytes(b"megae")
                finally:
                    probe.unlink(missing_ok=True)
            except OSError as error:
                raise InputError(
                    f"records cannot be kept in {folder} ({error.strerror}); name a folder that can be written to "
                    "(--results on the command line)"
                ) from error

    def tidy(self) -> None:
        """Remove what runs that were killed while writing have left."""
        for folder in self.folder.glob("*/"):
            remove_stale(folder)

    def records(self, trials: Iterable[Trial] | None = None) -> Iterator[dict[str, Any]]:
        """The records of these trials that exist, or of all there are."""
        if trials is not None:
            for trial in trials:
                record = self.find(trial)
                if record is not None:
                    yield record
            return
        for path in sorted(self.folder.glob("*/*.json")):
            if not path.name.startswith("."):
                yield read_record(path)


def record_text(record: dict[str, Any]) -> str:
    """JSON with one line for each top-level key."""
    lines = [f" {json.dumps(k)}: {json.dumps(v, allow_nan=False, ensure_ascii=False)}" for k, v in record.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_record(path: Path) -> dict[str, Any]:
    """One record, checked for being one."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a record ({error}); remove it and run again") from error
    if not isinstance(record, dict) or not {"trial", "key", "status", "protocol"} <= record.keys():
        raise ValueError(f"{path} is not a record of a trial; remove it and run again")
    if record["protocol"] != PROTOCOL:
        raise ValueError(
            f"{path} was written under protocol {record['protocol']}, this is {PROTOCOL}; name another folder"
        )
    return record

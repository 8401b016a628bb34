"""Training state on disk: tensors in safetensors, the rest as JSON in its header. Whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import Any

import numpy as np
from torch import Tensor

from megae.io.atomic import atomic_path

FORMAT = "megae-checkpoint"
VERSION = 1


def fingerprint(*parts: Any) -> str:
    """A digest of configuration and data, to tell whether a checkpoint belongs to this run."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            part = part.detach().cpu().numpy()
        if isinstance(part, np.ndarray):
            digest.update(str((part.dtype, part.shape)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(json.dumps(part, sort_keys=True, default=str).encode())
    return digest.hexdigest()


def write_tensors(path: str | os.PathLike[str], tensors: dict[str, Tensor], header: dict[str, Any]) -> None:
    """Write tensors and a JSON header as one safetensors file, atomically."""
    from safetensors.torch import save_file

    plain = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(plain, temporary, metadata={"megae": json.dumps(_finite(header), allow_nan=False)})


def _finite(value: Any) -> Any:
    """The same structure with None where a number is not finite, which JSON cannot write."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_tensors(path: str | os.PathLike[str], expected: str, newest: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote; refuse what is truncated, foreign or from a newer version.

    Parameters
    ----------
    expected : str
        The ``format`` the header must hold.
    newest : int
        The largest ``version`` this code reads.
    """
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            meta = file.metadata() or {}
            try:
                header = json.loads(meta.get("megae", "null"))
            except json.JSONDecodeError:
                header = None
            ours = isinstance(header, dict) and header.get("format") == expected
            if not ours or not isinstance(header.get("version"), int):
                raise ValueError(f"{path} is not a {expected} file; it was written by something else")
            if header["version"] > newest:
                raise ValueError(
                    f"{path} has format version {header['version']}, this megae reads up to {newest}; upgrade megae"
                )
            return {name: file.get_tensor(name) for name in file.keys()}, header  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or truncated ({error}); copy or make it again") from error

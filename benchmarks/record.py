"""What every record holds beside its figures: the command, versions and hardware."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from megae import __version__
from megae.io.atomic import atomic_path

RESULTS = Path(__file__).parent / "results"


def surroundings() -> dict[str, Any]:
    """Command, versions and hardware of this run."""
    packages = ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn")
    return {
        "command": " ".join(["python", "-m", *_module(), *sys.argv[1:]]),
        "megae": __version__,
        "python": platform.python_version(),
        "versions": {p: version(p) for p in packages},
        "cpu_count": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def _module() -> list[str]:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return [spec.name] if spec is not None else [sys.argv[0]]


def write_record(path: Path, figures: dict[str, Any]) -> None:
    """Write figures and surroundings as JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps({**surroundings(), **figures}, indent=1) + "\n")

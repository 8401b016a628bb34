"""What all tests share: quiet threads, no window, the same examples every time, and honest skips."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import hypothesis
import pytest

hypothesis.settings.register_profile("megae", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("megae")


def missing_data(names: Iterable[str]) -> str | None:
    """Why the datasets of these names cannot be used, or None where all are there."""
    root = os.environ.get("MEGAE_DATA")
    if not root:
        return "MEGAE_DATA is not set; name the folder that holds the datasets in it"
    if not Path(root).is_dir():
        return f"MEGAE_DATA names {root}, which is not a folder"
    lacking = [name for name in names if not (Path(root) / name).is_dir()]
    return f"MEGAE_DATA has no folder {', '.join(lacking)}" if lacking else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run, and say why.

    ``@pytest.mark.data("ENZYMES")`` needs that dataset, ``@pytest.mark.gpu`` a CUDA device.
    """
    for mark in item.iter_markers("data"):
        reason = missing_data(mark.args)
        if reason is not None:
            pytest.skip(reason)
    if item.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no CUDA device")


@pytest.fixture
def data_root(request: pytest.FixtureRequest) -> Path:
    """The folder of the datasets; skips where there is none."""
    names = [name for mark in request.node.iter_markers("data") for name in mark.args]
    reason = missing_data(names)
    if reason is not None:
        pytest.skip(reason)
    return Path(os.environ["MEGAE_DATA"])

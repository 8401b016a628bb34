"""What all tests share: quiet threads, no window or proxy, the same examples every time, and honest skips."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

os.environ["MPLBACKEND"] = "Agg"
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import hypothesis
import pytest
from ticking import Ticking

hypothesis.settings.register_profile("megae", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("megae")

for _name in ("http_proxy", "https_proxy", "all_proxy"):  # the servers that tests talk to are on this machine
    os.environ.pop(_name, None)
    os.environ.pop(_name.upper(), None)
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "*"


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


@pytest.fixture(autouse=True)
def same_draws() -> Iterator[None]:
    """Every test begins with the same global generators and as many threads, whichever ran before it."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def data_root(request: pytest.FixtureRequest) -> Path:
    """The folder of the datasets; skips where there is none."""
    names = [name for mark in request.node.iter_markers("data") for name in mark.args]
    reason = missing_data(names)
    if reason is not None:
        pytest.skip(reason)
    return Path(os.environ["MEGAE_DATA"])


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> Ticking:
    """The clock of training moves on by a minute whenever it is looked at."""
    clock = Ticking()
    clock.pace_training(monkeypatch)
    return clock


@pytest.fixture
def own_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ray starts a cluster for two jobs on this machine, whatever its cores, load and memory, and joins no other."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for name in ("raylet_start_wait_time_s", "worker_register_timeout_seconds", "py_gcs_connect_timeout_s"):
        monkeypatch.setenv(f"RAY_{name}", "300")
    monkeypatch.setenv("RAY_agent_register_timeout_ms", "300000")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")  # or its workers wait for all else that the machine does
    ray = pytest.importorskip("ray")
    start = functools.partial(ray.init, address="local", num_cpus=2, object_store_memory=2**27)

    def patiently(**settings: Any) -> Any:
        for more in (True, True, False):  # some of its limits are fixed
            try:
                return start(**settings)
            except Exception:
                ray.shutdown()
                if not more:
                    raise
        return None

    monkeypatch.setattr(ray, "init", patiently)
    assert not ray.is_initialized()
    yield
    ray.shutdown()

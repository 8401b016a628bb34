from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dataset_cases import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user cache of the test's own, and no MEGAE_DATA."""
    folder = tmp_path / "cache"
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda *a, **kw: str(folder))
    monkeypatch.delenv("MEGAE_DATA", raising=False)
    monkeypatch.delenv("MEGAE_OFFLINE", raising=False)
    return folder / "datasets"

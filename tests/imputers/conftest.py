"""Every test that asks for ``name`` runs once per registered imputer."""

from __future__ import annotations

import pytest

from megae.imputers import REGISTRY


@pytest.fixture(params=sorted(REGISTRY))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)

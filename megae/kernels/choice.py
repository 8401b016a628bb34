"""Which implementation runs the filter: chosen by device, or by hand."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any

from megae.kernels.operator import FilterOperator, OwnFilter

BACKENDS = {
    "numba": "megae.kernels.cpu",
    "triton": "megae.kernels.gpu",
    "torch": "megae.kernels.sparse",
    "dense": "megae.kernels.blocks",
}
"""Name -> module with ``bandwise``, ``expand`` and ``contract``."""

VARIABLE = "MEGAE_FILTER"

_forced: ContextVar[str | None] = ContextVar("megae_filter", default=None)


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Run the filter by one implementation while the context lasts, backward passes included.

    Parameters
    ----------
    name : {"auto", "numba", "triton", "torch", "dense"}
        ``auto`` takes the fastest one that is installed and fits the device; ``dense`` suits many small graphs. The
        environment variable ``MEGAE_FILTER`` does the same for a whole process.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, torch
    >>> from megae.kernels import apply, use_backend
    >>> L = sp.csr_array([[1.0, -1.0], [-1.0, 1.0]])
    >>> with use_backend("torch"):
    ...     apply(L, torch.ones(2, 1, 1), np.array([[0.0, 1.0]])).flatten()
    tensor([-1., -1.])
    """
    token = _forced.set(_checked(name, "use_backend"))
    try:
        yield
    finally:
        _forced.reset(token)


def backend_for(operator: FilterOperator | OwnFilter) -> Any:
    """The module, or the operator's own class, whose ``bandwise``, ``expand`` and ``contract`` filter with it."""
    if isinstance(operator, OwnFilter):
        return type(operator)
    name = _forced.get() or _checked(os.environ.get(VARIABLE) or "auto", VARIABLE)
    kind = operator.device.type
    if name == "auto":
        return _automatic(kind)
    if name == ("triton" if kind == "cpu" else "numba"):
        raise ValueError(f"the filter {name!r} does not run on a {kind} device; use 'auto' or 'torch'")
    try:
        return backend_by_name(name)
    except ImportError as error:
        raise ImportError(
            f"the filter {name!r} cannot run here ({error}); install what it needs, or take 'auto'"
        ) from error


@cache
def _automatic(kind: str) -> ModuleType:
    wanted = {"cpu": "numba", "cuda": "triton"}.get(kind, "torch")
    try:
        return backend_by_name(wanted)
    except ImportError:
        return backend_by_name("torch")


def backend_by_name(name: str) -> ModuleType:
    """The module of an implementation; ImportError where what it needs is not installed."""
    return importlib.import_module(BACKENDS[name])


def _checked(name: str, where: str) -> str:
    if name != "auto" and name not in BACKENDS:
        raise ValueError(f"{where} must be one of auto, {', '.join(BACKENDS)}, got {name!r}")
    return name

"""The methods a benchmark can run: imputers, classifiers that take holes, and complete features."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from megae.bench.catalogue import FULL, Experiment
from megae.downstream import CLASSIFIERS
from megae.imputers import REGISTRY


def available() -> set[str]:
    """Names of everything there is to run."""
    return {*REGISTRY, *(name for name, cls in CLASSIFIERS.items() if cls.takes_holes), FULL}


def arguments(method: str) -> set[str]:
    """Names of the constructor arguments of a method."""
    known: Mapping[str, type[Any]] = {**CLASSIFIERS, **REGISTRY}
    return set(inspect.signature(known[method].__init__).parameters) - {"self"} if method in known else set()


def with_settings(experiment: Experiment, settings: Mapping[str, Any]) -> Experiment:
    """The experiment with these settings added to every row whose method has an argument of that name."""
    for name in settings:
        if not any(name in arguments(row.method) for row in experiment.rows):
            there = sorted(set().union(*(arguments(row.method) for row in experiment.rows)))
            known = f"they have {', '.join(there)}" if there else "they have none"
            raise ValueError(f"no method of this run has a setting named {name!r}; {known}")
    rows = []
    for row in experiment.rows:
        has = arguments(row.method)
        rows.append(replace(row, settings={**row.settings, **{k: v for k, v in settings.items() if k in has}}))
    return replace(experiment, rows=tuple(rows))


def describe_methods() -> list[dict[str, Any]]:
    """Name, kind, whether it works on graphs it has not seen, whether it trains on a device, and what it costs.

    After the imputers come the classifiers that take features with holes and fill none, of kind "classifier". Costs are
    those of 10,000 nodes and 50 columns, from ``costs.json``, which ``python -m benchmarks.costs`` wrote; None where it
    has not been measured.
    """
    path = files("megae.bench").joinpath("costs.json")
    costs = json.loads(path.read_text(encoding="utf-8"))["methods"] if path.is_file() else {}
    kinds = {name: (cls.kind, cls.inductive) for name, cls in REGISTRY.items()}
    kinds |= {name: ("classifier", True) for name, cls in CLASSIFIERS.items() if cls.takes_holes}
    return [
        {
            "name": name,
            "kind": kind,
            "inductive": inductive,
            "trains": "device" in arguments(name),
            "cost": costs.get(name),
        }
        for name, (kind, inductive) in kinds.items()
    ]

"""A trial: one method, dataset, mechanism, rate and seed; and the grid of trials that an experiment asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from megae.bench.catalogue import CLASSIFIERS, FULL, Experiment
from megae.bench.protocol import PROTOCOL

WITHOUT_FILLS = frozenset({FULL, *CLASSIFIERS})
"""Rows that have an accuracy and no imputation error."""

FULL_AT = ("mcar", 0.1)
"""Where complete features are filed: they are the same at every mechanism and rate, and computed once."""


@dataclass(frozen=True)
class Trial:
    """What is computed, and nothing about where or how fast.

    Parameters
    ----------
    settings : constructor arguments of the method, beside its seed, device and verbosity
    extras : what is measured beside the error: "accuracy", "entropy", "spectra"

    Examples
    --------
    >>> one = Trial("ENZYMES", "mcar", 0.1, 0, "megae", {"preset": "paper"}, ("accuracy",))
    >>> one.key == Trial("ENZYMES", "mcar", 0.1, 0, "megae", {"preset": "paper"}).key
    True
    """

    dataset: str
    mechanism: str
    rate: float
    seed: int
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    extras: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A hash of everything the result depends on; extras are measured on the same result, so they stay out."""
        what = {k: v for k, v in self.to_dict().items() if k != "extras"} | {"protocol": PROTOCOL}
        return hashlib.sha256(json.dumps(what, sort_keys=True, allow_nan=False).encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """What to call it in a log line."""
        given = sorted(self.settings.items())
        more = "".join(f" {k}={v:.4g}" if isinstance(v, float) else f" {k}={v}" for k, v in given)
        return f"{self.dataset} {self.mechanism} {self.rate:g} seed {self.seed}: {self.method}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "dataset": self.dataset,
            "mechanism": self.mechanism,
            "rate": self.rate,
            "seed": self.seed,
            "method": self.method,
            "settings": dict(self.settings),
            "extras": sorted(self.extras),
        }

    def without_extras(self) -> Trial:
        """The same trial, asking for the error alone: any record of it will do."""
        return replace(self, extras=())

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Trial:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**value, "extras": tuple(value["extras"])})


def narrow(
    experiment: Experiment,
    *,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    rates: Sequence[float] | None = None,
    trials: int | None = None,
    accuracy: bool = True,
) -> Experiment:
    """A part of an experiment.

    Parameters
    ----------
    datasets, rates : which of those of the experiment; None for all
    methods : names of methods or labels of rows; None for all
    trials : how many seeds; None for as many as the experiment has
    accuracy : False leaves classification out

    Examples
    --------
    >>> from megae.bench.catalogue import load_experiment
    >>> part = narrow(load_experiment("table1"), datasets=["QM9"], methods=["megae", "MEAN"])
    >>> [row.label for row in part.rows]
    ['MEAN', 'MEGAE', 'MEGAE (default)']
    """
    kept = _chosen("dataset", datasets, experiment.datasets, experiment.name)
    rows = list(experiment.rows)
    if methods is not None:
        known = {row.label for row in rows} | {row.method for row in rows}
        for name in methods:
            if name not in known:
                every = ", ".join(dict.fromkeys(row.method for row in rows))
                labels = [row.label for row in rows if row.label != row.method]
                also = f", or a row by its label, such as {labels[0]!r}" if labels else ""
                raise ValueError(f"{experiment.name} has no method {name!r}; choose among {every}{also}")
        rows = [row for row in rows if row.label in methods or row.method in methods]
    count = experiment.trials if trials is None else trials
    if count < 1:
        raise ValueError(f"trials must be at least 1, got {count}")
    extras = {name: tuple(e for e in experiment.extras.get(name, ()) if accuracy or e != "accuracy") for name in kept}
    return replace(
        experiment,
        datasets=tuple(kept),
        rates=tuple(_chosen("rate", rates, experiment.rates, experiment.name)),
        rows=tuple(rows),
        trials=count,
        extras=extras,
    )


def grid(experiment: Experiment, known: Iterable[str] | None = None) -> tuple[list[Trial], list[str]]:
    """The trials of an experiment, seeds outermost, so that an unfinished run has whole trials of everything.

    Parameters
    ----------
    known : methods there are; rows of others are left out and named in the second value

    Returns
    -------
    trials, left_out : list of Trial, labels of rows whose method is not known
    """
    there = None if known is None else set(known)
    left_out = [row.label for row in experiment.rows if there is not None and row.method not in there]
    out: dict[str, Trial] = {}
    for seed in range(experiment.trials):
        for dataset in experiment.datasets:
            extras = experiment.extras.get(dataset, ())
            for mechanism in experiment.mechanisms:
                for rate in experiment.rates:
                    for row in experiment.rows:
                        if row.label in left_out or (row.method in WITHOUT_FILLS and "accuracy" not in extras):
                            continue
                        where = (mechanism, rate) if row.method != FULL else FULL_AT
                        trial = Trial(dataset, *where, seed, row.method, row.settings, extras)
                        out.setdefault(trial.key, trial)
    return list(out.values()), left_out


def _chosen(what: str, wanted: Sequence[Any] | None, there: Sequence[Any], name: str) -> list[Any]:
    if wanted is None:
        return list(there)
    for one in wanted:
        if one not in there:
            raise ValueError(f"{name} has no {what} {one!r}; choose among {', '.join(map(str, there))}")
    return [one for one in there if one in wanted]

"""Which method is best on a table of one's own: hide observed cells, let every method fill them, rank.

Every method gets the same table with the same cells hidden, and is scored on those cells alone. docs/compare.md says
how to read the figures.
"""

from __future__ import annotations

import inspect
import logging
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from megae.bench.hidden_cells import KEEP, Repeat, draw_repeat, punch, truth_beside
from megae.bench.ranking import Entry, Scored, rank_methods
from megae.bench.verdict import Comparison
from megae.columns import LARGEST
from megae.graphs import adjacency
from megae.imputers import REGISTRY, get_imputer
from megae.imputers.base import check_time_budget
from megae.imputers.build import seed_from
from megae.missingness.inputs import check_rate
from megae.tables import check_finite, is_frame, read_table
from megae.training.interrupts import whole_trainings

__all__ = ["Comparison", "Entry", "compare", "fill_hidden"]

log = logging.getLogger(__name__)

REFERENCE = "mean"
"""Always run; not ranked where it was not asked for."""

MIN_HIDDEN, MIN_ROWS = 5, 5
"""Fewer hidden cells, or fewer rows with any, carry no interval."""

FEW_ROWS = 20


def compare(
    X: Any,
    graph: Any = None,
    methods: Sequence[str] | None = None,
    *,
    repeats: int = 3,
    rate: float = 0.1,
    mechanism: str = "mcar",
    unit: str = "range",
    time_budget: float | None = None,
    device: str | None = None,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    n_resamples: int = 2000,
    random_state: Any = 0,
) -> Comparison:
    """Rank imputation methods on observed cells of X that are hidden for the occasion.

    Parameters
    ----------
    X : table of shape (N, D), as every imputer takes it; NaN in its own holes, which play no part in the score
    graph : graph over its rows, see :func:`megae.graphs.adjacency`
        None: every method that uses a graph builds one from the table it is given, hidden cells left out.
    methods : names in :data:`megae.imputers.REGISTRY`, or None for all of them
        Without ``mean`` among them, it runs beside them as a reference that cannot win.
    repeats : int
        How often cells are hidden anew.
    rate : float in (0, 1)
        Expected share of the observed cells hidden in each repeat; every column keeps three or more.
    mechanism : name in :data:`megae.missingness.MECHANISMS`
    unit : "range" or "std"
        Errors count in units of each column's range or standard deviation over the cells left visible.
    time_budget : float above 0, or None
        Seconds that one training may take, for methods that have such a limit.
    device : str or None
        For methods that have a choice.
    settings : method -> constructor arguments, beside the above
    n_resamples : int
        Bootstrap resamples of rows behind the 95 % intervals.
    random_state : int, RandomState, Generator or None
        Decides cells, methods and resamples.

    Returns
    -------
    Comparison
        ``winner``, ``entries`` in order of their rank, ``verdict()``, ``to_dict()``; printing it shows the table.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> t = np.linspace(0, 2 * np.pi, 80, endpoint=False)
    >>> X = np.stack([np.sin(t), np.cos(t)], axis=1)
    >>> ring = sp.csr_array(np.roll(np.eye(80), 1, axis=1))
    >>> result = compare(X, ring, ["mean", "feature-propagation"])
    >>> result.winner.method, result.entries[1].tied
    ('feature-propagation', False)
    """
    names = _checked_methods(methods)
    ordered = names if REFERENCE in names else [*names, REFERENCE]
    settings = _checked_settings(settings, ordered)
    rate = check_rate(rate)
    for name, value in (("repeats", repeats), ("n_resamples", n_resamples)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    check_time_budget(time_budget)
    seed = seed_from(random_state)
    X = X if is_frame(X) else read_table(X).cells
    table = read_table(X)
    check_finite(table.cells, table.names)
    observed = int((~table.holes).sum())
    _check_size(observed, rate)
    A = None if graph is None else adjacency(graph, len(table.cells), table.labels)
    drawn = np.random.SeedSequence(seed).generate_state(2 * repeats + 1).astype(np.int64).tolist()
    tries = [
        draw_repeat(X, rate, mechanism, unit, (drawn[2 * r], drawn[2 * r + 1] % (2**31 - 1)), A) for r in range(repeats)
    ]
    categorical = np.isin(np.arange(len(table.names)), list(table.categories))
    rows, columns = (np.concatenate(part) for part in zip(*(np.nonzero(r.scored) for r in tries), strict=True))
    scored = Scored(rows, columns, table.names, categorical)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without observed cells has no spread either
        spread = np.nanmax(table.cells, axis=0) - np.nanmin(table.cells, axis=0)
    _check_drawn(scored, observed, rate, constant=not (spread > 0).any())
    log.info("%s cells hidden in %s repeats, %s methods", f"{len(rows):,}", repeats, len(ordered))
    options = {"time_budget": time_budget, "device": device, "verbose": 0, "diagnose": False}
    truths = [truth_beside(X, punch(X, one.hidden)) for one in tries]
    runs = [
        _run(name, X, A, tries, truths, scored, options | dict(settings.get(name, {})), f"{k + 1} of {len(ordered)}")
        for k, name in enumerate(ordered)
    ]
    entries = rank_methods(runs, scored, [n for n in ordered if n not in names], n_resamples, drawn[-1])
    if entries[0].rank is None:
        first = next(e for e in entries if e.error is not None)
        raise ValueError(f"no method could be scored; {first.method} failed with {first.error}")
    return Comparison(
        entries=entries,
        scored=scored,
        settings={
            "repeats": int(repeats),
            "rate": rate,
            "mechanism": mechanism,
            "unit": unit,
            "time_budget": time_budget,
            "device": device,
            "seed": seed,
            "n_resamples": int(n_resamples),
            "graph": "given" if A is not None else "built by each method from similar rows",
            "methods": {name: dict(given) for name, given in settings.items()},
        },
        observed=observed,
        notes=_notes(scored, tries, table.names) + _budget_notes(entries, time_budget),
    )


def fill_hidden(X: Any, graph: Any, repeat: Repeat, method: str, options: Mapping[str, Any]) -> np.ndarray:
    """Fit a method on X without the hidden cells and fill them.

    Parameters
    ----------
    X : DataFrame or ndarray of shape (N, D)
    graph : scipy sparse (N, N), or None
    repeat : Repeat
    method : name in the registry
    options : constructor arguments; those that the method does not have are left out, and those that are None

    Returns
    -------
    ndarray of shape (N, D)
        The filled table as numbers; in categorical columns codes of the categories that are left to see.
    """
    cls = REGISTRY[method]
    known = inspect.signature(cls).parameters
    given = {"random_state": repeat.seed, **options}
    imputer = cls(**{name: value for name, value in given.items() if name in known and value is not None})
    shown = punch(X, repeat.hidden)
    filled = read_table(imputer.fit_transform(shown, graph=graph)).cells
    if not np.isfinite(filled).all():
        raise ValueError("it left holes open or filled in values that are not finite")
    seen = read_table(shown)
    if not np.array_equal(filled[~seen.holes], seen.cells[~seen.holes]):
        raise ValueError("it changed observed cells")
    return filled


def _run(
    name: str,
    X: Any,
    A: Any,
    tries: Sequence[Repeat],
    truths: Sequence[np.ndarray],
    scored: Scored,
    options: Mapping[str, Any],
    place: str,
) -> tuple[Entry, np.ndarray | None]:
    """One method over all repeats: its times, and its errors (n,) unless it failed."""
    began, errors, error = time.perf_counter(), [], None
    with warnings.catch_warnings(record=True) as caught, whole_trainings():
        warnings.simplefilter("always")
        try:
            for repeat, truth in zip(tries, truths, strict=True):
                filled = fill_hidden(X, A, repeat, name, options)
                errors.append(_scorable(repeat.errors(filled, truth, scored.categorical)))
        except Exception as problem:
            error = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    said = [" ".join(str(w.message).split()) for w in caught if issubclass(w.category, (UserWarning, RuntimeWarning))]
    seconds = (time.perf_counter() - began) / (len(errors) or 1)
    entry = Entry(method=name, seconds=seconds, error=error, warnings=tuple(dict.fromkeys(said)))
    if error is not None:
        log.info("%s (%s) failed: %s", name, place, error)
        return entry, None
    flat = np.concatenate(errors)
    log.info("%s (%s): error %.4g, %.1f s per fit", name, place, math.sqrt(float(np.mean(flat**2))), seconds)
    return entry, flat


def _scorable(errors: np.ndarray) -> np.ndarray:
    """The errors, refused where their squares have no finite sum: such a method has no place in a ranking."""
    if not (np.abs(errors) <= LARGEST).all():
        raise ValueError("its fills are so far off that their error is not a finite number")
    return errors


def _checked_methods(methods: Sequence[str] | None) -> list[str]:
    if isinstance(methods, str):
        raise ValueError(f"methods must be a list of names, got the text {methods!r}; write [{methods!r}]")
    names = list(dict.fromkeys(REGISTRY if methods is None else methods))
    if not names:
        raise ValueError(f"methods names no method; known names: {', '.join(REGISTRY)}")
    for name in names:
        if name not in REGISTRY:
            get_imputer(name)  # raises, with the nearest name
    return names


def _checked_settings(settings: Any, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    given = dict(settings or {})
    for name, arguments in given.items():
        if name not in names:
            raise ValueError(f"settings names {name!r}, which does not take part; methods are {', '.join(names)}")
        known = inspect.signature(REGISTRY[name]).parameters
        for key in arguments:
            if key not in known:
                raise ValueError(f"settings: {name} has no argument {key!r}; it has {', '.join(known)}")
    return given


def _check_size(observed: int, rate: float) -> None:
    needed = math.ceil(MIN_HIDDEN / rate)
    if observed < needed:
        raise ValueError(
            f"the table has {observed:,} observed cells, too few to compare methods on: hiding a share of {rate:g} "
            f"needs at least {needed:,}; give a table with more observed cells, or hide a larger share (rate)"
        )


def _check_drawn(scored: Scored, observed: int, rate: float, constant: bool) -> None:
    cells, rows = len(scored.rows), len(np.unique(scored.rows))
    if constant:
        raise ValueError(
            "every column holds one and the same value in all its observed cells, so there is nothing to compare "
            "methods on; give a table with a column that varies"
        )
    if cells < MIN_HIDDEN or rows < MIN_ROWS:
        raise ValueError(
            f"of {observed:,} observed cells only {cells:,} in {rows:,} rows could be hidden and scored (share "
            f"{rate:g}; every column keeps {KEEP} observed cells, and those must differ), but at least {MIN_HIDDEN} "
            f"cells in {MIN_ROWS} rows are needed; give a table with more observed cells per column, hide a larger "
            "share (rate), or repeat more often (repeats)"
        )


def _budget_notes(entries: Sequence[Entry], time_budget: float | None) -> list[str]:
    """Which methods had no time left: their place says what they reach in that time, not what they can reach."""
    if time_budget is None:
        return []
    late = [
        e.method
        for e in entries
        if e.error is None
        and e.seconds >= time_budget
        and "time_budget" in inspect.signature(REGISTRY[e.method]).parameters
    ]
    if not late:
        return []
    return [f"the time budget of {time_budget:g} s was used up by {', '.join(late)}: with more, they may do better"]


def _notes(scored: Scored, tries: Sequence[Repeat], names: Sequence[str]) -> list[str]:
    notes = []
    rows = len(np.unique(scored.rows))
    if rows < FEW_ROWS:
        notes.append(f"only {rows} rows have hidden cells: the intervals are rough, and rather too narrow")
    unitless = np.any([np.isnan(r.units) & r.hidden.any(axis=0) for r in tries], axis=0)
    flat = [name for name, without in zip(names, unitless, strict=True) if without]
    if flat:
        shown = ", ".join(map(repr, flat[:5])) + (", ..." if len(flat) > 5 else "")
        notes.append(
            f"all visible cells are the same in column {shown}: hidden cells there have no unit and do not count"
        )
    return notes

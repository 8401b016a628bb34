"""``megae bench``: the paper's tables and figures, run again and shown beside its numbers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from megae.commands.common import (
    Device,
    DeviceOption,
    ForceOption,
    JsonOption,
    QuietOption,
    SeedOption,
    check_device,
    check_journal,
    check_outputs,
    print_json,
    warn,
    working,
)
from megae.commands.data import RootOption
from megae.io.errors import InputError

if TYPE_CHECKING:
    from megae.bench.catalogue import Experiment
    from megae.datasets.catalogue import Variant

__all__ = ["bench"]

bench = typer.Typer(
    help="Run the paper's experiments again, resume them, and show them beside its numbers.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Backend(StrEnum):
    """Where trials run side by side."""

    loky = "loky"
    ray = "ray"


class Format(StrEnum):
    """What a shown table is written as."""

    markdown = "markdown"
    csv = "csv"
    html = "html"


class Preset(StrEnum):
    """The settings of MEGAE that a search starts from."""

    default = "default"
    paper = "paper"


class Unit(StrEnum):
    """What errors are counted in."""

    ours = "ours"
    paper = "paper"


ExperimentArgument = Annotated[
    str, typer.Argument(show_default=False, metavar="EXPERIMENT", help="Such as table1; megae bench list names all.")
]
ResultsOption = Annotated[Path, typer.Option(help="Folder of the records, one file for each trial.")]
DatasetsOption = Annotated[
    str | None, typer.Option(show_default=False, help="Only these datasets, separated by commas.")
]
MethodsOption = Annotated[
    str | None,
    typer.Option(show_default=False, help="Only these methods, or rows by their label, separated by commas."),
]
RatesOption = Annotated[
    str | None, typer.Option(show_default=False, help="Only these rates of missing cells, separated by commas.")
]
TrialsOption = Annotated[
    int | None, typer.Option(min=1, show_default=False, help="How many seeds; without it, as many as the paper.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        show_default=False,
        metavar="NAME=VALUE",
        help="A setting for every method that has it, such as max_steps=300. Such trials are kept apart from others.",
    ),
]
AccuracyOption = Annotated[
    bool, typer.Option("--accuracy/--no-accuracy", help="Whether to classify on the filled features too.")
]


@bench.command("list")
def list_all(json_output: JsonOption = False) -> None:
    """Name the experiments and the methods."""
    from megae.bench.catalogue import load_experiment, names
    from megae.bench.methods import describe_methods

    experiments = [load_experiment(name) for name in names()]
    methods = describe_methods()
    if json_output:
        rows = [{"name": e.name, "title": e.title, "datasets": e.datasets, "trials": e.trials} for e in experiments]
        print_json({"command": "bench list", "experiments": rows, "methods": methods})
        return
    print("experiments")
    for e in experiments:
        print(f"  {e.name:<9} {e.title}")
    print("\nmethods, and what it costs to fit and fill one graph of 10,000 nodes and 50 columns, a tenth missing")
    for line in _method_lines(methods):
        print(f"  {line}")
    print("  kind: what it goes by; inductive: fills graphs it was not fitted on")
    print("  s cpu: processor time of one process, on a machine that others used too")


@bench.command()
def run(
    experiment: ExperimentArgument,
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    rates: RatesOption = None,
    trials: TrialsOption = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many trials at a time.")] = 1,
    backend: Annotated[Backend, typer.Option(help="loky: this machine; ray: a Ray cluster.")] = Backend.loky,
    device: DeviceOption = Device.auto,
    results: ResultsOption = Path("megae-bench"),
    root: RootOption = None,
    setting: SetOption = None,
    accuracy: AccuracyOption = True,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run the trials of an experiment that have no record yet.

    Killed or interrupted, it goes on where it was when called again. Trials that failed are tried again.

    Example:  megae bench run table1 --datasets ENZYMES --methods mean,knn,megae --trials 2
    """
    from megae.bench.methods import available
    from megae.bench.running import check_settings
    from megae.bench.store import Store
    from megae.bench.surroundings import command_line
    from megae.bench.sweep import sweep
    from megae.bench.trials import grid

    check_device(device)
    part = _part(experiment, datasets, methods, rates, trials, setting, accuracy)
    check_settings(grid(part, available())[0], _settings(setting))
    with working(quiet=quiet, as_json=json_output) as messages:
        part, absent = _with_data(part, root, refuse=datasets is not None)
        wanted, left_out = grid(part, available())
        if not wanted:
            raise InputError(f"nothing of {experiment} is left to run with these options")
        outcome = sweep(
            wanted,
            Store(results),
            jobs=jobs,
            device=device.value,
            backend=backend.value,
            root=None if root is None else str(root),
            command=command_line(),
            progress=not (quiet or json_output),
        )
    if left_out:
        messages.append(f"rows left out, since this version has no such method: {', '.join(left_out)}")
    messages += absent
    warn(messages)
    failed = [f"{r['trial']['method']} on {r['trial']['dataset']}: {r['error']}" for r in outcome.errors]
    if json_output:
        print_json(
            {
                "command": "bench run",
                "experiment": experiment,
                "trials": len(wanted),
                "computed": outcome.computed,
                "found": outcome.found,
                "errors": failed,
                "results": str(results),
                "warnings": messages,
            }
        )
    elif not quiet:
        ran = f"{outcome.computed} {'trial' if outcome.computed == 1 else 'trials'} computed"
        print(f"{ran}, {outcome.found} found, {len(failed)} failed; records in {results}")
        for line in dict.fromkeys(failed):
            print(f"  failed: {line}")
        same = {"--datasets": datasets, "--methods": methods, "--rates": rates, "--trials": trials}
        print(f"Now: {_show_command(experiment, results, same, setting)}")
    if failed:
        raise typer.Exit(3)


_ENDINGS = {".md": Format.markdown, ".markdown": Format.markdown, ".csv": Format.csv, ".html": Format.html}


def _format(asked: Format | None, out: Path | None) -> Format:
    """How to write a table: as asked, and as the ending of the file says."""
    ending = None if out is None else _ENDINGS.get(out.suffix.lower())
    if asked and ending and asked is not ending:
        raise InputError(
            f"--format {asked.value} does not fit the ending of {out}; name another file, or leave --format out"
        )
    return asked or ending or Format.markdown


@bench.command()
def show(
    experiment: ExperimentArgument,
    format: Annotated[
        Format | None,
        typer.Option(
            show_default=False, help="How to write the table; without it, by the ending of --out, or markdown."
        ),
    ] = None,
    unit: Annotated[Unit, typer.Option(help="Count errors in our unit, or in the paper's.")] = Unit.paper,
    results: ResultsOption = Path("megae-bench"),
    datasets: DatasetsOption = None,
    methods: MethodsOption = None,
    rates: RatesOption = None,
    trials: TrialsOption = None,
    setting: SetOption = None,
    out: Annotated[Path | None, typer.Option(show_default=False, help="Write to this file instead.")] = None,
    force: ForceOption = False,
) -> None:
    """Show the records of an experiment beside the paper's numbers.

    Mean and standard deviation over the trials, ranks, and a test of the best method against each other one.
    """
    from megae.bench.show import render, render_spectra, summarise
    from megae.bench.store import Store
    from megae.bench.trials import grid
    from megae.io.atomic import atomic_path

    check_outputs({"--out": out}, [], force=force)
    written = _format(format, out)
    part = _part(experiment, datasets, methods, rates, trials, setting, accuracy=True)
    records = list(Store(results).records(trial.without_extras() for trial in grid(part)[0]))
    if not records:
        what = f"{experiment} with these options" if datasets or methods or rates or trials or setting else experiment
        raise InputError(
            f"no record of {what} in {results}; first: megae bench run {experiment} (trials run with --set are shown "
            "with the same --set)"
        )
    if part.kind == "spectra":
        text = render_spectra(part, records, written.value)
    else:
        text = render(summarise(part, records, unit=unit.value), written.value)
    if out is None:
        print(text, end="" if text.endswith("\n") else "\n")
        return
    with atomic_path(out) as temporary:
        temporary.write_text(text, encoding="utf-8")


@bench.command()
def tune(
    dataset: Annotated[str, typer.Argument(show_default=False, metavar="DATASET", help="megae data list names all.")],
    trials: Annotated[int, typer.Option(min=1, help="How many settings to try in all, earlier ones included.")] = 30,
    rate: Annotated[float, typer.Option(min=0.001, max=0.999, help="Share of missing cells.")] = 0.1,
    preset: Annotated[Preset, typer.Option(help="Preset to start from.")] = Preset.paper,
    seed: SeedOption = 0,
    study: Annotated[Path, typer.Option(help="Journal of the search; an existing one is continued.")] = Path(
        "megae-tune.log"
    ),
    device: DeviceOption = Device.auto,
    root: RootOption = None,
    setting: SetOption = None,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Search bands, entropy weight and learning rate of MEGAE on validation data, never on test data."""
    from megae.bench.tuning import search

    check_device(device)
    check_journal("--study", study)
    with working(quiet=quiet, as_json=json_output) as messages:
        found = search(
            dataset,
            study,
            trials=trials,
            rate=rate,
            preset=preset.value,
            seed=seed,
            device=device.value,
            root=None if root is None else str(root),
            settings=_settings(setting),
        )
    warn(messages)
    if json_output:
        print_json({"command": "bench tune", **found})
    elif not quiet:
        print(f"best of {found['trials']} on {dataset}, validation RMSE {found['rmse']:.5f}:")
        for name, value in found["settings"].items():
            print(f"  {name} = {value:.4g}" if isinstance(value, float) else f"  {name} = {value}")


def _show_command(
    experiment: str, results: Path, same: Mapping[str, str | int | None], setting: list[str] | None
) -> str:
    """What shows the trials just run: the same part, with the same settings."""
    words = ["megae", "bench", "show", experiment]
    words += [word for option, value in same.items() if value is not None for word in (option, str(value))]
    words += [] if results == Path("megae-bench") else ["--results", str(results)]
    return shlex.join(words + [word for pair in setting or [] for word in ("--set", pair)])


def _listed(text: str | None, option: str, example: str, names: Iterable[str] = ()) -> list[str] | None:
    """Parts of a list with commas; None where the option was not given.

    Names that hold commas themselves are parts as a whole.
    """
    if text is None:
        return None
    pieces = [piece.strip() for piece in text.split(",") if piece.strip()]
    if not pieces:
        what = option.removeprefix("--").removesuffix("s")
        raise InputError(f"{option} names no {what}; separate them by commas, as in {option} {example}")
    whole = {tuple(piece.strip() for piece in name.split(",")): name for name in names}
    longest, parts = max(map(len, whole), default=1), []
    while pieces:
        size = next((n for n in range(longest, 1, -1) if tuple(pieces[:n]) in whole), 1)
        parts.append(whole[tuple(pieces[:size])] if size > 1 else pieces[0])
        pieces = pieces[size:]
    return parts


def _part(
    name: str,
    datasets: str | None,
    methods: str | None,
    rates: str | None,
    trials: int | None,
    setting: list[str] | None,
    accuracy: bool,
) -> Experiment:
    """The experiment, cut down to what the options ask for."""
    from megae.bench.catalogue import load_experiment
    from megae.bench.methods import with_settings
    from megae.bench.trials import narrow

    listed = _listed(rates, "--rates", "0.1,0.3")
    try:
        shares = None if listed is None else [float(rate) for rate in listed]
    except ValueError as error:
        raise InputError(f"--rates takes numbers separated by commas, got {rates!r}") from error
    experiment = load_experiment(name)
    labels = [row.label for row in experiment.rows]
    part = narrow(
        experiment,
        datasets=_listed(datasets, "--datasets", "ENZYMES,QM9"),
        methods=_listed(methods, "--methods", "mean,megae", labels),
        rates=shares,
        trials=trials,
        accuracy=accuracy,
    )
    part = with_settings(part, _settings(setting))
    return replace(part, title=f"{part.title}, with {', '.join(setting)}") if setting else part


def _settings(given: list[str] | None) -> dict[str, Any]:
    """``NAME=VALUE`` pairs; values are JSON or Python's True, False and None where they can be, else text."""
    return dict(_one_setting(pair) for pair in given or [])


def _one_setting(pair: str) -> tuple[str, Any]:
    name, sign, text = pair.partition("=")
    if not sign or not name.isidentifier():
        raise InputError(f"--set takes NAME=VALUE, such as --set max_steps=300, got {pair!r}")
    if not text:
        raise InputError(f"--set {pair} has no value; write it behind the sign, such as --set max_steps=300")
    python = {"True": True, "False": False, "None": None}
    if text in python:
        return name, python[text]
    try:
        value = json.loads(text)
    except ValueError as error:
        if text[0] in '[{"':
            raise InputError(f"--set {pair} cannot be read ({error}); write the value as JSON") from error
        return name, text
    try:
        json.dumps(value, allow_nan=False)
    except ValueError as error:
        raise InputError(f"--set {pair} is not a finite number; give one that is") from error
    return name, value


def _with_data(experiment: Experiment, root: Path | None, refuse: bool) -> tuple[Experiment, list[str]]:
    """Leave out, or refuse, the sets that are not here and cannot be downloaded, before the long work begins."""
    from megae.bench.trials import narrow
    from megae.datasets import entry, fetch, locate

    here, notes = [], []
    for name in experiment.datasets:
        known = entry(name)
        try:
            if known.layout != "embedded":
                found = locate(known, root)
                if found is not None:
                    _check_whole(name, *found)
                else:
                    fetch(known, root)
        except (ValueError, OSError) as error:
            if refuse:
                raise
            notes.append(f"{name} is left out: {error}")
            continue
        here.append(name)
    if not here:
        raise InputError("none of the datasets is here. " + "; ".join(notes))
    return narrow(experiment, datasets=here), notes


def _check_whole(name: str, folder: Path, variant: Variant) -> None:
    """Refuse a zip that is damaged, rather than have every trial fail on it."""
    from megae.datasets.archive import open_zip

    for file in variant.files:
        if file.name.endswith(".zip"):
            try:
                with open_zip(folder / file.name):
                    pass
            except ValueError as error:
                raise InputError(f"{error} (remove the file, then: megae data get {name})") from error


def _method_lines(methods: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'name':<20} {'kind':<12} {'inductive':<10} {'time':>14} {'GiB':>6}  measured on"]
    for m in methods:
        cost = m["cost"] or {}
        measured = cost.get("measured", {})
        unit = " cpu" if measured.get("clock") == "cpu" else ""
        seconds = f"{cost['seconds']:.1f} s" if cost.get("seconds") is not None else cost.get("error", "-")
        memory = f"{cost['gib']:.1f}" if cost.get("gib") is not None else "-"
        where = measured.get("gpu") if m["trains"] and measured.get("device") != "cpu" else None
        threads = measured.get("threads", 1)
        place = f"{where or 'CPU'}, {threads} {'thread' if threads == 1 else 'threads'}" if measured else "-"
        lines.append(
            f"{m['name']:<20} {m['kind']:<12} {'yes' if m['inductive'] else 'no':<10} "
            f"{seconds + (unit if cost else ''):>14} {memory:>6}  {place}"
        )
    return lines

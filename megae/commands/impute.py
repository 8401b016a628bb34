"""``megae impute``: a table with holes and its graph go in, the filled table comes out."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from megae.commands.common import (
    ColumnsOption,
    Device,
    DeviceOption,
    DropUnknownOption,
    EdgesOption,
    ForceOption,
    IdOption,
    Inputs,
    JsonOption,
    MethodOption,
    NodesArgument,
    QuietOption,
    SeedOption,
    check_device,
    check_listing,
    check_outputs,
    check_page,
    check_time_budget,
    imputer_class,
    make_imputer,
    print_json,
    read_inputs,
    text_left_open,
    warn,
    working,
)
from megae.commands.launch import is_first, takes_part
from megae.io.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_COLUMNS = 20
_LABELS = {"mean": "column mean", "propagation": "propagation around the mean"}


def impute(
    nodes: NodesArgument,
    out: Annotated[
        Path,
        typer.Option(
            show_default=False,
            help="Where the filled table goes; its ending chooses the format. Observed cells of .csv and "
            ".tsv keep their characters.",
        ),
    ],
    edges: EdgesOption = None,
    method: MethodOption = "megae",
    id_column: IdOption = None,
    columns: ColumnsOption = None,
    report: Annotated[
        Path | None, typer.Option(show_default=False, help="Also write an HTML page about what was filled.")
    ] = None,
    save_model: Annotated[
        Path | None, typer.Option(show_default=False, help="Keep the trained model in this file.")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Fill with a model kept earlier, without training."),
    ] = None,
    intervals: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Also write the interval of every cell: <name>_lower, <name>_upper."),
    ] = None,
    coverage: Annotated[
        float,
        typer.Option(min=0.01, max=0.999, help="Share of the true values that the intervals shall hold."),
    ] = 0.9,
    device: DeviceOption = Device.auto,
    seed: SeedOption = 0,
    time_budget: Annotated[
        float | None, typer.Option(show_default=False, help="Stop training after so many seconds, more than 0.")
    ] = None,
    max_steps: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Stop training after so many steps.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=2,
            show_default=False,
            help="Train on a few of so many parts of a large graph at a time: cheaper, and approximate.",
        ),
    ] = None,
    flag_imputed: Annotated[
        bool,
        typer.Option("--flag-imputed", help="Add a column <name>_imputed for every column that had holes."),
    ] = False,
    drop_unknown: DropUnknownOption = False,
    force: ForceOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fill the holes of a table from the graph over its rows.

    Example:  megae impute nodes.csv --edges edges.csv --out filled.csv
    """
    from megae.io import format_of

    started = time.monotonic()
    _check_options(method, save_model, model, report, intervals)
    format_of(out)
    check_device(device)
    check_time_budget(time_budget)
    outputs = {"--out": out, "--report": report, "--save-model": save_model, "--intervals": intervals}
    if not takes_part(imputer_class(method)):
        return
    if is_first():
        check_outputs(outputs, [nodes, edges, model], force=force)
    inputs = read_inputs(nodes, edges, id_column=id_column, columns=columns, drop_unknown=drop_unknown)
    if flag_imputed:
        inputs.table.check_flags()
    notes = [*inputs.notes, *([] if columns else text_left_open(inputs.table))]
    if inputs.A is None and imputer_class(method)._uses_graph:
        notes.append("no edges were given, so a graph of similar rows is built; pass --edges to use your own")
    options: dict[str, Any] = {
        "random_state": seed,
        "device": device.value,
        "verbose": 0 if quiet or json_output else 1,
        "time_budget": time_budget,
        "max_steps": max_steps,
        "partitions": partitions,
    }
    by_hand = {"time_budget": "--time-budget", "max_steps": "--max-steps", "partitions": "--partitions"}
    if device is not Device.auto:
        by_hand["device"] = "--device"
    with working(quiet=quiet, as_json=json_output) as messages:
        run = run_method(inputs, method, options, by_hand, model, bool(save_model))
        bounds = None
        if intervals is not None or (report is not None and run.imputer is not None):
            bounds = _intervals(run, inputs, coverage, needed=intervals is not None)
        if is_first():
            _write(run, inputs, outputs, method, bounds, coverage, flag_imputed, nodes, notes)
    messages = notes + messages + [m for m in run.diagnostics.get("warnings") or [] if m not in messages]
    warn(messages)
    result = _result(run, inputs, method, seed, outputs, messages, time.monotonic() - started, nodes, edges, model)
    if json_output:
        print_json(result)
    elif not quiet:
        _print(result)


@dataclass
class Run:
    """What imputation gave: the table before and after, and the imputer (None where there was nothing
    to do)."""

    before: pd.DataFrame
    after: pd.DataFrame
    imputer: Any
    diagnostics: dict[str, Any]


def _check_options(
    method: str, save_model: Path | None, model: Path | None, report: Path | None, intervals: Path | None
) -> None:
    if save_model is not None and model is not None:
        raise InputError("--model and --save-model exclude each other: a loaded model is not trained; drop one of them")
    cls = imputer_class(method)
    for option, given, needs in (("--save-model", save_model, "save"), ("--model", model, "load")):
        if given is not None and not hasattr(cls, needs):
            raise InputError(f"{option}: the method {method!r} has no model file; use --method megae")
    if intervals is not None and not hasattr(cls, "intervals"):
        raise InputError(f"--intervals: the method {method!r} has no intervals; use --method megae")
    if model is not None and not model.is_file():
        raise InputError(f"--model {model} does not exist; check the name, or train one with --save-model")
    check_page("--report", report)
    check_listing("--intervals", intervals)


def run_method(
    inputs: Inputs,
    method: str,
    options: dict[str, Any],
    by_hand: dict[str, str],
    model: Path | None = None,
    keep: bool = False,
) -> Run:
    """Fit a method (or load a model) and fill the table; without holes nothing is fitted, unless ``keep``.

    Parameters
    ----------
    inputs : Inputs
    method : str
    options : dict
        Constructor arguments; those the method does not have are left out.
    by_hand : dict
        Arguments that the user gave, to be refused where the method does not have them: name to option.
    model : Path or None
        A model kept earlier.
    keep : bool
        Whether the fitted imputer is needed itself.
    """
    frame = inputs.table.frame()
    if model is not None:
        imputer = imputer_class(method).load(model)
        imputer.set_params(device=options["device"], verbose=options["verbose"])
        if inputs.A is None and getattr(imputer, "_built_knn", None) is False:
            raise InputError(f"{model} was trained on a graph with edges; pass the edges of this table with --edges")
        names = [str(name) for name in getattr(imputer, "feature_names_in_", frame.columns)]
        _check_columns(names, list(frame.columns), model)
        after = imputer.transform(_with_categories(frame[names], imputer), graph=inputs.A)
        return Run(frame, after[list(frame.columns)], imputer, _diagnostics(imputer))
    imputer = make_imputer(method, options, by_hand)
    if not inputs.table.holes().any() and not keep:
        return Run(frame, frame, None, {})
    after = imputer.fit_transform(frame, graph=inputs.A)
    return Run(frame, after, imputer, _diagnostics(imputer))


def _check_columns(model_names: list[str], names: list[str], model: Path) -> None:
    lacking = [n for n in model_names if n not in names]
    extra = [n for n in names if n not in model_names]
    if lacking or extra:
        parts = [f"the table lacks {', '.join(map(repr, lacking[:5]))}"] if lacking else []
        parts += [f"the model does not know {', '.join(map(repr, extra[:5]))}"] if extra else []
        raise InputError(
            f"{model} was trained for other columns: {'; '.join(parts)}; "
            "name the columns it knows with --columns, or train a model for this table"
        )


def _with_categories(frame: pd.DataFrame, imputer: Any) -> pd.DataFrame:
    """Categorical columns with the categories the model knows, instead of those that happen to occur."""
    import pandas as pd

    known = {c.name: list(c.categories) for c in getattr(imputer, "columns_", []) if getattr(c, "categories", ())}
    for name in frame.columns:
        if isinstance(frame[name].dtype, pd.CategoricalDtype) and name in known:
            new = [v for v in frame[name].cat.categories if v not in known[name]]
            if new:
                raise InputError(
                    f"column {name!r}: the model does not know the category {new[0]!r}; it knows {known[name]}"
                )
            frame = frame.assign(**{name: frame[name].cat.set_categories(known[name])})
    return frame


def _diagnostics(imputer: Any) -> dict[str, Any]:
    return dict(getattr(imputer, "diagnostics_", None) or {})


def _intervals(run: Run, inputs: Inputs, coverage: float, *, needed: bool) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    if not hasattr(run.imputer, "intervals"):
        if needed:
            raise InputError("--intervals: the table has no holes, so nothing was trained and there are no intervals")
        return None
    if run.imputer.calibration_ is None:
        if needed:
            raise InputError(
                "--intervals: too few cells are observed to set any aside for calibration, so there are no intervals; "
                "leave --intervals out, or give a table with more observed cells"
            )
        return None
    names = [str(name) for name in getattr(run.imputer, "feature_names_in_", run.before.columns)]
    frame = _with_categories(run.before[names], run.imputer)
    lower, upper = run.imputer.intervals(frame, graph=inputs.A, coverage=coverage)
    return lower, upper


def _write(
    run: Run,
    inputs: Inputs,
    outputs: dict[str, Path | None],
    method: str,
    bounds: tuple[pd.DataFrame, pd.DataFrame] | None,
    coverage: float,
    flag: bool,
    nodes: Path,
    notes: Sequence[str],
) -> None:
    """Write every output beside its place first; only when all are whole are they renamed."""
    from megae.io import atomic_path, write_table

    with contextlib.ExitStack() as stack:
        paths = {o: stack.enter_context(atomic_path(p)) for o, p in outputs.items() if p is not None}
        write_table(paths["--out"], inputs.table, run.after, flag=flag, graph=inputs.A)
        if "--intervals" in paths and bounds is not None:
            _write_intervals(paths["--intervals"], inputs, bounds)
        if "--save-model" in paths:
            run.imputer.save(paths["--save-model"])
        if "--report" in paths:
            from megae.report.impute import write_report

            write_report(
                paths["--report"],
                before=run.before,
                after=run.after,
                mask=inputs.table.holes(),
                adjacency=inputs.A,
                method=method,
                diagnostics=run.diagnostics or None,
                intervals=bounds,
                coverage=coverage,
                title=nodes.name,
                ids=inputs.table.id_source,
                notes=notes,
                force=True,
            )


def _write_intervals(path: Path, inputs: Inputs, bounds: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    from megae.io import write_columns
    from megae.io.document import OutColumn

    lower, upper = bounds
    table = inputs.table
    columns = [OutColumn(table.id_column or "id", "kept", list(table.ids), list(table.ids))]
    categories = {c.name for c in table.fillable if c.kind == "category"}
    for name in lower.columns:
        for side, values in (("lower", lower[name]), ("upper", upper[name])):
            if name in categories:
                columns.append(OutColumn(f"{name}_{side}", "category", values.astype(str).tolist()))
                continue
            numbers = values.to_numpy(dtype=np.float64, na_value=np.nan).tolist()
            columns.append(OutColumn(f"{name}_{side}", "float", [None if v != v else v for v in numbers]))
    write_columns(path, columns)


def _result(
    run: Run,
    inputs: Inputs,
    method: str,
    seed: int,
    outputs: dict[str, Path | None],
    messages: list[str],
    seconds: float,
    nodes: Path,
    edges: Path | None,
    model: Path | None,
) -> dict[str, Any]:
    holes = inputs.table.holes().sum(axis=0)
    fillable = inputs.table.fillable
    return {
        "command": "impute",
        "method": method,
        "seed": seed,
        "nodes": nodes,
        "edges": edges,
        "model": model,
        "written": {option.removeprefix("--"): path for option, path in outputs.items() if path is not None},
        "rows": len(inputs.table.ids),
        "ids": inputs.table.id_source,
        "columns": [{"name": c.name, "kind": c.kind, "filled": int(k)} for c, k in zip(fillable, holes, strict=True)],
        "kept_columns": [c.name for c in inputs.table.columns if not c.fillable],
        "filled": int(holes.sum()),
        "graph": inputs.graph_facts(),
        "diagnostics": {k: v for k, v in run.diagnostics.items() if k != "history"},
        "warnings": messages,
        "seconds": round(seconds, 3),
    }


def _print(result: dict[str, Any]) -> None:
    graph = result["graph"]
    joined = f", {graph['kept']:,} edges" if graph["built"] == "edges" else ""
    if not result["filled"]:
        where = " in columns of numbers" if any("keep their holes" in text for text in result["warnings"]) else ""
        print(f"{result['nodes']} has no holes{where}: every cell is written as it was; ids: {result['ids']}")
    else:
        holes = "hole" if result["filled"] == 1 else "holes"
        print(
            f"filled {result['filled']:,} {holes} of {result['nodes']} ({result['rows']:,} rows{joined}) "
            f"with {result['method']} in {result['seconds']:.1f} s; ids: {result['ids']}"
        )
    filled = [c for c in result["columns"] if c["filled"]]
    width = max((len(c["name"]) for c in filled[:_SHOWN_COLUMNS]), default=0)
    for column in filled[:_SHOWN_COLUMNS]:
        share = 100.0 * column["filled"] / result["rows"]
        print(f"  {column['name']:<{width}}  {column['filled']:>7,}  {share:5.1f} %")
    if len(filled) > _SHOWN_COLUMNS:
        print(f"  and {len(filled) - _SHOWN_COLUMNS:,} more columns (--json lists all)")
    errors = result["diagnostics"].get("rmse") or {}
    rmse = {k: v for k, v in errors.items() if v is not None and math.isfinite(v)}
    if rmse:
        units = result["diagnostics"].get("units")
        held = result["diagnostics"].get("n_held_out")
        cells = f"{held:,} observed cells" if held else "observed cells"
        when = " when the model was trained" if result["model"] is not None else ""
        print(f"error (RMSE) on {cells} that were hidden on purpose{when}" + (f", in {units}" if units else ""))
        method = result["method"]
        labels = {"megae": method, "graph_free": f"{method} without the graph", **_LABELS}
        width = max(len(labels.get(k, k)) for k in rmse)
        for name, value in sorted(rmse.items(), key=lambda item: item[1]):
            print(f"  {labels.get(name, name):<{width}}  {value:.4g}")
    for path in result["written"].values():
        print(f"wrote {path}")

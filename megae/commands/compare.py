"""``megae compare``: which method fills this table best, measured on cells of its own."""

from __future__ import annotations

import contextlib
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    NodesArgument,
    QuietOption,
    SeedOption,
    check_device,
    check_listing,
    check_outputs,
    check_page,
    check_time_budget,
    print_json,
    read_inputs,
    text_left_open,
    warn,
    working,
)
from megae.commands.impute import Run, run_method
from megae.io.errors import InputError

if TYPE_CHECKING:
    from megae.bench.verdict import Comparison


class Mechanism(StrEnum):
    """How cells are hidden."""

    mcar = "mcar"
    mar = "mar"
    mnar = "mnar"
    whole_node = "whole-node"


class Unit(StrEnum):
    """What errors are counted in."""

    range = "range"
    std = "std"


def compare(
    nodes: NodesArgument,
    edges: EdgesOption = None,
    methods: Annotated[
        str | None, typer.Option(show_default=False, help="Methods to compare, separated by commas. Without it: all.")
    ] = None,
    then_impute: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Also fill the table with the winner and write it here."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(show_default=False, help="Also write the ranking: .csv, .tsv or .parquet.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(show_default=False, help="Also write an HTML page about the comparison.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often cells are hidden anew.")] = 3,
    rate: Annotated[
        float, typer.Option(min=0.001, max=0.9, help="Share of the observed cells hidden in each repeat.")
    ] = 0.1,
    mechanism: Annotated[
        Mechanism,
        typer.Option(
            help="Which cells are hidden: any (mcar), depending on other columns (mar) or on the value itself (mnar), "
            "or all of a row (whole-node). Choose what is nearest to how your own holes came about."
        ),
    ] = Mechanism.mcar,
    unit: Annotated[
        Unit, typer.Option(help="Count errors in each column's observed range or standard deviation.")
    ] = Unit.range,
    time_budget: Annotated[
        float | None,
        typer.Option(show_default=False, help="Stop each training after so many seconds, more than 0, where it can."),
    ] = None,
    id_column: IdOption = None,
    columns: ColumnsOption = None,
    device: DeviceOption = Device.auto,
    seed: SeedOption = 0,
    drop_unknown: DropUnknownOption = False,
    force: ForceOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Rank methods on your own table: hide observed cells, fill them with every method, compare.

    All methods see the same table with the same cells hidden and are scored on those cells alone. The
    intervals say how sure the ranking is.

    Example:  megae compare nodes.csv --edges edges.csv --then-impute filled.csv
    """
    started = time.monotonic()
    outputs = {"--then-impute": then_impute, "--out": out, "--report": report}
    names = _check_options(methods, outputs)
    check_device(device)
    check_time_budget(time_budget)
    check_outputs(outputs, [nodes, edges], force=force, in_place="--then-impute")
    inputs = read_inputs(nodes, edges, id_column=id_column, columns=columns, drop_unknown=drop_unknown)
    left = [] if columns else text_left_open(inputs.table)
    quietly = quiet or json_output
    with working(quiet=quiet, as_json=json_output) as messages:
        from megae.bench.compare import compare as rank
        from megae.imputers import REGISTRY

        comparison = rank(
            inputs.table.frame(),
            inputs.A,
            names,
            repeats=repeats,
            rate=rate,
            mechanism=mechanism.value,
            unit=unit.value,
            time_budget=time_budget,
            device=device.value,
            random_state=seed,
        )
        run, fault = None, None
        if then_impute is not None:
            options = {"time_budget": time_budget, "device": device.value, "random_state": seed, "diagnose": False}
            try:
                run = run_method(inputs, comparison.winner.method, options | {"verbose": 0 if quietly else 1}, {})
            except Exception as problem:  # hours of comparing are not thrown away
                fault = f"--then-impute: {comparison.winner.method} failed on the whole table, nothing was filled: "
                fault += f"{type(problem).__name__}: {problem}"
        _write(comparison, inputs, run, outputs, nodes, edges)
    if inputs.A is None and any(REGISTRY[e.method]._uses_graph for e in comparison.entries):
        left.append(
            "no edges were given: methods that use a graph build one of similar rows; pass --edges to use your own"
        )
    messages = [*inputs.notes, *left, *comparison.notes, *messages]
    messages += [f"{e.method} failed: {e.error}" for e in comparison.failed] + ([fault] if fault else [])
    warn(messages)
    result = _result(comparison, inputs, run, outputs, messages, time.monotonic() - started, nodes, edges)
    if json_output:
        print_json(result)
    elif not quiet:
        _print(comparison, result)
    if fault:
        raise typer.Exit(2)


def _check_options(methods: str | None, outputs: dict[str, Path | None]) -> list[str] | None:
    """The methods asked for, or a refusal before anything is read."""
    check_listing("--out", outputs["--out"])
    check_page("--report", outputs["--report"])
    if outputs["--then-impute"] is not None:
        from megae.io import format_of

        format_of(outputs["--then-impute"])
    if methods is None:
        return None
    names = [name.strip() for name in methods.split(",") if name.strip()]
    if not names:
        raise InputError("--methods names no method; separate names by commas, as in --methods mean,knn")
    from megae.imputers import REGISTRY, get_imputer

    for name in names:
        if name not in REGISTRY:
            try:
                get_imputer(name)
            except ValueError as problem:
                raise InputError(f"--methods: {problem}") from problem
    return names


def _write(
    comparison: Comparison,
    inputs: Inputs,
    run: Run | None,
    outputs: dict[str, Path | None],
    nodes: Path,
    edges: Path | None,
) -> None:
    """Write every output beside its place first; only when all are whole are they renamed."""
    from megae.io import atomic_path, write_columns, write_table

    with contextlib.ExitStack() as stack:
        wanted = {o: p for o, p in outputs.items() if p is not None and (o != "--then-impute" or run is not None)}
        paths = {option: stack.enter_context(atomic_path(path)) for option, path in wanted.items()}
        if "--then-impute" in paths and run is not None:
            write_table(paths["--then-impute"], inputs.table, run.after, graph=inputs.A)
        if "--out" in paths:
            write_columns(paths["--out"], _ranking(comparison))
        if "--report" in paths:
            from megae.report.compare import write_compare_report

            facts = {"nodes": nodes, "edges": edges, "rows": len(inputs.table.ids)}
            write_compare_report(paths["--report"], {**facts, **comparison.to_dict()}, title=nodes.name, force=True)


def _ranking(comparison: Comparison) -> list[Any]:
    """The ranking as columns of a file."""
    from megae.io.document import OutColumn

    kinds: dict[str, Any] = {"rank": "int", "method": "kept", "status": "kept", "score": "float"}
    kinds |= dict.fromkeys(("low", "high", "rmse", "mae", "error_rate"), "float")
    kinds |= dict.fromkeys(("difference", "difference_low", "difference_high", "best", "seconds"), "float")
    kinds["error"] = "kept"
    rows = [entry.to_dict() for entry in comparison.entries]
    return [OutColumn(name, kind, [row[name] for row in rows]) for name, kind in kinds.items()]


def _result(
    comparison: Comparison,
    inputs: Inputs,
    run: Run | None,
    outputs: dict[str, Path | None],
    messages: list[str],
    seconds: float,
    nodes: Path,
    edges: Path | None,
) -> dict[str, Any]:
    written = {o.removeprefix("--"): p for o, p in outputs.items() if p is not None}
    if run is None:
        written.pop("then-impute", None)
    return {
        "command": "compare",
        "nodes": nodes,
        "edges": edges,
        "rows": len(inputs.table.ids),
        "graph": inputs.graph_facts(),
        **comparison.to_dict(),
        "filled": None if run is None else int(inputs.table.holes().sum()),
        "written": written,
        "warnings": messages,
        "seconds": round(seconds, 3),
    }


def _print(comparison: Comparison, result: dict[str, Any]) -> None:
    print(comparison)
    if result["filled"] == 0:
        print(f"nothing to fill: {result['nodes']} has no holes, every cell is written as it was")
    elif result["filled"]:
        holes = "hole" if result["filled"] == 1 else "holes"
        print(f"filled {result['filled']:,} {holes} of {result['nodes']} with {result['winner']}")
    for path in result["written"].values():
        print(f"wrote {path}")

"""``megae spectrum``: what imputation does to the graph spectrum of each column."""

from __future__ import annotations

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
    check_outputs,
    imputer_class,
    make_imputer,
    print_json,
    read_inputs,
    warn,
    working,
)
from megae.io.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

_ENDINGS = (".png", ".svg", ".pdf", ".html", ".htm")


def spectrum(
    nodes: NodesArgument,
    edges: EdgesOption = None,
    out: Annotated[Path, typer.Option(help="Where the plot goes: .png, .svg, .pdf or .html.")] = Path("spectrum.png"),
    method: MethodOption = "megae",
    after: Annotated[
        Path | None,
        typer.Option(show_default=False, help="The table already filled, with the same ids; nothing is imputed then."),
    ] = None,
    id_column: IdOption = None,
    columns: ColumnsOption = None,
    center: Annotated[
        bool, typer.Option("--center", help="Subtract the mean of its observed cells from each column first.")
    ] = False,
    bands: Annotated[int, typer.Option(min=3, max=64, help="Number of wavelets of the wavelet entropy.")] = 6,
    device: DeviceOption = Device.auto,
    seed: SeedOption = 0,
    max_steps: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Stop training after so many steps.")
    ] = None,
    drop_unknown: DropUnknownOption = False,
    force: ForceOption = False,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show the spectral entropy of each column before and after imputation, and plot both spectra.

    Before imputation, holes hold the mean of the observed cells of their column. The entropy (in nats)
    says how evenly the energy of a column is spread over the frequencies of the graph; the wavelet
    entropy estimates it without eigendecomposition, and differs from it by at most the bound
    (Proposition 2 of the paper, which is loose). Beyond 2,000 nodes the exact entropy is left out, and
    the bound comes from an estimate of the eigenvalues.

    Example:  megae spectrum nodes.csv --edges edges.csv --out spectrum.svg
    """
    if out.suffix.lower() not in _ENDINGS:
        raise InputError(f"--out {out}: a plot ends in one of {', '.join(_ENDINGS)}")
    imputer_class(method)
    check_device(device)
    check_outputs({"--out": out}, [nodes, edges, after], force=force)
    inputs = read_inputs(nodes, edges, id_column=id_column, columns=columns, drop_unknown=drop_unknown)
    if inputs.A is None:
        raise InputError(f"{nodes} comes without edges; a spectrum needs a graph, so pass --edges")
    names = [c.name for c in inputs.table.fillable if c.kind != "category"]
    if not names:
        raise InputError(f"{nodes} has no column of numbers; a spectrum needs at least one")
    options = {
        "random_state": seed,
        "device": device.value,
        "verbose": 0 if quiet or json_output else 1,
        "max_steps": max_steps,
        "diagnose": False,
    }
    with working(quiet=quiet, as_json=json_output) as messages:
        frame = inputs.table.frame()
        if after is not None:
            filled = _read_after(after, inputs, id_column)
        elif inputs.table.holes().any():
            filled = make_imputer(method, options, {"max_steps": "--max-steps"}).fit_transform(frame, graph=inputs.A)
        else:
            filled = frame
        first, second = _numbers(frame, filled, names, center)
        result = {
            "command": "spectrum",
            "nodes": nodes,
            "edges": edges,
            "method": None if after is not None else method,
            "after": after,
            "rows": len(frame),
            "ids": inputs.table.id_source,
            "centered": center,
            **_measure(first, second, inputs.A, bands),
        }
        holes = dict(zip(frame.columns, inputs.table.holes().sum(axis=0).tolist(), strict=True))
        for row in result["columns"]:
            row["holes"] = holes[row["name"]]
        _write_plot(out, first, second, inputs, names, result)
    messages = inputs.notes + messages
    warn(messages)
    result |= {"graph": inputs.graph_facts(), "written": {"out": out}, "warnings": messages}
    if json_output:
        print_json(result)
    elif not quiet:
        _print(result)


def _numbers(
    frame: pd.DataFrame, filled: pd.DataFrame, names: list[str], center: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables as float64 (N, D): the first with holes set to the observed mean (0 where none is
    observed)."""
    import pandas as pd

    raw = {name: frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in names}
    means = {name: float(np.mean(v[~np.isnan(v)])) if (~np.isnan(v)).any() else 0.0 for name, v in raw.items()}
    shift = means if center else dict.fromkeys(names, 0.0)
    before = {name: np.where(np.isnan(v), means[name], v) - shift[name] for name, v in raw.items()}
    after = {name: filled[name].to_numpy(dtype=np.float64) - shift[name] for name in names}
    return pd.DataFrame(before), pd.DataFrame(after)


def _measure(before: pd.DataFrame, after: pd.DataFrame, A: Any, bands: int) -> dict[str, Any]:
    from megae.report.spectrum import EXACT_LIMIT
    from megae.spectral import (
        TightFrame,
        entropy_error_bound,
        normalized_laplacian,
        spectral_cdf,
        spectral_entropy,
        wavelet_entropy,
    )

    n, d = before.shape
    both = np.concatenate([before.to_numpy(), after.to_numpy()], axis=1)
    frame = TightFrame(bands, warp="log", c=10.0)
    L = normalized_laplacian(A)
    exact: Any = [None] * (2 * d)
    if n <= EXACT_LIMIT:
        exact = np.asarray(spectral_entropy(both, A)).tolist()
        eigenvalues = np.clip(np.linalg.eigvalsh(L.toarray()), 0.0, 2.0)
    else:
        grid = np.linspace(0.0, 2.0, 4097)
        eigenvalues = np.interp((np.arange(n) + 0.5) / n, spectral_cdf(L)(grid), grid)
    wavelet = np.asarray(wavelet_entropy(both, A, frame)).tolist()
    rows = [
        {
            "name": str(name),
            "spectral_entropy_before": exact[j],
            "spectral_entropy_after": exact[d + j],
            "wavelet_entropy_before": wavelet[j],
            "wavelet_entropy_after": wavelet[d + j],
        }
        for j, name in enumerate(before.columns)
    ]
    return {
        "columns": rows,
        "bound": entropy_error_bound(frame, eigenvalues),
        "bound_estimated": n > EXACT_LIMIT,
        "bands": bands,
    }


def _read_after(path: Path, inputs: Inputs, id_column: str | None) -> pd.DataFrame:
    """The filled table, its rows in the order of the first one."""
    import pandas as pd

    from megae.io import read_table

    table = inputs.table
    asked = id_column
    if asked is None and table.document.ids is None:
        asked = table.id_column if table.id_column is not None else "#"
    names = [c.name for c in table.fillable]
    other = read_table(path, id_column=asked, columns=names)
    row = {key: i for i, key in enumerate(other.ids)}
    lacking = [key for key in table.ids if key not in row]
    if lacking:
        raise InputError(f"{path} has no row {lacking[0]!r}, which {table.document.path} has; give the same rows")
    frame = other.frame()
    open_ = other.holes().sum(axis=0)
    if open_.any():
        j = int(np.argmax(open_ > 0))
        raise InputError(
            f"{path} still has holes: {int(open_[j]):,} in column {str(frame.columns[j])!r}; give the filled table, "
            "leave out --after, or name other columns by --columns"
        )
    order = [row[key] for key in table.ids]
    return pd.DataFrame({name: frame[name].array.take(order) for name in names})


def _write_plot(
    out: Path,
    before: pd.DataFrame,
    after: pd.DataFrame,
    inputs: Inputs,
    names: list[str],
    result: dict[str, Any],
) -> None:
    from megae.io import atomic_path
    from megae.report.spectrum import plot_spectrum

    holes = {row["name"]: row["holes"] for row in result["columns"]}
    order = sorted(names, key=lambda name: -holes[name])
    with atomic_path(out) as path:
        plot_spectrum(before, after, inputs.A, order, path, result=result)


def _print(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    kind = "estimated from" if result["bound_estimated"] else "from"
    print(
        f"Entropy in nats; spectral and wavelet entropy differ by at most {result['bound']:.3f} "
        f"({kind} the eigenvalues)"
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("column")
    table.add_column("holes", justify="right")
    for name in ("spectral\nbefore", "\nafter", "wavelet\nbefore", "\nafter"):
        table.add_column(name, justify="right")
    for row in result["columns"]:
        figures = [row[f"{k}_entropy_{when}"] for k in ("spectral", "wavelet") for when in ("before", "after")]
        table.add_row(row["name"], f"{row['holes']:,}", *map(shown, figures))
    Console(highlight=False, markup=False).print(table)
    print(f"wrote {result['written']['out']}")

"""The page on speed and scale, ``docs/performance.md``, out of the records: bars, and plots beside it."""

from __future__ import annotations

import io
import json
import re
from itertools import pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.record import RESULTS, bar, write_record
from megae.io.atomic import atomic_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PLOTS = PAGE.parent / "performance"
RECORDS = (
    "filter_cpu",
    "step_cpu",
    "authors",
    "entropy",
    "scale",
    "scale-full",
    "streaming",
    "gpu_filter",
    "gpu_step",
    "scale-gpu",
    "all-cpu",
)


def record(name: str) -> dict[str, Any] | None:
    """The record of this name, or None where it was not made."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def bars() -> list[tuple[str, dict[str, Any]]]:
    """Every bar of every record, with the record's name, and those on harsher readings of what is asked."""
    return [
        (name, one)
        for name in RECORDS
        if (found := record(name)) is not None
        for one in [*found["bars"], *harsher_bars(name, found)]
    ]


def harsher_bars(name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The same bars where more is asked, or less credited, out of the same record."""
    if name.startswith("scale"):
        seconds = [(case["nodes"], case["seconds"]) for case in found["cases"]]
        steepest = max(log(t / s) / log(n / m) for (m, s), (n, t) in pairwise(seconds))
        return [
            bar(f"the same between the two sizes where it is steepest, on {found['device']}", steepest, at_most=1.1)
        ]
    if name == "authors":
        times = found["times_faster"]["paper"]["unpadded"]
        return [bar("the same against the authors' approach without their loader's padding", times, at_least=50)]
    if name == "step_cpu":
        times = found["seconds"]["torch's sparse product, all else ours"] / found["seconds"]["megae"]
        return [bar("the same against torch's sparse products alone, all else being ours", times, at_least=2)]
    if name == "filter_cpu":
        first = found["seconds"]["numba"] + found["seconds_of_matrices"]
        what = "CPU filter and the making of its matrices, times faster than torch CSR"
        return [bar(what, found["seconds"]["torch CSR"] / first, at_least=8)]
    return []


def asked(one: dict[str, Any]) -> str:
    """A figure and what is asked of it."""
    least = one["at_least"] is not None
    return f"{one['measured']:.3g} (at {'least' if least else 'most'} {one['at_least' if least else 'at_most']:.3g})"


def write_total(seconds: dict[str, float]) -> None:
    """Record how long each benchmark on CPU took, and all of them together."""
    total = bar("minutes that all benchmarks on CPU take", sum(seconds.values()) / 60, at_most=15)
    write_record(RESULTS / "all-cpu.json", {"seconds": seconds, "bars": [total]})


def table() -> str:
    """What is asked, what was measured, whether it is met, and by which command on which machine."""
    lines = ["| figure | measured | asked | met | record |", "|---|---|---|---|---|"]
    for name, one in bars():
        least = one["at_least"] is not None
        limit = f"{'≥' if least else '≤'} {one['at_least' if least else 'at_most']:.3g}"
        met = "yes" if one["met"] else "**no**"
        lines.append(f"| {one['what']} | {one['measured']:.3g} | {limit} | {met} | `{name}.json` |")
    lines += ["", "| record | command | machine | versions |", "|---|---|---|---|"]
    for name in RECORDS:
        found = record(name)
        if found is None:
            lines.append(f"| `{name}.json` | not measured yet | | |")
            continue
        machine = found["gpu"] or f"{found['cpu']}, {found['cpu_count']} cores, {found['threads']} threads"
        versions = ", ".join(
            f"{k} {found['versions'][k]}" for k in ("torch", "numpy", "numba") if k in found["versions"]
        )
        lines.append(f"| `{name}.json` | `{found['command']}` | {machine} | {versions} |")
    return "\n".join(lines)


def details() -> str:
    """Seconds behind the ratios, record by record."""
    writers = {
        "filter_cpu": _filter,
        "step_cpu": _step,
        "authors": _authors,
        "scale": _growth,
        "scale-full": _growth,
        "scale-gpu": _growth,
        "entropy": _entropy,
        "streaming": _streaming,
        "gpu_filter": _gpu_filter,
        "gpu_step": _gpu_step,
    }
    return "\n\n".join(write(found) for name, write in writers.items() if (found := record(name)) is not None)


def _lines(lead: str, head: str, rows: list[str]) -> str:
    """A sentence and a table under it."""
    return "\n".join([lead, "", head, "|" + "---|" * head.count(" | ") + "---|", *rows])


def _filter(found: dict[str, Any]) -> str:
    lead = (
        f"**Filter**: {found['nodes']:,} nodes, {found['non_zeros']:,} non-zeros, {found['columns']} columns, "
        f"K = {found['order']}; a copy moves {found['copy_bytes_per_second'] / 1e9:.1f} GB/s, the recurrence "
        f"counts {found['counted_bytes_per_second'] / 1e9:.1f} GB/s and {found['gflops']:.0f} GFLOP/s. The matrices of "
        f"the dense products are made in {1e3 * found['seconds_of_matrices']:.1f} ms, once."
    )
    rows = [f"| {name} | {1e3 * seconds:.1f} |" for name, seconds in found["seconds"].items()]
    return _lines(lead, "| implementation | milliseconds |", rows)


def _step(found: dict[str, Any]) -> str:
    lead = (
        f"**Training step**: {found['nodes']:,} nodes of {found['graphs']} graphs, {found['weights']:,} weights. Its "
        f"products of dense matrices are {found['product_gflop']:.1f} GFLOP, which alone take "
        f"{1e3 * found['seconds_of_products_at_that_rate']:.0f} ms at the {found['product_gflop_per_second']:.0f} "
        "GFLOP/s this machine reaches on one of them."
    )
    shares = {name: f"{100 * share:.0f} %" for name, share in found["share_of_filter"].items()}
    rows = [f"| {name} | {1e3 * t:.0f} | {shares.get(name, '')} |" for name, t in found["seconds"].items()]
    return _lines(lead, "| step by | milliseconds | share of the filter |", rows)


def _authors(found: dict[str, Any]) -> str:
    lead = f"**An epoch of {found['training_graphs']} training graphs** of PROTEINS_full."
    ratios, rows = found["times_faster"], []
    for name, seconds in found["seconds_per_epoch"].items():
        against = [f"{ratios[preset][name]:.1f}" if name in ratios[preset] else "" for preset in ("paper", "default")]
        label = f"ours, preset {name}" if name in ratios else f"the authors' approach, {name}"
        rows.append(f"| {label} | {seconds:.2f} | {against[0]} | {against[1]} |")
    return _lines(lead, "| epoch | seconds | preset paper is faster by | preset default is faster by |", rows)


def _growth(found: dict[str, Any]) -> str:
    lead = f"**Growth on {found['device']}**: {found['columns']} columns, {found['epochs']} epochs at each size."
    rows = []
    for case in found["cases"]:
        gpu = "" if case["peak_gpu_gib"] is None else f"{case['peak_gpu_gib']:.1f}"
        rows.append(
            f"| {case['nodes']:,} | {case['edges']:,} | {case['fit_seconds']:.1f} | {case['fill_seconds']:.2f} "
            f"| {case['peak_gib']:.1f} | {gpu} |"
        )
    return _lines(lead, "| nodes | edges | fit, s | fill, s | peak GiB | peak GiB of the GPU |", rows)


def _entropy(found: dict[str, Any]) -> str:
    lead = f"**Entropy**: graphs: {found['graph']}; polynomials of degree {found['order']}."
    rows = []
    for point in found["points"]:
        rest = "| | | |"
        if point["eigh_seconds"] is not None:
            rest = f"| {point['eigh_seconds']:.2f} | {point['times_faster']:,.0f} | {point['share_of_bound']:.2f} |"
        rows.append(f"| {point['nodes']:,} | {point['columns']} | {point['wavelet_seconds']:.4f} {rest}")
    return _lines(lead, "| nodes | columns | wavelets, s | eigh, s | times faster | error / bound |", rows)


def _streaming(found: dict[str, Any]) -> str:
    columns = sum(found["columns"].values())
    lead = f"**CSV**: {found['rows']:,} rows, {columns} columns of numbers, {found['file_gib']:.2f} GiB."
    rows = []
    for what, seconds in found["seconds"].items():
        alone = found["memory"].get(what)
        rest = "| | |"
        if alone is not None:
            rest = f"| {alone['seconds']:.2f} | {alone['peak_gib'] - alone['before_gib']:.2f} |"
        rows.append(f"| {what} | {seconds:.2f} {rest}")
    return _lines(lead, "| what | seconds | first call of a process, s | GiB it adds |", rows)


def _gpu_filter(found: dict[str, Any]) -> str:
    lead = (
        f"**Filter on the GPU**: {found['nodes']:,} nodes, {found['edges']:,} edges, {found['columns']} columns, "
        f"K = {found['order']}; a copy moves {found['copy_bytes_per_second'] / 1e12:.2f} TB/s. Neighbours are drawn "
        "from all nodes (random) or from the next thousand (local)."
    )
    rows = []
    for kind, figures in found["graphs"].items():
        for name, seconds in figures["seconds"].items():
            shares = figures["share_of_copy"][name]
            rows.append(
                f"| {kind} | {name} | {1e3 * seconds:.1f} | {shares['each_operand_once']:.2f} "
                f"| {shares['gathers_counted']:.2f} |"
            )
    head = "| graph | implementation | milliseconds | of a copy's rate, each operand once | gathers counted |"
    return _lines(lead, head, rows)


def _gpu_step(found: dict[str, Any]) -> str:
    lead = f"**Training step on the GPU**: {found['nodes']:,} nodes, {found['weights']:,} weights."
    rows = [f"| {name} | {1e3 * seconds:.2f} |" for name, seconds in found["seconds"].items()]
    return _lines(lead, "| step | milliseconds |", rows)


def growth(ax: Axes) -> bool:
    """Time against nodes, both logarithmic."""
    drawn = False
    cpu = "scale-full" if record("scale-full") is not None else "scale"
    for name, label in ((cpu, "impute, CPU"), ("scale-gpu", "impute, GPU")):
        if (found := record(name)) is not None:
            cases = found["cases"]
            ax.loglog([c["nodes"] for c in cases], [c["seconds"] for c in cases], "o-", label=label)
            drawn = True
    if (found := record("entropy")) is not None:
        for key, label in (("wavelet_seconds", "entropy by wavelets"), ("eigh_seconds", "entropy by eigh")):
            points = [p for p in found["points"] if p["columns"] == 1 and p[key] is not None]
            ax.loglog([p["nodes"] for p in points], [p[key] for p in points], "o-", label=label)
        drawn = True
    ax.set(xlabel="nodes", ylabel="seconds", title="Growth", xlim=(500, 5e6))
    return drawn


def roofline(ax: Axes) -> bool:
    """Rates of the CPU filter, by the operations of the recurrence, under what the machine's memory allows."""
    found, step = record("filter_cpu"), record("step_cpu")
    if found is None or step is None:
        return False
    operations = found["gflops"] * found["seconds"]["numba, recurrence alone"]
    intensity = operations * 1e9 / found["counted_bytes"]
    peak, slope = step["product_gflop_per_second"], found["copy_bytes_per_second"] / 1e9
    at = [2.0**k for k in range(-4, 8)]
    ax.loglog(at, [min(peak, slope * a) for a in at], "k-", label="copy bandwidth, matrix product")
    for name, seconds in found["seconds"].items():
        ax.loglog([intensity], [operations / seconds], "o", label=name)
    ax.set(xlabel="operations per byte, each operand once per step", ylabel="GFLOP/s", title="Filter on CPU")
    return True


def roofline_gpu(ax: Axes) -> bool:
    """Rates of the GPU filter, counted both ways, under what the card's memory allows."""
    found = record("gpu_filter")
    if found is None:
        return False
    slope = found["copy_bytes_per_second"] / 1e9
    at = [2.0**k for k in range(-4, 6)]
    ax.loglog(at, [slope * a for a in at], "k-", label="copy bandwidth")
    markers = {"each_operand_once": "o", "gathers_counted": "s"}
    for kind, figures in found["graphs"].items():
        operations = 2 * found["order"] * (figures["entries"] + 2 * found["nodes"]) * found["columns"]
        for name in ("torch", "triton"):
            color = None
            for way, marker in markers.items():
                rate = operations / figures["seconds"][name] / 1e9
                label = f"{name}, {kind}, {way.replace('_', ' ')}"
                x = operations / figures["bytes"][way]
                color = ax.loglog([x], [rate], marker, color=color, label=label)[0].get_color()
    ax.set(xlabel="operations per byte", ylabel="GFLOP/s", title="Filter on GPU")
    return True


def write_plots() -> None:
    """Write the plots that the page shows; :mod:`benchmarks.figures` writes its sections."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    PLOTS.mkdir(parents=True, exist_ok=True)
    with plt.rc_context({"svg.hashsalt": "megae", "font.size": 9}):
        for name, draw in (("growth", growth), ("roofline", roofline), ("roofline-gpu", roofline_gpu)):
            figure, ax = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
            if draw(ax):
                ax.grid(True, which="major", alpha=0.3)
                ax.legend(fontsize=7)
                drawn = io.StringIO()
                figure.savefig(drawn, format="svg", metadata={"Date": None})
                with atomic_path(PLOTS / f"{name}.svg") as temporary:
                    temporary.write_text(re.sub(r"[ \t]+$", "", drawn.getvalue(), flags=re.M), encoding="utf-8")
            plt.close(figure)

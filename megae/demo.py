"""``megae demo``: hide pixels of handwritten digits, fill them with every method at hand, compare.

Training images are complete; validation and test images have holes in their intensity, never in row or
column. Every method is handed graphs (or rows) that hold NaN at the holes: the truth stays here, for scoring.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from megae.datasets import load_digits_graphs, split_indices
from megae.datasets.digits import SIDE

log = logging.getLogger(__name__)

DEMO_SETTINGS: dict[str, Any] = dict(
    hidden=64,
    band_width=12,
    blocks=3,
    batch_fraction=0.025,
    learning_rate=4e-3,
    max_steps=2200,
    time_budget=140.0,
    diagnose=False,
)
"""A small network and small batches, for a little over two minutes of one CPU core."""

RATE = 0.3
NODE_KNN: dict[str, Any] = dict(n_neighbors=5, max_donors=10_000)
REPORT = "report.html"

Filler = Callable[[], np.ndarray]


def with_holes(graphs: Sequence[Data], holes: np.ndarray) -> list[Data]:
    """Return copies of ``graphs`` whose intensity is NaN at ``holes``.

    Parameters
    ----------
    graphs : sequence of Data, length n
        ``x`` (64, 3), intensity first.
    holes : boolean ndarray, shape (n, 64)
    """
    out = []
    for graph, gaps in zip(graphs, holes, strict=True):
        copy = graph.clone()
        copy.x[torch.from_numpy(gaps), 0] = float("nan")
        out.append(copy)
    return out


def intensities(graphs: Sequence[Data]) -> np.ndarray:
    """Return the intensity of every pixel, (n, 64) float64."""
    return np.stack([graph.x[:, 0].cpu().numpy() for graph in graphs]).astype(float)


def fill_position_mean(train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Fill each hole with the mean training intensity at its place in the image.

    Parameters
    ----------
    train, test : ndarray, shape (n, 64), (m, 64)
        Complete images, and images with NaN at the holes.
    """
    return np.where(np.isnan(test), train.mean(axis=0), test)


def fill_image_knn(train: np.ndarray, test: np.ndarray, n_neighbors: int = 5) -> np.ndarray:
    """Fill each hole from the ``n_neighbors`` training images nearest in the observed pixels.

    Parameters
    ----------
    train, test : ndarray, shape (n, 64), (m, 64)
        Complete images, and images with NaN at the holes.
    """
    from sklearn.impute import KNNImputer

    return KNNImputer(n_neighbors=n_neighbors).fit(train).transform(test)


def score(filled: np.ndarray, truth: np.ndarray, holes: np.ndarray) -> tuple[float, float]:
    """Return RMSE and MAE pooled over the holes; refuse a fill that is not finite or touches observed pixels.

    Parameters
    ----------
    filled, truth : ndarray, shape (n, 64)
    holes : boolean ndarray, shape (n, 64)
    """
    if not np.isfinite(filled).all():
        raise ValueError("a method left holes open or filled in values that are not finite")
    if not np.array_equal(filled[~holes], truth[~holes]):
        raise ValueError("a method changed observed pixels")
    error = (filled - truth)[holes]
    return float(np.sqrt(np.mean(error**2))), float(np.mean(np.abs(error)))


def check_target(out_dir: Path, force: bool) -> Path:
    """Return where the report goes; refuse to replace a file that an earlier demo did not write."""
    from megae.io.errors import InputError
    from megae.report.demo import GENERATOR
    from megae.report.html import generator_of

    target = out_dir / REPORT
    if out_dir.exists() and not out_dir.is_dir():
        raise InputError(f"{out_dir} is a file; choose a folder for the report with --out")
    if target.exists() and not force and (not target.is_file() or generator_of(target) != GENERATOR):
        raise InputError(f"{target} is not from megae demo; choose another folder with --out or pass --force")
    return target


def run_demo(
    out_dir: str | Path,
    *,
    seed: int = 0,
    device: str = "auto",
    verbose: int = 1,
    force: bool = False,
) -> dict[str, Any]:
    """Train MEGAE on digits, compare it on hidden test pixels and write ``report.html``.

    Parameters
    ----------
    out_dir : path
        Folder of the report, made where it does not exist. A report of an earlier demo is replaced;
        any other file of that name is refused unless ``force``. Nothing else is written.
    seed : int
        Decides split, holes and training.
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``, for MEGAE.
    verbose : int
        0 is silent; passed on to MEGAE.
    force : bool
        Replace ``report.html`` whoever wrote it.

    Returns
    -------
    dict
        ``rows`` (one dict per method: method, label, note, rmse, mae, seconds), ``split``, ``rate``,
        ``n_holes``, ``seed``, ``device``, ``settings``, ``history``, ``best_step``, ``seconds``, ``report``,
        ``versions``, ``command_line``; ready for JSON.
    """
    from megae.imputers import get_imputer
    from megae.report.demo import Pictures, write_demo_report
    from megae.report.html import versions
    from megae.training.resources import pick_device

    began = time.perf_counter()
    out_dir = Path(out_dir)
    target = check_target(out_dir, force)
    graphs = load_digits_graphs()
    rng = np.random.default_rng(seed)
    parts = split_indices(len(graphs), random_state=rng)
    train, validation, test = ([graphs[i] for i in part] for part in parts)
    validation = with_holes(validation, rng.random((len(validation), SIDE * SIDE)) < RATE)
    holes = rng.random((len(test), SIDE * SIDE)) < RATE
    truth, labels = intensities(test), np.array([int(graph.y) for graph in test])
    test = with_holes(test, holes)
    train_rows, test_rows = intensities(train), intensities(test)

    def by_graph(imputer: Any) -> np.ndarray:
        return intensities(imputer.fit(train, validation=validation).transform(test))

    megae = get_imputer("megae", random_state=seed, device=device, verbose=verbose, **DEMO_SETTINGS)
    methods: list[tuple[str, str, str, Filler]] = [
        ("zero", "Zero", "every hole is blank paper", lambda: by_graph(get_imputer("zero"))),
        (
            "mean",
            "Mean",
            "mean intensity of all training pixels",
            lambda: by_graph(get_imputer("mean")),
        ),
        (
            "position-mean",
            "Mean per pixel position",
            "knows that all images share one layout",
            lambda: fill_position_mean(train_rows, test_rows),
        ),
        (
            "feature-propagation",
            "Feature propagation",
            "smooths over the grid, no training",
            lambda: by_graph(get_imputer("feature-propagation")),
        ),
        (
            "knn",
            "KNN over nodes",
            f"intensity, row and column; {NODE_KNN['n_neighbors']} nearest of a sample of "
            f"{NODE_KNN['max_donors']:,} training pixels, for speed",
            lambda: by_graph(get_imputer("knn", random_state=seed, **NODE_KNN)),
        ),
        (
            "image-knn",
            "KNN over whole images",
            f"knows that all images share one layout; 5 nearest of {len(train):,} training images",
            lambda: fill_image_knn(train_rows, test_rows),
        ),
        ("megae", "MEGAE", "graph and attributes only", lambda: by_graph(megae)),
    ]
    rows = []
    for method, label, note, fill in methods:
        start = time.perf_counter()
        filled = fill()
        seconds = time.perf_counter() - start
        rmse, mae = score(filled, truth, holes)
        log.info("%s: RMSE %.4f in %.1f s", label, rmse, seconds)
        rows.append(dict(method=method, label=label, note=note, rmse=rmse, mae=mae, seconds=seconds))

    diagnostics: dict[str, Any] = megae.diagnostics_
    result: dict[str, Any] = dict(
        rows=rows,
        split=dict(train=len(train), validation=len(validation), test=len(test)),
        rate=RATE,
        n_holes=int(holes.sum()),
        seed=seed,
        device=pick_device(device).type,
        settings=dict(DEMO_SETTINGS),
        history=[dict(record) for record in diagnostics.get("history") or []],
        best_step=diagnostics.get("best_step"),
        seconds=time.perf_counter() - began,
        report=str(target),
        versions=versions(),
        command_line=f"megae demo --seed {seed}",
    )
    shape = (len(test), SIDE, SIDE)
    pictures = Pictures(truth.reshape(shape), filled.reshape(shape), holes.reshape(shape), labels)
    out_dir.mkdir(parents=True, exist_ok=True)
    write_demo_report(target, result, pictures)
    return result


def table_lines(result: dict[str, Any]) -> list[str]:
    """Return the comparison as aligned plain text, best method first."""
    rows = sorted(result["rows"], key=lambda row: row["rmse"])
    width = max(len(row["label"]) for row in rows)
    lines = [f"{'method':<{width}}  {'RMSE':>7}  {'MAE':>7}  {'seconds':>7}"]
    for row in rows:
        lines.append(f"{row['label']:<{width}}  {row['rmse']:7.4f}  {row['mae']:7.4f}  {row['seconds']:7.1f}")
    return lines


def summary_line(result: dict[str, Any]) -> str:
    """Return what the figures mean, and whether training had the time it wanted."""
    from megae.report.demo import cut_short

    rmse = {row["method"]: row["rmse"] for row in result["rows"]}
    propagation, images = rmse["megae"] / rmse["feature-propagation"], rmse["megae"] / rmse["image-knn"]
    return (
        f"MEGAE's error is {propagation:.2f} times that of feature propagation and {images:.2f} times that "
        "of KNN over whole images, which is told the layout. " + cut_short(result)
    ).rstrip()


def print_table(result: dict[str, Any]) -> None:
    """Print the comparison: a table on a terminal, plain aligned text elsewhere."""
    from rich.console import Console

    title = (
        f"{result['n_holes']:,} hidden pixels ({100 * result['rate']:.0f} %) of "
        f"{result['split']['test']:,} test digits, intensity 0 to 1, seed {result['seed']}"
    )
    console = Console()
    if not console.is_terminal:
        print(title, "", *table_lines(result), "", summary_line(result), f"Report: {result['report']}", sep="\n")
        return
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    table.add_column("method")
    for name in ("RMSE", "MAE", "seconds"):
        table.add_column(name, justify="right")
    for row in sorted(result["rows"], key=lambda row: row["rmse"]):
        style = "bold cyan" if row["method"] == "megae" else None
        table.add_row(row["label"], f"{row['rmse']:.4f}", f"{row['mae']:.4f}", f"{row['seconds']:.1f}", style=style)
    console.print(table)
    console.print(summary_line(result), highlight=False)
    console.print(f"Report: {result['report']}", highlight=False, soft_wrap=True)

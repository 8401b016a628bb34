"""The page of ``megae demo``: figures, pictures and how they were made."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from megae.report.html import (
    Markup,
    Page,
    bar,
    escape,
    facts,
    figure,
    key,
    notice,
    number,
    percent,
    table,
    tiles,
)
from megae.report.pixels import image, ink
from megae.report.training import history_charts

GENERATOR = "megae demo"


@dataclass(frozen=True)
class Pictures:
    """Test pictures, before and after.

    Parameters
    ----------
    original, filled : float ndarray, shape (n, height, width)
        Intensity in [0, 1].
    holes : boolean ndarray, shape (n, height, width)
        Where intensity was hidden.
    labels : int ndarray, shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> original, holes = np.ones((1, 2, 2)), np.eye(2, dtype=bool)[None]
    >>> Pictures(original, np.where(holes, 0.5, original), holes, np.array([7])).rmse()
    array([0.5])
    """

    original: np.ndarray
    filled: np.ndarray
    holes: np.ndarray
    labels: np.ndarray

    def rmse(self) -> np.ndarray:
        """Return the RMSE over the holes of each picture, (n,); 0 where there is no hole."""
        squares = np.where(self.holes, self.filled - self.original, 0.0) ** 2
        count = self.holes.sum(axis=(1, 2))
        return np.sqrt(squares.sum(axis=(1, 2)) / np.maximum(count, 1))


def choose_pictures(pictures: Pictures, n_worst: int = 10) -> tuple[list[int], list[int]]:
    """Pick what the page shows: the first picture of each label in test order, and the worst of all.

    Returns
    -------
    first, worst : list of int
        Indices; ``first`` does not look at results, ``worst`` starts with the largest error.
    """
    labels = pictures.labels.tolist()
    first = [labels.index(label) for label in sorted(set(labels))]
    worst = np.argsort(-pictures.rmse(), kind="stable")[:n_worst].tolist()
    return first, worst


def contact_sheet(pictures: Pictures, indices: Sequence[int]) -> Markup:
    """Return one column per index: original, holes, filled, and the error under them."""
    errors = pictures.rmse()
    head, top, hidden, bottom, foot = [], [], [], [], []
    for i in indices:
        original, filled, holes = pictures.original[i], pictures.filled[i], pictures.holes[i]
        head.append(str(int(pictures.labels[i])))
        digit = f"the digit {int(pictures.labels[i])}"
        top.append(image(ink(original), f"{digit}, complete"))
        hidden.append(image(ink(original, holes), f"{digit} with {int(holes.sum())} pixels hidden"))
        bottom.append(image(ink(filled), f"{digit}, hidden pixels filled by MEGAE"))
        foot.append(f"{errors[i]:.3f}")
    lines = (("digit", head), ("original", top), ("with holes", hidden), ("filled", bottom), ("RMSE", foot))
    cells = [
        f"<div>{escape(cell)}</div>" for name, line in lines for cell in (Markup(f"<span>{escape(name)}</span>"), *line)
    ]
    style = f"grid-template-columns:72px repeat({len(indices)},minmax(58px,1fr))"
    return Markup(f'<div class="scroll"><div class="sheet" style="{style}">{"".join(cells)}</div></div>')


def _comparison(rows: Sequence[Mapping[str, Any]], holes: int) -> Markup:
    ordered = sorted(rows, key=lambda row: row["rmse"])
    longest = max(row["rmse"] for row in ordered)
    cells = [
        [
            Markup(f"{escape(row['label'])}<small>{escape(row['note'])}</small>"),
            bar(row["rmse"] / longest),
            f"{row['rmse']:.4f}",
            f"{row['mae']:.4f}",
            f"{row['seconds']:.1f}",
        ]
        for row in ordered
    ]
    main = [i for i, row in enumerate(ordered) if row["method"] == "megae"]
    headers = [
        ("Method", "text"),
        ("RMSE, shorter is better", "wide"),
        ("RMSE", "num"),
        ("MAE", "num"),
        ("Seconds", "num"),
    ]
    caption = (
        f"Errors pooled over the same {holes:,} hidden test pixels, in units of full ink (0 to 1). "
        "Seconds: fitting and filling together, wall clock."
    )
    return table(headers, cells, caption=caption, main=main)


def cut_short(result: Mapping[str, Any]) -> str:
    """Say that the time budget ended training before its last step; an empty string where it did not."""
    seconds = next(row["seconds"] for row in result["rows"] if row["method"] == "megae")
    planned, budget = result["settings"].get("max_steps"), result["settings"].get("time_budget")
    history = result.get("history") or []
    if not history or planned is None or budget is None or seconds < budget or history[-1]["step"] >= planned:
        return ""
    return (
        f"Training ended at step {history[-1]['step']:,} of {planned:,}, when its {budget:g} seconds were used up. "
        "A faster or idle machine gets further in that time."
    )


def write_demo_report(path: str | os.PathLike[str], result: Mapping[str, Any], pictures: Pictures) -> Path:
    """Write the page of the demo.

    Parameters
    ----------
    path : path
        Where the page goes; an existing page is replaced (the caller decides whether it may be).
    result : mapping
        What :func:`megae.demo.run_demo` returns.
    pictures : Pictures
        All test pictures, as MEGAE filled them.
    """
    rows = {row["method"]: row for row in result["rows"]}
    megae, propagation = rows["megae"], rows["feature-propagation"]
    images = rows["image-knn"]
    to_propagation, to_images = megae["rmse"] / propagation["rmse"], megae["rmse"] / images["rmse"]
    split = result["split"]
    page = Page(
        "Filling hidden pixels of handwritten digits",
        eyebrow="megae demo",
        lead=Markup(
            "Each image is a graph of 64 pixels joined to their neighbours. "
            f"<b>{percent(result['rate'], 0)}</b> of the pixels of {split['test']:,} test images were "
            "hidden, and every method filled the same holes without seeing what they held."
        ),
        generator=GENERATOR,
    )
    page.add(
        tiles(
            [
                (f"{megae['rmse']:.3f}", "RMSE of MEGAE", "in units of full ink, 0 to 1"),
                (f"{to_propagation:.2f}×", "the error of feature propagation", "smoothing alone"),
                (f"{to_images:.2f}×", "the error of KNN over images", "which is told the layout"),
                (
                    f"{megae['seconds']:.0f} s",
                    "to train and fill",
                    f"on {result['device']}, {split['train']:,} images",
                ),
            ]
        )
    )
    page.section(
        "How it compares",
        _comparison(result["rows"], result["n_holes"]),
        intro="MEGAE sees a graph whose nodes have an intensity, a row and a column. Two rows are told outright that "
        "pixel 17 of one image is pixel 17 of every other; a person who knows the layout would try them.",
    )
    first, worst = choose_pictures(pictures)
    page.section(
        "What it looks like",
        key([("#f0a020", "hidden pixel"), ("#14181e", "ink"), ("#ffffff", "paper")]),
        figure(
            contact_sheet(pictures, first),
            "The first test image of each digit, in the order of the test set: not chosen by result.",
        ),
        Markup("<h3>And where it does worst</h3>"),
        figure(
            contact_sheet(pictures, worst),
            f"The {len(worst)} test images with the largest error of all {len(pictures.labels):,}.",
        ),
    )
    charts = history_charts(result.get("history") or [], result.get("best_step"))
    cut = cut_short(result)
    if charts:
        page.section("How it trained", *([notice(cut)] if cut else []), charts)
    settings = ", ".join(f"{name}={value!r}" for name, value in result["settings"].items())
    page.section(
        "How this page was made",
        facts(
            [
                ("Command", Markup(f"<code>{escape(result['command_line'])}</code>")),
                ("Data", "scikit-learn's digits: 1,797 images of 8 × 8 pixels; intensity, row, column"),
                (
                    "Split",
                    f"{split['train']:,} training images (complete), {split['validation']:,} for validation "
                    f"and {split['test']:,} for the test (both with holes in intensity)",
                ),
                (
                    "Holes",
                    f"{percent(result['rate'], 0)} of pixels at random (MCAR); test: {result['n_holes']:,}",
                ),
                ("Seed", result["seed"]),
                ("MEGAE settings", settings or "defaults"),
                ("Device", result["device"]),
                ("Whole run", f"{number(result['seconds'], 0)} seconds"),
                ("Versions", ", ".join(f"{name} {value}" for name, value in result["versions"].items())),
            ]
        ),
    )
    return page.write(path, force=True)

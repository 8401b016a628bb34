"""The training history as small charts, shared by the pages that train a model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from megae.report.charts import line_chart
from megae.report.html import Markup, card, figure, grid, number

_PANELS = (("val_rmse", "Validation RMSE"), ("loss", "Training loss"), ("entropy", "Wavelet entropy"))


def history_charts(history: Sequence[Mapping[str, Any]], best_step: float | None = None) -> Markup:
    """Draw each figure of a training history that was recorded at least twice.

    Parameters
    ----------
    history : sequence of mappings
        Records with ``step`` and any of ``loss``, ``val_rmse`` and ``entropy``.
    best_step : float, optional
        The step that was kept, circled.

    Returns
    -------
    Markup
        A figure, or an empty string where nothing was recorded.
    """
    panels = []
    for name, title in _PANELS:
        points = [
            (float(record["step"]), float(record[name]))
            for record in history
            if record.get("step") is not None and record.get(name) is not None
        ]
        points = [(step, value) for step, value in points if math.isfinite(value)]
        if len(points) < 2:
            continue
        steps, values = zip(*points, strict=True)
        start, end = (f"{number(values[i])} at step {steps[i]:g}" for i in (0, -1))
        alt = f"{title} from {start} to {end}"
        chart = line_chart(steps, values, alt=alt, mark=best_step)
        panels.append(card(title, f"ends at {number(values[-1])}", chart))
    if not panels:
        return Markup("")
    kept = f"The circle marks step {best_step:g}, the one that was kept. " if best_step is not None else ""
    return figure(grid(panels, width=300), f"{kept}Each panel has its own vertical scale.")

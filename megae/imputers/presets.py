"""The two presets of MEGAE. Any entry can be overridden by the constructor argument of the same name."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "default": {
        "network": "residual",
        "frame": "log",
        "warp_constant": 10.0,
        "bands": 6,
        "order": 10,
        "decoder": "adjoint",
        "inverse_eps": 0.1,
        "hidden": 256,
        "band_width": 24,
        "blocks": 2,
        "dropout": 0.0,
        "gamma": 0.001,
        "learning_rate": 1e-3,
        "weight_decay": 1e-4,
        "max_steps": 6000,
        "batch_fraction": 1 / 6,
        "average_decay": 0.999,
        "jitter": 0.5,
        "propagation": 40,
        "scaling": "standard",
        "nearly_empty": False,
        "patience": None,
    },
    "paper": {
        "network": "paper",
        "frame": "log",
        "warp_constant": 10.0,
        "bands": 6,
        "order": 10,
        "decoder": "inverse",
        "inverse_eps": 0.1,
        "hidden": 32,
        "band_width": 32,
        "blocks": 1,
        "dropout": 0.0,
        "gamma": 0.15,
        "learning_rate": 3e-3,
        "weight_decay": 1e-2,
        "max_steps": 3000,
        "batch_fraction": 1 / 6,
        "average_decay": 0.0,
        "jitter": 0.0,
        "propagation": 40,
        "scaling": "range",
        "nearly_empty": False,
        "patience": None,
    },
}

ONE_GRAPH: dict[str, dict[str, Any]] = {
    "default": {"learning_rate": 2e-3, "propagation": 10, "patience": 10},
    "paper": {},
}
"""What changes when training sees too few graphs to set whole ones aside."""


NEARLY_EMPTY = 0.9
"""Share of missing cells from which one graph counts as nearly empty.

The nearest observed cells lie far off then, and propagation takes 40 rounds; it may fill holes without the network
(:func:`megae.training.carrying.carry_unless_better`); and held-out cells are given back to the column means.
"""

LARGE_TABLE = 200_000
"""Cells from which one graph gets fewer steps: each of them already hides tens of thousands of cells."""


def resolve(
    preset: str, one_graph: bool, shape: tuple[int, int], missing: float, overrides: dict[str, Any]
) -> dict[str, Any]:
    """The preset, what few graphs change in it, and every override that is not None.

    On few graphs, the number of steps follows the size of the table, and dropout grows with the number of columns: wide
    tables are the ones that a network learns by heart.

    Parameters
    ----------
    shape : (N, E)
        Nodes and encoded columns of the first graph.
    missing : float
        Share of all cells that are missing.
    """
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    config = dict(PRESETS[preset])
    if one_graph:
        config |= ONE_GRAPH[preset]
        if preset == "default":
            rows, width = shape
            config["dropout"] = round(0.7 * width / (width + 256), 4)
            if missing > NEARLY_EMPTY:
                config |= {"nearly_empty": True, "propagation": PRESETS[preset]["propagation"]}
            config["max_steps"] = 1000 if rows * width < LARGE_TABLE else 250
    return config | {k: v for k, v in overrides.items() if v is not None}


OVERRIDES = (
    "scaling",
    "frame",
    "decoder",
    "bands",
    "order",
    "hidden",
    "band_width",
    "blocks",
    "dropout",
    "gamma",
    "learning_rate",
    "weight_decay",
    "batch_fraction",
    "propagation",
    "max_steps",
    "patience",
    "partitions",
)
"""Constructor arguments that override an entry of the preset, or add one that no preset has."""

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
        "scaling": "standard",
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
        "scaling": "range",
        "patience": None,
    },
}

ONE_GRAPH: dict[str, dict[str, Any]] = {
    "default": {"max_steps": 600, "dropout": 0.2, "learning_rate": 1e-3, "patience": 10},
    "paper": {},
}
"""What changes when training sees too few graphs to set whole ones aside."""


def resolve(preset: str, one_graph: bool, overrides: dict[str, Any]) -> dict[str, Any]:
    """The preset, what few graphs change in it, and every override that is not None."""
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    base = {**PRESETS[preset], **(ONE_GRAPH[preset] if one_graph else {})}
    return {**base, **{k: v for k, v in overrides.items() if v is not None}}

"""Ratios out of one run: variants take turns, so that whatever else the machine does hits all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch


def take_turns(
    variants: Mapping[str, Callable[[], Any]], rounds: int, budget: float = 60.0, synchronize: bool = False
) -> dict[str, float]:
    """Median seconds of each variant over ``rounds`` turns, fewer where ``budget`` seconds run out; one warms up.

    Parameters
    ----------
    synchronize : bool
        Wait for the GPU before and after each turn.
    """
    for variant in variants.values():
        variant()
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    start = time.perf_counter()
    for turn in range(rounds):
        if turn and time.perf_counter() - start > budget:
            break
        for name, variant in variants.items():
            if synchronize:
                torch.cuda.synchronize()
            began = time.perf_counter()
            variant()
            if synchronize:
                torch.cuda.synchronize()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in seconds.items()}


def copy_bandwidth(megabytes: int = 512, rounds: int = 5) -> float:
    """Bytes per second that a copy of a large array moves, read plus written, on all threads torch uses."""
    source = torch.from_numpy(np.random.default_rng(0).random(megabytes * 2**17))
    target = torch.empty_like(source)
    seconds = take_turns({"copy": lambda: target.copy_(source)}, rounds)["copy"]
    return 2 * source.numel() * source.element_size() / seconds

"""How training is paced: one learning-rate cycle over steps or over time, whichever runs out first."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field


def one_cycle(progress: float, peak: float, rise: float = 0.3, start: float = 25.0, end: float = 1e4) -> float:
    """Learning rate of the one-cycle policy (Smith 2018): cosine up from peak/start, cosine down to peak/end."""
    low, bottom = peak / start, peak / end
    if progress < rise:
        return low + (peak - low) * 0.5 * (1 - math.cos(math.pi * progress / rise))
    t = min(1.0, (progress - rise) / (1 - rise))
    return bottom + (peak - bottom) * 0.5 * (1 + math.cos(math.pi * t))


def average_decay(step: int, decay: float) -> float:
    """Decay of the weight average at a step, with its warm-up."""
    return min(decay, (step + 1) / (step + 10))


@dataclass
class Clock:
    """Progress through a run of ``max_steps`` steps and at most ``time_budget`` seconds.

    Parameters
    ----------
    max_steps : int
    time_budget : seconds, or None for no limit
    spent : seconds already spent before this run started, when resuming
    """

    max_steps: int
    time_budget: float | None = None
    spent: float = 0.0
    _start: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        return self.spent + time.monotonic() - self._start

    def progress(self, step: int, elapsed: float | None = None) -> float:
        """Share of the run behind us, in [0, 1]; ``elapsed`` replaces the clock's own reading."""
        by_steps = step / max(1, self.max_steps)
        if self.time_budget is None:
            return min(1.0, by_steps)
        spent = self.elapsed() if elapsed is None else elapsed
        return min(1.0, max(by_steps, spent / max(self.time_budget, 1e-9)))

    def remaining(self, step: int) -> float:
        """Seconds left, by what the steps so far took."""
        done = self.progress(step)
        return math.inf if done == 0 else self.elapsed() * (1 - done) / done

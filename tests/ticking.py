"""A clock that does not depend on how fast the machine is, for the tests of time budgets."""

from __future__ import annotations

import time
from typing import Any

import pytest


class Ticking:
    """The module ``time``, but every look at the monotonic clock takes a minute.

    In the place of the module it makes a budget of ten minutes last for ten looks, whatever else the machine does.
    """

    def __init__(self, seconds: float = 60.0) -> None:
        self.seconds, self.looks = seconds, 0

    @property
    def passed(self) -> float:
        """Seconds that looking has taken so far."""
        return self.seconds * self.looks

    def monotonic(self) -> float:
        self.looks += 1
        return time.monotonic() + self.passed

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def pace_training(self, patch: pytest.MonkeyPatch) -> None:
        """Let the clock of training read this one, from its start on."""
        from megae.training import schedule

        begin = schedule.Clock.__init__

        def begun(clock: schedule.Clock, *args: Any, **settings: Any) -> None:
            begin(clock, *args, **settings)
            clock._start = self.monotonic()

        patch.setattr(schedule, "time", self)
        patch.setattr(schedule.Clock, "__init__", begun)

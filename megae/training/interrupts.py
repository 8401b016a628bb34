"""What an interrupt leaves behind: the best state so far, or, where half a training is worth nothing, not even that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_whole: ContextVar[bool] = ContextVar("whole", default=False)


@contextmanager
def whole_trainings() -> Iterator[None]:
    """Within this block an interrupted training raises ``KeyboardInterrupt``; elsewhere it keeps its best state.

    Examples
    --------
    >>> with whole_trainings():
    ...     keeps_best()
    False
    >>> keeps_best()
    True
    """
    before = _whole.set(True)
    try:
        yield
    finally:
        _whole.reset(before)


def keeps_best() -> bool:
    """Whether an interrupted training ends with its best state so far."""
    return not _whole.get()

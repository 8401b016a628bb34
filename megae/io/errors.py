"""What went wrong with a file, in words that tell a person what to do."""

from __future__ import annotations

__all__ = ["InputError"]


class InputError(ValueError):
    """Bad input: a file, a column, an option. The message says what, where and what to do.

    Examples
    --------
    >>> str(InputError("edges.csv line 3: weight -1 is negative; use weights of 0 or more"))
    'edges.csv line 3: weight -1 is negative; use weights of 0 or more'
    """

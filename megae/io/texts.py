"""Millions of ids without millions of Python objects: an Arrow array behind the face of a list of texts.

Ids in small files are lists; ids in large ones are `Texts`. The functions here take either and agree on both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

__all__ = ["BLANKS", "Texts", "count_distinct", "first_empty", "positions"]

BLANKS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
BLANKS += "\u200a\u2028\u2029\u202f\u205f\u3000"
"""Every letter that `str.strip` takes off."""

_PIECE = 1 << 15


class Texts(Sequence[str]):
    """A list of texts, kept as one buffer.

    Parameters
    ----------
    array : pyarrow.Array of shape (k,)
        The texts, none of them null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> texts = Texts(pa.array(["a", " bc"]))
    >>> list(texts), texts[1], texts[:1], list(texts.stripped())
    (['a', ' bc'], ' bc', ['a'], ['a', 'bc'])
    """

    def __init__(self, array: Any) -> None:
        import pyarrow as pa

        self.array: Any = array.cast(pa.large_string())

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> Texts:
        """The texts of several `pyarrow.ChunkedArray`, one after the other."""
        import pyarrow as pa

        chunks = [chunk.cast(pa.large_string()) for part in parts for chunk in part.chunks]
        return cls(pa.chunked_array(chunks, type=pa.large_string()).combine_chunks())

    def stripped(self) -> Texts:
        """The texts without blanks around them, as `str.strip` gives them."""
        import pyarrow.compute as pc

        return Texts(pc.utf8_trim(self.array, characters=BLANKS))

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            texts: list[str] = self.array[index].to_pylist()
            return texts
        return str(self.array[index])

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _PIECE):
            yield from self[start : start + _PIECE]


def first_empty(texts: Sequence[str]) -> int | None:
    """The position of the first empty text, or None."""
    if isinstance(texts, Texts):
        import pyarrow.compute as pc

        at = pc.index(texts.array, "").as_py()
        return None if at < 0 else int(at)
    return texts.index("") if "" in texts else None


def positions(first: Sequence[str], second: Sequence[str], ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Where the texts of two lists first stand among ids: int64 (k,) each, -1 for those that are not there.

    Examples
    --------
    >>> positions(["b"], ["z"], ["a", "b"])
    (array([1]), array([-1]))
    """
    if isinstance(first, Texts) and isinstance(second, Texts):
        import pyarrow as pa
        import pyarrow.compute as pc

        known = pa.array(ids, type=pa.large_string())
        found = pc.fill_null(pc.index_in(pa.chunked_array([first.array, second.array]), value_set=known), -1)
        both = found.to_numpy().astype(np.int64)
        return both[: len(first)], both[len(first) :]
    row = {key: i for i, key in reversed(list(enumerate(ids)))}
    u, v = (np.asarray([row.get(key, -1) for key in keys], dtype=np.int64) for keys in (first, second))
    return u, v


def count_distinct(first: Sequence[str], second: Sequence[str]) -> int:
    """How many different texts occur in either list."""
    if isinstance(first, Texts) and isinstance(second, Texts):
        import pyarrow as pa

        return len(pa.chunked_array([first.array, second.array]).unique())
    return len(set(first) | set(second))

"""What a column of a large file is: the rules of `megae.io.columns`, applied once per spelling.

Where a column has to be refused, or read as categories, the careful rules decide themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from megae.columns import LARGEST
from megae.io.columns import INTEGER, Column, has_comma, is_hole, number, words

if TYPE_CHECKING:
    from megae.io.large import LargeCells

__all__ = ["judge"]


def judge(name: str, cells: LargeCells, named: bool) -> Column | None:
    """Decide what a column is.

    Parameters
    ----------
    name : str
        Its name.
    cells : LargeCells
        Its N cells.
    named : bool
        Whether the user asked for this column to be filled.

    Returns
    -------
    Column or None
        None leaves the decision, or the refusal, to the careful rules.
    """
    import pandas as pd

    found = cells.typed
    if isinstance(found, np.ndarray):
        return None if _too_large(found) else Column(name, "float", pd.Series(found, copy=False))
    if isinstance(found, pd.arrays.IntegerArray):
        return Column(name, "int", pd.Series(found, copy=False))
    coded = cells.texts.array.dictionary_encode()
    texts, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    counts = np.bincount(codes, minlength=len(texts))
    hole = np.array([is_hole(text) for text in texts], dtype=bool)
    values = [np.nan if gone else number(text) for text, gone in zip(texts, hole.tolist(), strict=True)]
    wrong = np.array([value is None for value in values], dtype=bool)
    if not wrong.any():
        return _numeric(name, texts, np.array(values, dtype=np.float64), codes)
    lowered = [text.strip().lower() for text in texts]
    if all(low in ("true", "false") for low, gone in zip(lowered, hole.tolist(), strict=True) if not gone):
        truth = np.array([low == "true" for low in lowered], dtype=bool)
        series = pd.Series(pd.arrays.BooleanArray(truth[codes], hole[codes]), copy=False)
        spelled = words([texts[k] for k in codes.tolist()], [lowered[k] for k in codes.tolist()])
        return Column(name, "bool", series, spelled)
    solid = int(counts[~hole].sum())
    commas = int(counts[[has_comma(text) for text in texts]].sum())
    if named or 2 * (solid - int(counts[wrong].sum())) >= solid or 2 * commas > solid:
        return None
    return Column(name, "kept", lambda: pd.Series(list(cells), dtype=object))


def _numeric(name: str, texts: list[str], values: np.ndarray, codes: np.ndarray) -> Column | None:
    """A column of numbers, given the number of each text, NaN for holes, and which text each cell is."""
    import pandas as pd

    if _too_large(values):
        return None
    missing = np.isnan(values)
    known = [(k, texts[k]) for k in np.flatnonzero(~missing).tolist()]
    if known and all(INTEGER.fullmatch(text) for _, text in known):
        whole = [int(text) for _, text in known]
        if max(map(abs, whole)) < 2**63:
            exact = np.zeros(len(texts), dtype=np.int64)
            exact[~missing] = whole
            return Column(name, "int", pd.Series(pd.arrays.IntegerArray(exact[codes], missing[codes]), copy=False))
    return Column(name, "float", pd.Series(values[codes], copy=False))


def _too_large(values: np.ndarray) -> bool:
    return bool(np.fmax.reduce(values, initial=0.0) > LARGEST or np.fmin.reduce(values, initial=0.0) < -LARGEST)

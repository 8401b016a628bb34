r"""Is the best row better than another, or was it luck: paired tests that know trials are not independent.

Two rows are compared on the same test graphs (on one graph: the same columns), so the test is paired. One trial
holds many pairs, but the trials of a benchmark are new splits of one dataset: a test graph comes back in other
trials, and a pool of all pairs would count it several times. What is done instead depends on what is known:

- It is known which graph or column a pair is: its differences are averaged over the trials, so that every graph
  or column counts once, and one Wilcoxon signed-rank test runs over them.
- It is not known: one Wilcoxon test per trial, and the p-values :math:`p_1..p_T` of T trials are combined as
  :math:`\min(1, 2\,\mathrm{median}_t\, p_t)`, which is a p-value whatever the dependence (Rüger 1978; Meinshausen,
  Meier and Bühlmann, JASA 2009, use it for repeated splits). Fisher's and Stouffer's methods need independence. The
  harmonic mean would let one lucky trial decide; the median asks for the majority of trials.

Where records have no errors of single graphs or columns in the unit that is shown, and for accuracy, the figures of
the trials themselves are compared by a paired t-test.

A Wilcoxon test is one-sided ("the other row errs more than the best"), so a trial that speaks against the best
cannot count for it. Which row is the best was read off the same trials. So the result is doubled, either row of a pair
could have come out ahead, and Holm's correction counts all pairs of rows, not only those tested.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

ALPHA = 0.05
LEAST_TRIALS = 3
"""Fewer differences than this give the t-test next to nothing to judge their spread by."""
ROUNDED = 1e-6
"""Records keep seven digits: a spread below this share of the largest figure is what rounding makes."""
SAME = 1e-9
"""Differences below this share of the largest figure are rounding, and count as none."""


@dataclass(frozen=True)
class PairedTest:
    """One row against the best.

    Parameters
    ----------
    p : float
        Two-sided p-value, before any correction for the number of rows.
    least : float
        The smallest p-value so few pairs could have given; above alpha the test can tell nothing.
    trials, pairs : int
        What it rests on: trials, and pairs per test (the median over trials where there is one test per trial).
    """

    p: float
    least: float
    trials: int
    pairs: int


def signed_rank(differences: np.ndarray) -> float:
    """One-sided Wilcoxon signed-rank p-value for "the differences lie above zero"; 1 where all of them are zero.

    Parameters
    ----------
    differences : ndarray of shape (P,)
        Without NaN. Zeros are left out, as Wilcoxon did.

    Examples
    --------
    >>> signed_rank(np.array([0.1, 0.2, 0.3, 0.4, 0.5])) == 1 / 2**5
    True
    """
    moved = differences[differences != 0]
    if len(moved) == 0:
        return 1.0
    return float(stats.wilcoxon(moved, alternative="greater").pvalue)


def combine_dependent(p_values: Sequence[float]) -> float:
    """Combine p-values of one hypothesis, however they depend on each other: twice the median, at most 1.

    A single p-value stays as it is.

    Examples
    --------
    >>> combine_dependent([0.001, 0.01, 0.9]), combine_dependent([0.03]), combine_dependent([0.6, 0.8])
    (0.02, 0.03, 1.0)
    """
    if len(p_values) == 0:
        raise ValueError("no p-value to combine; give at least one")
    if len(p_values) == 1:
        return float(p_values[0])
    return min(1.0, 2.0 * float(np.median(p_values)))


def compare_pairs(
    best: Mapping[int, np.ndarray],
    other: Mapping[int, np.ndarray],
    names: Mapping[int, Sequence[Hashable]] | None = None,
) -> PairedTest | None:
    """Compare the errors of two rows over test graphs or columns; see the head of this module.

    Parameters
    ----------
    best, other : mapping from seed to ndarray of shape (P_seed,)
        Errors in the same order; a pair with NaN on either side is left out. Seeds of one alone are left out.
    names : mapping from seed to a sequence of length P_seed, or None
        Which graph or column each pair is, alike in all trials; None where that is not known.

    Returns
    -------
    PairedTest or None
        None where there is no common pair.

    Raises
    ------
    ValueError
        Where the two rows have different numbers of pairs for one seed.
    """
    seeds = sorted(set(best) & set(other))
    found: dict[int, np.ndarray] = {}
    labels: list[Hashable] = []
    for seed in seeds:
        if len(best[seed]) != len(other[seed]):
            raise ValueError(
                f"seed {seed} has {len(best[seed])} pairs in one row and {len(other[seed])} in the other: "
                "they do not come from the same split; run both again"
            )
        difference = _differences(best[seed], other[seed])
        known = ~np.isnan(difference)
        if known.any():
            found[seed] = difference[known]
            if names is not None:
                labels += [name for name, keep in zip(names[seed], known, strict=True) if keep]
    if not found:
        return None
    if names is not None:
        unit = _mean_by(labels, np.concatenate(list(found.values())))
        p, moved = signed_rank(unit), int(np.count_nonzero(unit))
        return PairedTest(min(1.0, 2 * p), min(1.0, 2 * 0.5**moved), len(found), len(unit))
    p = combine_dependent([signed_rank(d) for d in found.values()])
    least = combine_dependent([0.5 ** int(np.count_nonzero(d)) for d in found.values()])
    pairs = int(np.median([len(d) for d in found.values()]))
    return PairedTest(min(1.0, 2 * p), min(1.0, 2 * least), len(found), pairs)


def compare_trials(best: Mapping[int, float], other: Mapping[int, float]) -> PairedTest | None:
    """Compare two rows by one figure per trial: the two-sided paired t-test over their common seeds.

    It rests on as many numbers as there are trials, and on trials that share one dataset: weak, and still a
    little too sure of itself. None with fewer than three common seeds, and where all differences are one and the same,
    so that their spread says nothing.
    """
    seeds = sorted(set(best) & set(other))
    if len(seeds) < LEAST_TRIALS:
        return None
    one, two = np.array([best[s] for s in seeds]), np.array([other[s] for s in seeds])
    difference = _differences(one, two)
    if not difference.any():
        return PairedTest(1.0, 0.0, len(seeds), len(seeds))
    if np.ptp(difference) <= ROUNDED * np.abs([one, two]).max():
        return None
    return PairedTest(float(stats.ttest_1samp(difference, 0.0).pvalue), 0.0, len(seeds), len(seeds))


def holm(p_values: Sequence[float], family: int | None = None) -> list[float]:
    r"""Holm's step-down correction: :math:`\tilde p_{(i)} = \max_{j \le i} \min(1, (m - j + 1)\, p_{(j)})`.

    Valid whatever the dependence between the m tests (Holm, Scandinavian Journal of Statistics 1979).

    Parameters
    ----------
    p_values : sequence of float
    family : int or None
        m, where more hypotheses could have been looked at than were; None for as many as there are p-values.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    m = len(p_values) if family is None else family
    order = np.argsort(p_values, kind="stable")
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for step, i in enumerate(order):
        running = max(running, min(1.0, (m - step) * float(p_values[i])))
        adjusted[int(i)] = running
    return adjusted


def pairs_of(rows: int) -> int:
    """How many pairs of rows there are: the family of tests, since any row could have come out best.

    Counting only the tests against the best would call some row worse far too often where rows differ by chance
    alone; the tests of this module simulate it.

    Examples
    --------
    >>> pairs_of(4)
    6
    """
    return rows * (rows - 1) // 2


def least_possible(tests: Sequence[PairedTest], family: int) -> float:
    """The smallest p-value that so few pairs could have given after Holm."""
    return min(1.0, family * min(test.least for test in tests))


def _differences(best: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Other minus best; what is only rounding becomes zero, NaN stays."""
    difference = np.asarray(other, dtype=np.float64) - np.asarray(best, dtype=np.float64)
    size = np.fmax(np.abs(best), np.abs(other))
    return np.where(np.abs(difference) <= SAME * size, 0.0, difference)


def _mean_by(labels: Sequence[Hashable], values: np.ndarray) -> np.ndarray:
    """Mean of the values under each label, in order of first sight."""
    place: dict[Hashable, int] = {}
    where = np.array([place.setdefault(label, len(place)) for label in labels])
    return np.bincount(where, weights=values) / np.bincount(where)

"""Paired tests: scipy is the oracle, made cases say which way they must fall, simulation says how often they err."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from megae.bench.show.significance import (
    ALPHA,
    PairedTest,
    combine_dependent,
    compare_pairs,
    compare_trials,
    holm,
    least_possible,
    pairs_of,
    signed_rank,
)


def errors(seed: int, n: int = 40, worse: float = 0.0) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    """Errors of two rows in three trials; the second row errs more by ``worse``."""
    rng = np.random.default_rng(seed)
    best = {t: rng.gamma(4.0, 0.02, n) for t in range(3)}
    return best, {t: e + worse + rng.normal(0.0, 0.01, n) for t, e in best.items()}


def test_each_trial_is_tested_by_wilcoxon_and_twice_the_median_is_doubled():
    best, other = errors(0, worse=0.004)
    each = [stats.wilcoxon(other[t], best[t], alternative="greater").pvalue for t in range(3)]
    found = compare_pairs(best, other)
    assert found.p == pytest.approx(2 * 2 * np.median(each), rel=1e-12, abs=0)
    assert (found.trials, found.pairs) == (3, 40)
    assert found.least == pytest.approx(4 * 0.5**40, abs=0)


def test_named_pairs_count_once_with_the_mean_of_their_differences():
    best, other = errors(1, n=5, worse=0.004)
    names = {0: [0, 1, 2, 3, 4], 1: [4, 5, 6, 7, 0], 2: [8, 9, 10, 11, 12]}
    differences: dict[int, list[float]] = {}
    for t, ids in names.items():
        for i, name in enumerate(ids):
            differences.setdefault(name, []).append(other[t][i] - best[t][i])
    means = [np.mean(d) for d in differences.values()]
    found = compare_pairs(best, other, names)
    assert found.p == pytest.approx(2 * stats.wilcoxon(means, alternative="greater").pvalue, rel=1e-12, abs=0)
    assert (found.pairs, found.least) == (13, 2 * 0.5**13)


@pytest.mark.parametrize("named", [False, True])
def test_a_clear_difference_is_found_and_no_difference_is_not(named):
    names = {t: range(40) for t in range(3)} if named else None
    assert compare_pairs(*errors(2, worse=0.01), names).p < 1e-3
    assert compare_pairs(*errors(2), names).p > ALPHA
    best, other = errors(2, worse=0.01)
    assert compare_pairs(other, best, names).p == 1.0, "an advantage must not count as evidence of a disadvantage"


def test_trials_that_contradict_each_other_do_not_add_up():
    n = 30
    up, down = np.linspace(0.01, 0.02, n), -np.linspace(0.01, 0.02, n)
    best = {t: np.full(n, 0.1) for t in range(3)}
    assert compare_pairs(best, {t: 0.1 + d for t, d in enumerate([up, down, down])}).p == 1.0
    assert compare_pairs(best, {t: 0.1 + d for t, d in enumerate([up, up, down])}).p < ALPHA


def test_pairs_without_a_figure_and_trials_of_one_row_alone_are_left_out():
    best, other = errors(3, worse=0.004)
    expected = compare_pairs({0: best[0][1:]}, {0: other[0][1:]})
    holed = other[0].copy()
    holed[0] = np.nan
    assert compare_pairs({0: best[0], 1: best[1]}, {0: holed, 2: other[2]}) == expected
    assert compare_pairs({0: best[0]}, {1: other[1]}) is None
    assert compare_pairs({0: np.array([np.nan, 1.0])}, {0: np.array([1.0, np.nan])}) is None


def test_rounding_is_no_difference():
    best = {0: np.linspace(0.1, 0.2, 50)}
    found = compare_pairs(best, {0: best[0] * (1 + 1e-12)})
    assert (found.p, found.least) == (1.0, 1.0)
    assert signed_rank(np.zeros(4)) == 1.0


def test_rows_of_different_splits_are_refused():
    with pytest.raises(ValueError, match=r"seed 0 has 3 pairs in one row and 4 in the other.*run both again"):
        compare_pairs({0: np.ones(3)}, {0: np.ones(4)})


def test_one_figure_per_trial_is_compared_by_the_paired_t_test():
    best, other = [0.81, 0.79, 0.83, 0.80, 0.82], [0.78, 0.79, 0.80, 0.77, 0.81]
    found = compare_trials(dict(enumerate(best)), dict(enumerate(other)) | {9: 0.1})
    assert found.p == pytest.approx(stats.ttest_rel(best, other).pvalue, rel=1e-12, abs=0)
    assert found.trials == 5
    assert compare_trials(dict(enumerate(best)), dict(enumerate(best))).p == 1.0


def test_fewer_than_three_trials_and_differences_without_spread_are_not_tested():
    best, other = {0: 0.8, 1: 0.7, 2: 0.9}, {0: 0.7, 1: 0.65, 2: 0.7}
    assert compare_trials(best, other) is not None
    assert compare_trials(best, {0: 0.7, 1: 0.65, 5: 0.7}) is None
    # one graph of 120 less in each trial, to seven digits: 0.0083333 or 0.0083334
    assert compare_trials({0: 0.7083333, 1: 0.7166667, 2: 0.6}, {0: 0.7, 1: 0.7083333, 2: 0.5916667}) is None


def test_twice_the_median_holds_where_all_p_values_are_one_and_the_same():
    u = np.random.default_rng(0).uniform(size=2000)
    for copies in (2, 3, 4, 5):
        assert np.mean([combine_dependent([p] * copies) <= 0.05 for p in u]) <= 0.05
    fisher = np.mean([stats.combine_pvalues([p] * 3).pvalue <= 0.05 for p in u])
    assert fisher > 0.08, "Fisher's method is no alternative here"
    with pytest.raises(ValueError, match="at least one"):
        combine_dependent([])


def test_holm_by_hand_and_with_a_larger_family():
    assert holm([0.04, 0.001, 0.02, 0.9]) == pytest.approx([0.08, 0.004, 0.06, 0.9])
    assert holm([0.02, 0.001], family=6) == pytest.approx([0.1, 0.006])
    assert holm([]) == []
    # 4 * 0.005 = 0.02, 3 * 0.011 = 0.033, 2 * 0.02 = 0.04, 0.03 -> 0.04: all are below 0.05
    assert holm([0.011, 0.02, 0.03, 0.005]) == pytest.approx([0.033, 0.04, 0.04, 0.02])


def test_so_few_pairs_that_nothing_can_be_found():
    eight = PairedTest(p=0.02, least=4 * 0.5**8, trials=5, pairs=8)
    assert least_possible([eight], pairs_of(2)) < ALPHA < least_possible([eight] * 4, pairs_of(5))


def test_equal_rows_are_rarely_told_apart_though_the_best_is_chosen_by_the_data():
    rng = np.random.default_rng(0)
    rows, trials, graphs, everything, tables = 12, 3, 40, 60, 120
    over_pairs = over_rows = 0
    for _ in range(tables):
        own = rng.normal(size=(rows, everything))
        names = {t: rng.choice(everything, graphs, replace=False).tolist() for t in range(trials)}
        made = [{t: np.exp(0.2 * (own[r, names[t]] + rng.normal(size=graphs))) for t in names} for r in range(rows)]
        best = int(np.argmin([np.mean([e.mean() for e in row.values()]) for row in made]))
        p = [compare_pairs(made[best], made[r], names).p for r in range(rows) if r != best]
        over_pairs += min(holm(p, pairs_of(rows))) < ALPHA
        over_rows += min(holm(p)) < ALPHA
    assert over_pairs / tables <= 0.05 + 2 * (0.05 * 0.95 / tables) ** 0.5
    assert over_rows > over_pairs, "the larger family is what keeps the promise"

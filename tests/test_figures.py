"""The figures of the README and the docs are those of the committed records."""

from __future__ import annotations

import pytest

from benchmarks.figures import PAGES, best_others, written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_show_what_the_records_hold(page):
    text = page.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in text for name in PAGES[page])
    assert written(page) == text


MINE = {0: 0.033, 1: 0.050, 2: 0.020}


def test_the_best_other_is_chosen_on_seeds_all_have():
    others = {"PCFI": {0: 0.035, 1: 0.060, 2: 0.040}, "SVD": {0: 0.08, 1: 0.09, 2: 0.07}, "sRMGCNN": {0: 0.039}}
    whole, fewer = best_others(MINE, others)
    assert whole == "PCFI: 0.0450 ± 0.0132 (3 trials)", "0.039 on seed 0 alone is not better than 0.035 there"
    assert fewer == "sRMGCNN: 0.0390, MEGAE 0.0330 (seed 0)"


def test_rows_with_fewer_seeds_are_chosen_by_their_distance_to_mine():
    others = {"easy seed": {2: 0.030, 9: 0.0}, "hard seeds": {0: 0.034, 1: 0.052}, "elsewhere": {7: 0.0}}
    assert best_others(MINE, others) == ("", "hard seeds: 0.0430, MEGAE 0.0415 (seeds 0, 1)")

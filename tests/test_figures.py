"""The figures of the README and the docs are those of the committed records."""

from __future__ import annotations

import pytest

from benchmarks.figures import PAGES, written


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_show_what_the_records_hold(page):
    text = page.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in text for name in PAGES[page])
    assert written(page) == text

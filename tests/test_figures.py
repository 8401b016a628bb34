"""The README's figures are those of the committed records."""

from __future__ import annotations

from benchmarks.figures import README, SECTION, section


def test_readme_shows_what_the_records_hold() -> None:
    found = SECTION.search(README.read_text(encoding="utf-8"))
    assert found is not None
    assert found[0] == f"{found[1]}{section()}\n{found[2]}"

"""The page builder: escaped, well formed, self-contained, written whole."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from megae.io.errors import InputError
from megae.report.html import (
    Markup,
    Page,
    bar,
    card,
    decimals_for,
    escape,
    facts,
    figure,
    generator_of,
    grid,
    join,
    key,
    notice,
    number,
    paragraph,
    percent,
    table,
    tiles,
    versions,
)

EVIL = '<script>alert("x")</script>&\'"'


class Outline(HTMLParser):
    """Tags in order; fails on a tag closed out of turn."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.words.append(data)


def evil_page() -> Page:
    page = Page(EVIL, eyebrow=EVIL, lead=EVIL, generator=EVIL)
    page.add(tiles([(EVIL, EVIL, EVIL)]), notice(EVIL))
    page.section(
        EVIL,
        paragraph(EVIL, css=EVIL),
        table([(EVIL, "text"), ("n", "num")], [[EVIL, bar(0.5)]], caption=EVIL, main=[0]),
        figure(grid([card(EVIL, EVIL, paragraph(EVIL))], width=100), EVIL),
        key([(EVIL, EVIL)]),
        facts([(EVIL, EVIL)]),
        join([EVIL, Markup("<b>bold</b>")]),
        intro=EVIL,
    )
    return page


def test_user_text_never_becomes_markup() -> None:
    outline = Outline(evil_page().render())
    assert not any(tag == "script" for tag, _ in outline.tags)
    assert not any(name.startswith("on") for _, attributes in outline.tags for name in attributes)
    assert sum(EVIL in words for words in outline.words) >= 14
    assert ("b", {}) in outline.tags


def test_page_fetches_nothing() -> None:
    text = evil_page().render()
    outline = Outline(text)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in outline.tags}
    assert "url(" not in text
    assert "@import" not in text
    policies = [a["content"] for t, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies
    assert policies[0].startswith("default-src 'none'")


def test_write_refuses_then_replaces(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    Page("one", generator='a "b"').write(path)
    assert generator_of(path) == 'a "b"'
    with pytest.raises(InputError, match="--force"):
        Page("two").write(path)
    assert "<h1>one</h1>" in path.read_text(encoding="utf-8")
    Page("two").write(path, force=True)
    assert "<h1>two</h1>" in path.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    plain = tmp_path / "plain.txt"
    plain.write_bytes(b"\xff\xfe nothing here")
    assert generator_of(plain) is None


def test_table_checks_its_rows_and_stresses_one() -> None:
    with pytest.raises(ValueError, match="row 1 has 1 cells"):
        table([("a", "text"), ("b", "num")], [["x", "1"], ["y"]])
    text = table([("a", "text")], [["x"], ["y"]], main=[1])
    assert text.index('<tr class="main">') > text.index("x</td>")
    assert "tall" not in text
    assert "tall" in table([("a", "text")], [["x"]] * 41)


def test_numbers_read_well() -> None:
    assert [number(x) for x in (0.0, 1.5, 12345.6, 0.00123, -0.5)] == [
        "0",
        "1.500",
        "12,346",
        "0.001230",
        "−0.5000",
    ]
    assert number(3e-9) == "3.00e-09"
    assert number(None) == number(float("inf")) == "–"
    assert number(12.0, 1) == "12.0"
    assert [decimals_for(x) for x in (1234.0, 12.0, 0.012, 1e-12, 0.0)] == [0, 2, 5, 6, 0]
    assert percent(0.1954) == "19.5 %"
    assert "width:100.00%" in bar(3.0)
    assert "width:0.00%" in bar(float("nan"))


def test_versions_are_those_in_use() -> None:
    import numpy
    import torch

    found = versions()
    assert found["numpy"] == numpy.__version__
    assert found["torch"].split("+")[0] == torch.__version__.split("+")[0]
    assert escape(Markup("<i>")) == "<i>"

"""A tiny page builder: one self-contained HTML file, inline style, no script, nothing fetched.

Text is escaped unless it is :class:`Markup`; the page forbids outside resources by its own content policy.
"""

from __future__ import annotations

import html
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from megae.report.style import CSS

MAX_ROWS_IN_FULL = 40
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


class Markup(str):
    """A piece of finished HTML: every other string is user text and gets escaped.

    Examples
    --------
    >>> escape("a < b"), escape(Markup("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """

    __slots__ = ()


def escape(text: object) -> Markup:
    """Return ``text`` safe to stand in HTML, in an element or a quoted attribute."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(str(text), quote=True))


def join(parts: Sequence[object], separator: str = "") -> Markup:
    """Escape each part and join them."""
    return Markup(separator.join(escape(part) for part in parts))


def paragraph(text: object, *, css: str = "") -> Markup:
    """Return a paragraph, with a class if ``css`` is given."""
    return Markup(f'<p class="{escape(css)}">{escape(text)}</p>' if css else f"<p>{escape(text)}</p>")


def notice(text: object) -> Markup:
    """Return a warning the reader should not miss."""
    return Markup(f'<p class="notice" role="note">{escape(text)}</p>')


def tiles(items: Sequence[tuple[object, object, object]]) -> Markup:
    """Return headline figures as (value, name, note) tiles; the first one is stressed."""
    cells = [
        f'<div class="tile{" main" if i == 0 else ""}"><div class="value">{escape(value)}</div>'
        f'<div class="name">{escape(name)}</div><div class="note">{escape(note)}</div></div>'
        for i, (value, name, note) in enumerate(items)
    ]
    return Markup(f'<div class="tiles">{"".join(cells)}</div>')


def bar(share: float) -> Markup:
    """Return a horizontal bar that fills ``share`` (0 to 1) of its cell."""
    width = 100.0 * min(max(share, 0.0), 1.0) if math.isfinite(share) else 0.0
    return Markup(f'<div class="bar" style="width:{width:.2f}%"></div>')


def table(
    headers: Sequence[tuple[object, str]],
    rows: Sequence[Sequence[object]],
    *,
    caption: object = "",
    main: Sequence[int] = (),
) -> Markup:
    """Return a table.

    Parameters
    ----------
    headers : sequence of (title, kind)
        ``kind`` is ``"text"``, ``"num"`` (right-aligned) or ``"wide"`` (room for bars).
    rows : sequence of sequences, shape (n_rows, n_columns)
        Cells, text or :class:`Markup`.
    caption : text
        Stands under the table, which scrolls in a box of its own where it is long.
    main : sequence of int
        Rows to stress.
    """
    kinds = [kind for _, kind in headers]
    head = "".join(f'<th scope="col" class="{escape(kind)}">{escape(title)}</th>' for title, kind in headers)
    body = []
    for i, row in enumerate(rows):
        if len(row) != len(headers):
            raise ValueError(f"row {i} has {len(row)} cells, the table {len(headers)} columns")
        cells = "".join(f'<td class="{kind}">{escape(cell)}</td>' for kind, cell in zip(kinds, row, strict=True))
        body.append(f'<tr class="main">{cells}</tr>' if i in main else f"<tr>{cells}</tr>")
    box = '<div class="scroll">'
    if len(rows) > MAX_ROWS_IN_FULL:
        box = '<div class="scroll tall" tabindex="0">'
        caption = join([f"{len(rows):,} rows, scroll to see them all. ", caption])
    foot = f'<p class="under">{escape(caption)}</p>' if caption else ""
    body_rows = "".join(body)
    return Markup(f"{box}<table><thead><tr>{head}</tr></thead><tbody>{body_rows}</tbody></table></div>{foot}")


def figure(content: Markup, caption: object = "") -> Markup:
    """Return a figure with its caption."""
    foot = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return Markup(f"<figure>{content}{foot}</figure>")


def card(title: object, note: object, content: Markup) -> Markup:
    """Return one panel of a :func:`grid`."""
    name = f'<span title="{escape(title)}">{escape(title)}</span>'
    head = f'<div class="head">{name}<span>{escape(note)}</span></div>'
    return Markup(f'<div class="card">{head}{content}</div>')


def grid(items: Sequence[Markup], *, width: int) -> Markup:
    """Return panels side by side, each at least ``width`` pixels wide."""
    style = f"grid-template-columns:repeat(auto-fill,minmax(min({width}px,100%),1fr))"
    return Markup(f'<div class="grid" style="{style}">{"".join(items)}</div>')


def key(entries: Sequence[tuple[str, object]]) -> Markup:
    """Return a legend from (CSS colour, meaning) pairs."""
    spans = [f'<span><i style="background:{escape(css)}"></i>{escape(text)}</span>' for css, text in entries]
    return Markup(f'<div class="key">{"".join(spans)}</div>')


def facts(entries: Sequence[tuple[object, object]]) -> Markup:
    """Return name and value pairs as a description list."""
    pairs = [f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in entries]
    return Markup(f"<dl>{''.join(pairs)}</dl>")


def number(value: float | None, decimals: int | None = None) -> str:
    """Format a figure for a table: thousands separated, ``decimals`` fixed or fitted, a dash for no figure.

    Examples
    --------
    >>> number(1234567.8), number(0.12345), number(float("nan")), number(-3.0, decimals=2), number(-1e-9, decimals=2)
    ('1,234,568', '0.1235', '–', '−3.00', '0.00')
    """
    if value is None or not math.isfinite(value):
        return "–"
    places = decimals_for(abs(value)) if decimals is None else decimals
    text = f"{value:,.{places}f}"
    if value != 0.0 and places >= 6 and float(text.replace(",", "")) == 0.0:
        text = f"{value:.2e}"
    elif float(text.replace(",", "")) == 0.0:
        return text.removeprefix("-")
    return text.replace("-", "−", 1) if value < 0 else text


def decimals_for(scale: float) -> int:
    """Return how many decimals show four digits of a figure of size ``scale``, at most 6."""
    if not math.isfinite(scale) or scale <= 0.0:
        return 0
    return int(min(max(3 - math.floor(math.log10(scale)), 0), 6))


def percent(share: float, decimals: int = 1) -> str:
    """Format a share as a percentage."""
    return f"{100.0 * share:.{decimals}f} %" if math.isfinite(share) else "–"


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries a figure depends on."""
    import platform
    from importlib import metadata

    import megae

    found = {"Python": platform.python_version(), "megae": getattr(megae, "__version__", "0+unknown")}
    for package in ("torch", "torch-geometric", "numpy", "scipy", "scikit-learn"):
        found[package] = metadata.version(package)
    return found


@dataclass
class Page:
    """One HTML page, built section by section.

    Parameters
    ----------
    title, eyebrow, lead : text
        Heading, the small line above it and the paragraph below it.
    generator : str
        Which command made the page; readable again with :func:`generator_of`.

    Examples
    --------
    >>> page = Page("Income & holes", generator="megae doc")
    >>> page.section("One", paragraph("a < b"))
    >>> "<h1>Income &amp; holes</h1>" in page.render() and "a &lt; b" in page.render()
    True
    """

    title: str
    eyebrow: object = ""
    lead: object = ""
    generator: str = "megae"
    blocks: list[Markup] = field(default_factory=list)

    def add(self, *blocks: Markup) -> None:
        """Append blocks as they are."""
        self.blocks.extend(blocks)

    def section(self, heading: str, *blocks: Markup, intro: object = "") -> None:
        """Append a section with its heading and an optional introduction."""
        opening = paragraph(intro, css="intro") if intro else ""
        self.blocks.append(Markup(f"<section><h2>{escape(heading)}</h2>{opening}{''.join(blocks)}</section>"))

    def render(self) -> str:
        """Return the whole page as text."""
        eyebrow = f'<p class="eyebrow">{escape(self.eyebrow)}</p>' if self.eyebrow else ""
        lead = f'<p class="lead">{escape(self.lead)}</p>' if self.lead else ""
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="generator" content="{escape(self.generator)}">\n'
            f"<title>{escape(self.title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
            f"<header>{eyebrow}<h1>{escape(self.title)}</h1>{lead}</header>\n"
            + "\n".join(self.blocks)
            + "\n</main>\n</body>\n</html>\n"
        )

    def write(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write the page, whole or not at all; an existing file is refused unless ``force``."""
        from megae.io.atomic import atomic_path
        from megae.io.errors import InputError

        target = Path(path)
        if target.exists() and not force:
            raise InputError(f"{target} exists already; choose another name or pass --force to replace it")
        with atomic_path(target) as temporary:
            Path(temporary).write_text(self.render(), encoding="utf-8")
        return target


def generator_of(path: str | os.PathLike[str]) -> str | None:
    """Return the generator a page names in its head, or None where there is none."""
    with open(path, encoding="utf-8", errors="replace") as file:
        head = file.read(2048)
    _, found, rest = head.partition('<meta name="generator" content="')
    return html.unescape(rest.partition('"')[0]) if found else None

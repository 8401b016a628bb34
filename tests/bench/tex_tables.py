"""Tables out of LaTeX source: cells as text, spans repeated, by matching braces and environments."""

from __future__ import annotations

import re
from dataclasses import dataclass

SPACING = {
    "toprule": "", "midrule": "", "bottomrule": "", "hline": "", "centering": "", "small": "", "normalsize": "",
    "%": "%", "_": "_", "&": "&", "#": "#", " ": " ", "\\": " ", "Delta": "Delta", "gamma": "gamma",
}  # fmt: skip
"""Commands without arguments, and what they print."""

ARGUMENTS = {
    "textbf": 1, "textit": 1, "underline": 1, "emph": 1, "mathcal": 1, "label": 1, "caption": 1, "eat": 1,
    "multicolumn": 3, "multirow": 3, "cmidrule": 1, "renewcommand": 2, "setlength": 2, "ref": 1, "begin": 1, "end": 1,
}  # fmt: skip
"""Commands with arguments; they print the last one, but for those in SILENT."""
SILENT = {"label", "caption", "eat", "cmidrule", "renewcommand", "setlength", "begin", "end"}


@dataclass(frozen=True)
class Cell:
    """What a cell prints, and whether it is set in bold or underlined."""

    text: str
    bold: bool = False
    underlined: bool = False


def without_comments(source: str) -> str:
    """The source up to each unescaped percent sign."""
    return re.sub(r"(?<!\\)((?:\\\\)*)%.*", r"\1", source)


def environment(source: str, label: str) -> str:
    """The innermost ``table``, ``table*``, ``figure`` or ``figure*`` that holds the label."""
    at = [m.start() for m in re.finditer(re.escape(f"\\label{{{label}}}"), source)]
    if len(at) != 1:
        raise ValueError(f"label {label!r} stands {len(at)} times in the source")
    begins = [m for m in re.finditer(r"\\begin\{((?:table|figure)\*?)\}", source) if m.end() <= at[0]]
    if not begins:
        raise ValueError(f"label {label!r} stands in no table or figure")
    start = begins[-1]
    stop = source.find(f"\\end{{{start[1]}}}", start.end())
    if stop < at[0]:
        raise ValueError(f"label {label!r} stands behind its environment, not in it")
    return source[start.start() : stop]


def tabular(text: str) -> str:
    """The body of the outermost ``tabular``, without its column specification."""
    tag = re.compile(r"\\(begin|end)\{tabular\}")
    opened = tag.search(text)
    if opened is None:
        raise ValueError("there is no tabular")
    depth = 0
    for found in tag.finditer(text, opened.start()):
        depth += 1 if found[1] == "begin" else -1
        if depth == 0:
            _, start = argument(text, optional(text, opened.end()))
            return text[start : found.start()]
    raise ValueError("a tabular has no end")


def optional(text: str, at: int) -> int:
    """Behind an optional argument ``[...]`` or ``(...)``, if there is one."""
    found = re.compile(r"\s*(?:\[[^\]]*\]|\([^)]*\))").match(text, at)
    return found.end() if found else at


def argument(text: str, at: int) -> tuple[str, int]:
    """The ``{...}`` that comes next, braces matched, and the place behind it; else the next character."""
    while text[at].isspace():
        at += 1
    if text[at] != "{":
        return text[at], at + 1
    depth, i = 0, at
    while i < len(text):
        if text[i] == "\\":
            i += 1
        elif text[i] in "{}":
            depth += 1 if text[i] == "{" else -1
            if depth == 0:
                return text[at + 1 : i], i + 1
        i += 1
    raise ValueError(f"no closing brace for {text[at : at + 30]!r}")


def split_at_top(text: str, mark: str) -> list[str]:
    """Split at a mark that stands in no braces and in no environment."""
    parts, start, depth, i = [], 0, 0, 0
    while i < len(text):
        if depth == 0 and text.startswith(mark, i):
            parts.append(text[start:i])
            i = start = i + len(mark)
        elif found := re.compile(r"\\(begin|end)\b").match(text, i):
            depth += 1 if found[1] == "begin" else -1
            i = found.end()
        elif text[i] == "\\":
            i += 2
        else:
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            i += 1
    if depth:
        raise ValueError(f"braces do not match in {text[:60]!r}")
    return [*parts, text[start:]]


def printed(text: str) -> str:
    """What a piece of LaTeX prints, as plain text."""
    out, i = [], 0
    while i < len(text):
        command = re.compile(r"\\([A-Za-z]+\*?|.)", re.DOTALL).match(text, i)
        if command is None:
            out.append({"{": "", "}": "", "$": "", "~": " "}.get(text[i], text[i]))
            i += 1
            continue
        name, i = command[1], command.end()
        if name in ARGUMENTS:
            contents = []
            for _ in range(ARGUMENTS[name]):
                content, i = argument(text, optional(text, i))
                contents.append(content)
            if name == "begin" and contents == ["tabular"]:
                _, i = argument(text, optional(text, i))
            out.append("" if name in SILENT else printed(contents[-1]))
        elif name in SPACING:
            out.append(SPACING[name])
        else:
            raise ValueError(f"the LaTeX command \\{name} is not known here")
    return " ".join("".join(out).split())


def cells(row: str) -> list[Cell]:
    """The cells of a row; one that spans n columns stands there n times."""
    out: list[Cell] = []
    for piece in split_at_top(row, "&"):
        stripped = re.sub(r"\\(?:top|mid|bottom)rule|\\cmidrule\s*(?:\([^)]*\))?\{[^}]*\}", "", piece).strip()
        span, content = 1, stripped
        if stripped.startswith("\\multicolumn"):
            number, behind = argument(stripped, len("\\multicolumn"))
            _, behind = argument(stripped, behind)
            content, behind = argument(stripped, behind)
            if stripped[behind:].strip():
                raise ValueError(f"{stripped[behind:]!r} stands behind a \\multicolumn")
            span = int(number)
        out += [Cell(printed(content), "\\textbf" in content, "\\underline" in content)] * span
    return out


def read_table(source: str, label: str) -> list[list[Cell]]:
    """All rows of the table of that label, header included, rows without any text left out."""
    body = tabular(environment(without_comments(source), label))
    rows = [cells(row) for row in split_at_top(body, "\\\\")]
    return [row for row in rows if any(cell.text for cell in row)]

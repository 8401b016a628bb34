"""``megae data``: the datasets of the paper, where they are and whether they are what they should be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from megae.commands.common import JsonOption, QuietOption, print_json, warn, working

if TYPE_CHECKING:
    from megae.datasets import Entry, Finding

__all__ = ["data"]

data = typer.Typer(
    help="List, fetch, check and describe the datasets.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RootOption = Annotated[
    Path | None,
    typer.Option(
        show_default=False,
        help="Folder that holds the datasets, one folder each. Without it: MEGAE_DATA, then the user cache.",
    ),
]
NameArgument = Annotated[str, typer.Argument(show_default=False, metavar="NAME", help="Name of a dataset.")]


@data.command("list")
def list_sets(root: RootOption = None, json_output: JsonOption = False) -> None:
    """Name the datasets and say which are here."""
    from megae.datasets import CATALOGUE

    rows = [{"name": e.name, "about": e.about, **_place(e, root)} for e in CATALOGUE.values()]
    if json_output:
        print_json({"command": "data list", "sets": rows})
        return
    for row in rows:
        print(f"{row['name']:<14} {row['state']:<9} {row['about']}")
    if any(row["state"] == "absent" for row in rows):
        print("absent: megae data get NAME downloads it; megae data check NAME says where to put files of your own")


@data.command()
def get(
    name: NameArgument, root: RootOption = None, json_output: JsonOption = False, quiet: QuietOption = False
) -> None:
    """Download the official files of a dataset that are not here yet.

    They go into the user cache, or into --root, which is made where it is not there. What breaks off is resumed by the
    next call.
    """
    from megae.datasets import entry, fetch, locate

    known = entry(name)
    new = root is not None and not root.exists()
    found = None if known.layout == "embedded" or new else locate(known, root)
    here = known.layout == "embedded" or found is not None
    folder = None if found is None else found[0]
    with working(quiet=quiet, as_json=json_output) as messages:
        if not here:
            folder = fetch(known, root)
    warn(messages)
    if json_output:
        print_json({"command": "data get", "name": name, "folder": folder, "downloaded": not here})
    elif not quiet:
        if folder is None:
            print(f"{name} is embedded: it needs no files")
        elif here:
            print(f"{name} is already in {folder} (megae data check {name} examines it)")
        else:
            print(f"{name} is now in {folder}")


@data.command()
def info(name: NameArgument, root: RootOption = None, json_output: JsonOption = False) -> None:
    """Say what is known of a dataset: files, counts, the paper's row, traps."""
    from dataclasses import asdict

    from megae.datasets import entry

    known = entry(name)
    place = _place(known, root)
    if json_output:
        print_json({"command": "data info", **asdict(known), **place})
        return
    print(f"{known.name}: {known.about}")
    print(f"  {place['state']}{'' if place['folder'] is None else ' in ' + str(place['folder'])}")
    for variant in known.variants:
        for file in variant.files:
            print(f"  file {file.name}{'' if file.url is None else ' from ' + file.url}")
            for sha256, what in file.sha256:
                print(f"    sha256 {sha256} {what}")
    print(f"  as read: {_counts_text(asdict(known.variants[0].counts))}")
    if known.paper is not None:
        row = asdict(known.paper)
        kinds = ("nodes", "edges", "features", "classes")
        words = [f"{row[k]:,} {k}" for k in (kinds if known.single else ("graphs", *kinds)) if row[k] is not None]
        print(f"  {row['table']}{'' if known.single else ' (means per graph)'}: {', '.join(words)}")
    for text in (*known.notes, *known.differences):
        print(f"  - {text}")


@data.command()
def check(
    names: Annotated[
        list[str] | None, typer.Argument(show_default=False, metavar="[NAME]...", help="Datasets; all without.")
    ] = None,
    root: RootOption = None,
    json_output: JsonOption = False,
) -> None:
    """Compare datasets with what is known of them and with the paper's Tables 6 and 7.

    Exit code 2 if a dataset is wrong, or if one was named that is not here.
    """
    from megae.datasets import CATALOGUE
    from megae.datasets import check as check_set
    from megae.datasets import entry as known

    entries = [known(name) for name in names] if names else [e for e in CATALOGUE.values() if e.paper is not None]
    findings = []
    with working(quiet=False, as_json=json_output) as messages:
        for item in entries:
            finding = check_set(item, root)
            findings.append(finding)
            if not json_output:
                _print_finding(finding)
    warn(messages)
    bad = [f.name for f in findings if f.status == "wrong" or (names and f.status == "absent")]
    tally = {state: sum(f.status == state for f in findings) for state in ("ok", "absent", "wrong")}
    error = f"not as expected: {', '.join(bad)}" if bad else None
    if json_output:
        result: dict[str, Any] = {"command": "data check", **tally, "sets": [f.to_dict() for f in findings]}
        print_json(result if error is None else {**result, "error": error})
    else:
        print(f"{tally['ok']} as expected, {tally['absent']} not here, {tally['wrong']} wrong")
    if error is not None:
        print(f"megae: error: {error}", file=sys.stderr)
        raise typer.Exit(2)


def _place(known: Entry, root: Path | None) -> dict[str, Any]:
    from megae.datasets import locate

    if known.layout == "embedded":
        return {"state": "embedded", "folder": None}
    found = locate(known, root)
    return {"state": "absent" if found is None else "here", "folder": None if found is None else str(found[0])}


def _print_finding(finding: Finding) -> None:
    row = finding.to_dict()
    if row["counts"] is None:
        print(f"{finding.name:<14} {finding.status}")
    else:
        verdict = "" if finding.agrees is None else f"; {finding.table} {'agrees' if finding.agrees else 'differs'}"
        print(
            f"{finding.name:<14} {finding.status:<7} {_counts_text(row['counts'])}{verdict} ({finding.seconds:.1f} s)"
        )
    for what in dict.fromkeys(finding.files.values()):
        files = [name for name, copy in finding.files.items() if copy == what]
        print(f"    {files[0] if len(files) == 1 else f'{len(files)} files'}: {what}")
    for text in finding.problems:
        print(f"    wrong: {text}")
    if finding.problems and row["folder"] is not None:
        print(f"    to do: remove the files in {row['folder']}, then: megae data get {finding.name}")
    for text in finding.differences:
        print(f"    note: {text}")


def _counts_text(counts: dict[str, Any]) -> str:
    graphs, text = counts["graphs"], []
    if graphs != 1:
        text.append(f"{graphs:,} graphs")
    for what in ("nodes", "edges"):
        if counts[what] is not None:
            text.append(f"{counts[what]:,} {what}" + (f" ({counts[what] / graphs:.2f} each)" if graphs != 1 else ""))
    text.append(f"{counts['features']:,} attribute{'' if counts['features'] == 1 else 's'}")
    text.append("no classes" if counts["classes"] is None else f"{counts['classes']} classes")
    return ", ".join(text)

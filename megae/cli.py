"""The command ``megae``: a thin shell over the library.

Exit codes: 0 success, 2 bad input (one line on stderr says what to do; with ``--json`` stdout holds it
too), 1 a fault of megae itself (with its traceback), 130 interrupted. A ValueError is bad input if megae
raised it itself, in words of its own; what comes from numpy, pandas and the like is a fault.
"""

from __future__ import annotations

import dis
import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from megae.commands.bench import bench
from megae.commands.compare import compare
from megae.commands.data import data
from megae.commands.demo import demo
from megae.commands.impute import impute
from megae.commands.launch import launched, run_among_others
from megae.commands.spectrum import spectrum
from megae.io.errors import InputError

__all__ = ["app", "main"]

app = typer.Typer(
    name="megae",
    help="Fill missing node attributes on graphs.\n\n"
    "A table with holes and the edges between its rows go in, the table without holes comes out.\n\n"
    "Try first:  megae demo",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(impute)
app.command()(compare)
app.command()(spectrum)
app.add_typer(data, name="data")
app.add_typer(bench, name="bench")

_PACKAGE = Path(__file__).resolve().parent
_USAGE_ERROR = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def version_text() -> str:
    """The version of the installed package, or of the source tree it runs from."""
    from importlib import metadata

    try:
        return metadata.version("megae")
    except metadata.PackageNotFoundError:
        import megae

        return getattr(megae, "__version__", "unknown (not installed)")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"megae {version_text()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; under torchrun, as one of its processes.

    Parameters
    ----------
    args : sequence of str or None
        Arguments without the program's name; None takes those of the process.

    Returns
    -------
    int
        The exit code.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait should not hold up a busy machine
    given = list(sys.argv[1:] if args is None else args)
    return run_among_others(_run, given) if launched() else _run(given)


def _run(given: list[str]) -> int:
    as_json = "--json" in given
    try:
        code = typer.main.get_command(app)(
            args=given or ["--help"], prog_name="megae", standalone_mode=False, windows_expand_args=False
        )
        sys.stdout.flush()
        if code == 130:  # what typer makes of an interrupt
            raise KeyboardInterrupt
        if not given:
            return 2
        return code if isinstance(code, int) else 0
    except (KeyboardInterrupt, typer.Abort):
        print("megae: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if isinstance(error, _USAGE_ERROR):
            return _refuse(_usage(error), as_json)
        if isinstance(error, OSError) or is_refusal(error):
            return _refuse(_sentence(error), as_json)
        traceback.print_exc()
        print(
            "megae: internal error; nothing was written. Please report it with the lines above.",
            file=sys.stderr,
        )
        if as_json:
            print(json.dumps({"error": f"internal error: {type(error).__name__}: {error}"}))
        return 1


def is_refusal(error: BaseException) -> bool:
    """Whether an exception is megae's own word on the input, rather than a fault of megae.

    An `InputError` is. So is a plain ValueError if a ``raise`` statement of this package raised it: library and command
    line share their checks. A LinAlgError, a UnicodeDecodeError or what ``float("urban")`` raises is none.
    """
    if isinstance(error, InputError):
        return True
    place = error.__traceback__
    if type(error) is not ValueError or place is None:
        return False
    while place.tb_next is not None:
        place = place.tb_next
    code = place.tb_frame.f_code
    raised = dis.opname[code.co_code[place.tb_lasti]] == "RAISE_VARARGS"
    return raised and _PACKAGE in Path(code.co_filename).resolve().parents


def _usage(error: Any) -> str:
    """What is wrong with the call, and where help is."""
    context = getattr(error, "ctx", None)
    message = error.format_message()
    extra = re.fullmatch(r"Got unexpected extra argument(?:\(s\))? \((.+)\)", message)
    if extra and context is not None and context.params.get("edges", "") is None:
        message += f"; for a file of edges write --edges {extra[1]}"
    return f"{message} ({'megae' if context is None else context.command_path} --help lists what there is)"


def _refuse(message: str, as_json: bool) -> int:
    if os.environ.get("MEGAE_DEBUG"):
        traceback.print_exc()
    line = " ".join(message.split())
    print(f"megae: error: {line}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": line}, ensure_ascii=False))
    return 2


def _sentence(error: BaseException) -> str:
    """An exception as one sentence; system errors say which file."""
    if isinstance(error, OSError) and error.strerror:
        import errno

        name = f"{error.filename}: " if error.filename else ""
        advice = {
            errno.ENOSPC: "; free some space or write elsewhere. Nothing was written",
            errno.EDQUOT: "; free some space or write elsewhere. Nothing was written",
            errno.EACCES: "; choose a place you may read and write",
            errno.EROFS: "; choose a place you may write to",
        }.get(error.errno or 0, "")
        return f"{name}{error.strerror}{advice}"
    return str(error) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())

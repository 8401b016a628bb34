"""``megae demo``: see it work, on data that comes with scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from megae.commands.common import (
    Device,
    DeviceOption,
    JsonOption,
    QuietOption,
    SeedOption,
    check_device,
    print_json,
    warn,
    working,
)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("megae-demo"),
    seed: SeedOption = 0,
    device: DeviceOption = Device.auto,
    json_output: JsonOption = False,
    quiet: QuietOption = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a report.html that is not from a demo.")] = False,
) -> None:
    """See it work: fill missing pixels of handwritten digits and compare with other methods.

    Nothing is downloaded. Takes up to three minutes, prints a table and writes a page with pictures.
    """
    from megae.demo import print_table, run_demo

    check_device(device)
    with working(quiet=quiet, as_json=json_output) as messages:
        result = run_demo(out, seed=seed, device=device.value, verbose=0 if quiet or json_output else 1, force=force)
    warn(messages)
    if json_output:
        print_json({"command": "demo", **result, "warnings": messages})
    elif not quiet:
        print_table(result)

"""`kernelwright data fingerprints`: what tasks compute, for programs that must be none of them."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.console import err, out, print_json, progress
from kernelwright.cli.options import JsonOption
from kernelwright.core.record import Record

PathsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Files or folders of tasks: with Model and get_inputs, with fused_operator, or with a"
        " function and calls of it below a line of #s. Their code is run, in child processes.",
    ),
]
OutOption = Annotated[
    Path, typer.Option("--out", help="JSON file, for `avoid` under [quality] in recipes.")
]
TimeoutOption = Annotated[float, typer.Option(min=1.0, metavar="SECONDS", help="For one file.")]


def command(
    paths: PathsArgument, file: OutOption, timeout: TimeoutOption = 120.0, json: JsonOption = False
) -> None:
    """Write fingerprints of tasks, without their names, sizes and text."""
    from kernelwright.data.fingerprints import fingerprints

    with progress("fingerprints") as say:
        found = fingerprints(paths, timeout_s=timeout, say=say)
    file.write_text(json_format.dumps(found, indent=1) + "\n")
    if json:
        print_json(found)
    else:
        out.print(_table(found))
        err.print(f"fingerprints  {file}", markup=False, soft_wrap=True)


def _table(found: Record) -> Table:
    table = Table("", "files", "read", "different", "refused", box=None, pad_edge=False)
    for source in found["sources"]:
        refused = ", ".join(f"{count} {why}" for why, count in source["refused"].items())
        numbers = (str(source[key]) for key in ("files", "read", "fingerprints"))
        table.add_row(source["name"], *numbers, refused)
    return table

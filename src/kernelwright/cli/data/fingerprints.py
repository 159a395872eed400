"""`kernelwright data fingerprints`: fingerprints of tasks that programs must avoid."""

import json as json_format
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.checks import check_output_file
from kernelwright.cli.console import progress, show
from kernelwright.cli.options import JsonOption, out_option
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

PathsArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Files or folders of tasks: with Model and get_inputs, with fused_operator, or with a"
        " function and calls of it below a line of #s. Their code is run, in child processes.",
    ),
]
OutOption = Annotated[Path, out_option("The JSON file, for `avoid` under \\[quality] in recipes.")]
TimeoutOption = Annotated[
    float, typer.Option(min=1, metavar="SECONDS", help="The seconds that one file may take.")
]


def command(
    paths: PathsArgument, file: OutOption, timeout: TimeoutOption = 120, json: JsonOption = False
) -> None:
    """Write fingerprints of tasks, without their names, sizes and text."""
    with progress("data fingerprints") as say:
        for path in paths:
            if not path.exists():
                remedy = "give Python files or folders of tasks"
                raise UsageError("there is no such file or folder", file=str(path), remedy=remedy)
        check_output_file(file)
        from kernelwright.data.fingerprints import fingerprints

        listed = fingerprints(paths, timeout_s=timeout, say=say)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json_format.dumps(listed, indent=1) + "\n")
    show(listed, _table(listed), f"fingerprints  {file}", json=json)


def _table(summary: Record) -> Table:
    table = Table("", "files", "read", "different", "refused", box=None, pad_edge=False)
    for source in summary["sources"]:
        refused = ", ".join(f"{count} {why}" for why, count in source["refused"].items())
        numbers = (str(source[key]) for key in ("files", "read", "fingerprints"))
        table.add_row(source["name"], *numbers, refused)
    return table

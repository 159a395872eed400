"""`kernelwright data collect`: the programs inside other people's modules."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.console import err, out, print_json, progress
from kernelwright.cli.options import JsonOption
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A Python file, a folder of them, an installed package or module (torch.nn.modules),"
        " or package.module:factory. Its code is imported and run, in child processes.",
    ),
]
OutOption = Annotated[
    Path, typer.Option("--out", help="JSONL file of programs; the same command resumes it.")
]
MaxCallsOption = Annotated[int, typer.Option(min=1, max=20, help="Calls of the largest program.")]
LevelsOption = Annotated[
    str, typer.Option(help="Numbers of calls to keep, e.g. 1,2,5.", show_default="all")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Modules at once.", show_default="one a core")
]
LimitOption = Annotated[int | None, typer.Option(min=1, help="Programs after which to stop.")]
TimeoutOption = Annotated[
    float,
    typer.Option(
        min=1.0, metavar="SECONDS", help="Of processor time, for a file's import and for a module."
    ),
]
SummaryOption = Annotated[
    Path | None, typer.Option(help="JSONL file that the run's summary is added to.")
]


def command(
    target: TargetArgument,
    file: OutOption,
    max_calls: MaxCallsOption = 5,
    levels: LevelsOption = "",
    workers: WorkersOption = None,
    limit: LimitOption = None,
    timeout: TimeoutOption = 60.0,
    summary: SummaryOption = None,
    json: JsonOption = False,
) -> None:
    """Find modules, lower them, and write down the programs inside, each once."""
    from kernelwright.data.collect.run import Options, collect

    options = Options(
        max_calls=max_calls, levels=parse_levels(levels, max_calls), timeout_s=timeout
    )
    num_workers = workers or len(os.sched_getaffinity(0))
    with progress("collect") as say:
        found = collect(target, file, options, num_workers=num_workers, limit=limit, say=say)
    if summary is not None:
        record.append(summary, [{"record": "collect", **found}])
    if json:
        print_json(found)
    else:
        out.print(summary_table(found))
        err.print(f"programs  {file}", markup=False, soft_wrap=True)


def parse_levels(text: str, max_calls: int) -> tuple[int, ...]:
    """Numbers from "1,2,5".

    Raises:
        UsageError: it is not a list of numbers from 1 to `max_calls`.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() and 1 <= int(part) <= max_calls for part in parts):
        raise UsageError(
            f"--levels {text!r} is not a list of numbers from 1 to {max_calls}",
            remedy="write e.g. --levels 1,2,5, or raise --max-calls",
        )
    return tuple(sorted({int(part) for part in parts}))


def summary_table(found: Record) -> Table:
    """Modules by how they ended, then what came of those that were lowered."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    table.add_row(str(found["found"]), f"modules in {found['files']} files")
    table.add_row(str(found["lowered"]), "lowered")
    for reason, count in found["refused"].items():
        table.add_row(str(count), reason, style="dim")
    parts = found["parts"]
    table.add_row(str(parts.get("parts", 0)), "parts looked at")
    for reason, count in parts.items():
        if reason != "parts":
            table.add_row(str(count), PARTS[reason], style="dim")
    table.add_row(str(found["programs"]), "programs, each once")
    for level, count in found["by_level"].items():
        table.add_row(str(count), f"of {level} calls", style="dim")
    return table


PARTS = {
    "cut": "calls with more parts than are looked at",
    "extern": "with an extern call",
    "level": "with another number of calls",
    "random": "with a random call",
    "repeated": "repeated within a module",
    "views": "of views alone",
}
"""Why parts are no programs of their own."""

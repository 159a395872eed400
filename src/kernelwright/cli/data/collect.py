"""`kernelwright data collect`: the programs inside other people's modules."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.checks import check_output_file
from kernelwright.cli.console import progress, show
from kernelwright.cli.options import JsonOption, WorkersOption, cores, number_option, out_option
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
    Path, out_option("The JSONL file of programs. The same command resumes the run.")
]
MaxCallsOption = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=20, help="The number of calls of the largest program."),
]
LevelsOption = Annotated[
    str,
    typer.Option(
        "--levels",
        metavar="LEVELS",
        help="The numbers of calls of programs to keep, as 1,2,5.",
        show_default="all",
    ),
]
LimitOption = Annotated[
    int | None, number_option("The number of programs after which to stop.", default="no limit")
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        min=1,
        metavar="SECONDS",
        help="The seconds of processor time for importing a file, and for a module.",
    ),
]
SummaryOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A JSONL file that the run's summary is added to."),
]


def command(
    target: TargetArgument,
    file: OutOption,
    max_calls: MaxCallsOption = 5,
    levels: LevelsOption = "",
    workers: WorkersOption = None,
    limit: LimitOption = None,
    timeout: TimeoutOption = 60,
    summary: SummaryOption = None,
    json: JsonOption = False,
) -> None:
    """Find modules, lower them, and write down the programs inside, each once."""
    if (target.endswith(".py") or os.sep in target) and not Path(target).exists():
        remedy = "give a Python file, a folder, a package or package.module:factory"
        raise UsageError("there is no such file or folder", file=target, remedy=remedy)
    check_output_file(file)
    check_output_file(summary)
    from kernelwright.data.collect.run import CollectOptions, collect

    options = CollectOptions(
        max_calls=max_calls, levels=parse_levels(levels, max_calls), timeout_s=timeout
    )
    with progress("data collect") as say:
        summary_line = collect(
            target, file, options, num_workers=cores(workers), limit=limit, say=say
        )
    if summary is not None:
        record.append(summary, [{"record": "collect", **summary_line}])
    show(summary_line, summary_table(summary_line), f"programs  {file}", json=json)


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


def summary_table(summary: Record) -> Table:
    """Numbers of modules by outcome, then numbers of programs from lowered modules."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    table.add_row(str(summary["found"]), f"modules in {summary['files']} files")
    table.add_row(str(summary["lowered"]), "lowered")
    for reason, count in summary["refused"].items():
        table.add_row(str(count), reason, style="dim")
    parts = summary["parts"]
    table.add_row(str(parts.get("parts", 0)), "parts looked at")
    for reason, count in parts.items():
        if reason != "parts":
            table.add_row(str(count), PARTS[reason], style="dim")
    table.add_row(str(summary["programs"]), "programs, each once")
    for level, count in summary["by_level"].items():
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
"""Reasons why parts are not programs."""

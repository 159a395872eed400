"""`kernelwright lint`: judge tasks, not candidates."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.cli.checks import check_output_file, check_source
from kernelwright.cli.console import out, print_json, progress
from kernelwright.cli.options import (
    Device,
    DeviceOption,
    JsonOption,
    cores,
    number_option,
    out_option,
)
from kernelwright.core.record import Record

SpecsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Files with Model or fused_operator, folders of them, or package.module:factory.",
    ),
]
OutOption = Annotated[
    Path | None, out_option("The JSONL file for records. Tasks in it are not judged again.")
]
BudgetOption = Annotated[
    float,
    typer.Option(
        "--budget",
        min=0.1,
        metavar="SECONDS",
        help="The seconds that the checks of one task may take.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(min=1, metavar="SECONDS", help="The seconds after which a task is given up."),
]
WorkersOption = Annotated[
    int | None,
    number_option("The number of tasks that are judged at once.", default="one a core, at most 8"),
]


def command(
    specs: SpecsArgument,
    device: DeviceOption = Device.AUTO,
    records: OutOption = None,
    budget: BudgetOption = 10,
    timeout: TimeoutOption = 120,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Find faults of tasks.

    The exit code is 0 for clean tasks, 1 for findings, 2 for a task that cannot be used and 3 for
    a failure of ours.
    """
    with progress("lint") as say:
        for spec in specs:
            if not Path(spec).is_dir():
                check_source(spec)
        check_output_file(records)
        from kernelwright.verify.linting.files import expand, lint_files

        lines = lint_files(
            expand(specs),
            device=device.value,
            budget_s=budget,
            timeout_s=timeout,
            num_workers=workers or min(8, cores(None)),
            out=records,
            say=say,
        )
    if json:
        print_json(lines)
    else:
        for line in lines:
            _print(line)
    raise typer.Exit(exit_code(lines))


NOT_LINTED = {
    "usage": "cannot be used",
    "infra": "our side failed",
    "crash": "its process died",
    "memory": "needs too much memory",
}
"""The kinds of errors in words."""


def exit_code(lines: list[Record]) -> int:
    """The worst of all tasks."""
    kinds = {line["kind"] for line in lines if line["record"] == "lint_error"}
    if "infra" in kinds:
        return 3
    return 2 if kinds else int(any(line["findings"] for line in lines))


def _print(line: Record) -> None:
    """A task, then a line for each finding with what to do about it."""
    name = Text(line["task"], style="bold")
    if line["record"] == "lint_error":
        kind = NOT_LINTED.get(line["kind"], line["kind"])
        out.print(name + Text(f"  {kind}: {line['message']}", style="red"), soft_wrap=True)
        if remedy := line.get("remedy"):
            out.print(Text(f"  remedy      {remedy}", style="dim"), soft_wrap=True)
        return
    facts = ["clean"] * (not line["findings"]) + ["scaled down"] * line["scaled"]
    out.print(name + Text(f"  {', '.join(facts)}"), soft_wrap=True)
    for finding in line["findings"]:
        style = "yellow" if finding["severity"] == "weak" else "red"
        text = Text(f"  {finding['severity']:<10} ", style=style)
        out.print(text + Text(f"{finding['id']}: {finding['message']}"), soft_wrap=True)
    for remedy in dict.fromkeys(finding["remedy"] for finding in line["findings"]):
        out.print(Text(f"  remedy      {remedy}", style="dim"), soft_wrap=True)
    for reason in line["not_checked"]:
        out.print(Text(f"  not checked {reason}", style="dim"), soft_wrap=True)

"""`kernelwright lint`: judge tasks, not candidates."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from kernelwright.cli.console import errors_as_json, out, print_json, progress
from kernelwright.cli.options import Device, JsonOption
from kernelwright.core.record import Record

SpecsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Files with Model or fused_operator, folders of them, or package.module:factory.",
    ),
]
DeviceOption = Annotated[
    Device, typer.Option(help="auto: the GPU where there is one; on a CPU tasks are scaled down.")
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="JSONL file for records; tasks it has are not looked at again."),
]
BudgetOption = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="For the checks of one task.")
]
TimeoutOption = Annotated[
    float, typer.Option(min=1.0, metavar="SECONDS", help="After which a task is given up.")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Tasks at once.", show_default="one a core, at most 8")
]


def command(
    specs: SpecsArgument,
    device: DeviceOption = Device.AUTO,
    records: OutOption = None,
    budget: BudgetOption = 10.0,
    timeout: TimeoutOption = 120.0,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Say what is wrong with tasks: exit code 0 clean, 1 findings, 2 a task cannot be used, 3 our
    own failure."""
    from kernelwright.verify.lint_files import expand, lint_files

    with errors_as_json(json), progress("lint") as say:
        lines = lint_files(
            expand(specs),
            device=device.value,
            budget_s=budget,
            timeout_s=timeout,
            num_workers=workers or min(8, len(os.sched_getaffinity(0))),
            out=records,
            say=say,
        )
    if json:
        print_json(lines)
    else:
        for line in lines:
            _print(line)
    raise typer.Exit(exit_code(lines))


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
        out.print(name + Text(f"  {line['kind']}: {line['message']}", style="red"), soft_wrap=True)
        return
    facts = ["clean"] * (not line["findings"]) + ["scaled down"] * line["scaled"]
    out.print(name + Text(f"  {', '.join(facts)}"), soft_wrap=True)
    for each in line["findings"]:
        style = "yellow" if each["severity"] == "weak" else "red"
        text = Text(f"  {each['severity']:<10} ", style=style)
        out.print(text + Text(f"{each['id']}: {each['message']}"), soft_wrap=True)
    for remedy in dict.fromkeys(each["remedy"] for each in line["findings"]):
        out.print(Text(f"  remedy      {remedy}", style="dim"), soft_wrap=True)
    for reason in line["not_checked"]:
        out.print(Text(f"  not checked {reason}", style="dim"), soft_wrap=True)

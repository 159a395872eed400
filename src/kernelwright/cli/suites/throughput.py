"""`kernelwright eval throughput`: the speed of the judge."""

from pathlib import Path
from typing import Annotated

from rich.table import Table
from rich.text import Text

from kernelwright.cli.console import out, print_json, progress
from kernelwright.cli.options import (
    Device,
    DeviceOption,
    Grade,
    GradeOption,
    JsonOption,
    JudgesOption,
    TimingOption,
    number_option,
    out_option,
)
from kernelwright.core.folders import check_folder

OutOption = Annotated[Path, out_option("A new folder for records.jsonl.")]
ProgramsOption = Annotated[int, number_option("The number of programs of one call.")]


def command(
    folder: OutOption,
    programs: ProgramsOption = 256,
    workers: JudgesOption = None,
    grade: GradeOption = Grade.RECYCLED,
    timing: TimingOption = False,
    device: DeviceOption = Device.AUTO,
    json: JsonOption = False,
) -> None:
    """Measure how many candidates are judged a second, and where the time goes."""
    with progress("eval throughput") as say:
        check_folder(folder)
        from kernelwright.bench.judge.throughput import ThroughputPlan, lines_of, measure

        plan = ThroughputPlan(
            device=device.value,
            grade=grade.value,
            timing=timing,
            programs=programs,
            num_workers=workers,
        )
        measured = measure(plan, folder, say)
    if json:
        print_json(measured)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for label, text in lines_of(measured):
        table.add_row(label, Text(text))
    out.print(table)

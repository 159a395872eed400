"""`kernelwright report`: pages and tables from records, again."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.console import err, out, print_json
from kernelwright.cli.options import JsonOption
from kernelwright.cli.result import results_table
from kernelwright.core.errors import UsageError
from kernelwright.report.page import render
from kernelwright.report.run import read_run

FoldersArgument = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Folders that `optimize` wrote.")
]


def command(folders: FoldersArgument, json: JsonOption = False) -> None:
    """Write report.html of each DIR from its records.jsonl, and print their summary table."""
    runs = [read_run(records_of(folder)) for folder in folders]
    for folder in folders:
        render(records_of(folder), folder / "report.html")
        err.print(f"report  {folder / 'report.html'}", markup=False)
    results = [run.result for run in runs]
    if json:
        print_json(results)
    else:
        out.print(results_table(results))


def records_of(folder: Path) -> Path:
    """The records file of a run's folder; UsageError where there is none."""
    records = folder / "records.jsonl"
    if not records.is_file():
        raise UsageError(
            "no records here", file=str(records), remedy="name a folder that `optimize` wrote"
        )
    return records

"""`kernelwright eval compare`: two runs of `eval synthetic`, program by program."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.console import out, print_json, rows_table
from kernelwright.cli.options import JsonOption
from kernelwright.report.suite.compare import compare, rows

BeforeArgument = Annotated[
    Path, typer.Argument(metavar="BEFORE", help="The folder of a run of eval synthetic.")
]
AfterArgument = Annotated[
    Path, typer.Argument(metavar="AFTER", help="The folder of another run on the same programs.")
]


def command(before: BeforeArgument, after: AfterArgument, json: JsonOption = False) -> None:
    """Compare two runs: which programs were gained and lost, and how speeds changed.

    The p-value is McNemar's. Ratios of speed are over programs that both runs solve, with bootstrap
    intervals.
    """
    comparisons = compare(before, after)
    if json:
        print_json([asdict(comparison) for comparison in comparisons])
        return
    out.print(rows_table(rows(comparisons)))

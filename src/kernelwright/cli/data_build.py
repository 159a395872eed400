"""`kernelwright data build`: pairs of programs and kernels to train writers on."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.console import err, out, print_json, progress
from kernelwright.cli.options import JsonOption
from kernelwright.core.record import Record

RecipeArgument = Annotated[
    Path, typer.Argument(metavar="RECIPE.toml", help="Parts, sources, proportions: docs/data.md.")
]
OutOption = Annotated[
    Path, typer.Option("--out", help="Folder of the data set; the same command resumes it.")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes at once.", show_default="one a core")
]
ParquetOption = Annotated[
    bool, typer.Option("--parquet", help="Write Parquet files too (extra `train`).")
]


def command(
    recipe: RecipeArgument,
    folder: OutOption,
    workers: WorkersOption = None,
    parquet: ParquetOption = False,
    json: JsonOption = False,
) -> None:
    """Write pairs (program, plan and Triton code) with a data card, verified as the recipe says."""
    from kernelwright.data.pairs.build import build
    from kernelwright.data.pairs.recipe import Recipe

    num_workers = workers or len(os.sched_getaffinity(0))
    with progress("data build") as say:
        summary = build(Recipe.load(recipe), folder, num_workers, parquet=parquet, say=say)
    if json:
        print_json(summary)
    else:
        out.print(summary_table(summary))
        err.print(f"data card  {folder / 'README.md'}", markup=False, soft_wrap=True)


def summary_table(summary: Record) -> Table:
    """Pairs by level, then what became of the others."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    table.add_row(str(summary["pairs"]), f"pairs of {summary['programs']} programs")
    for level, number in summary["level"].items():
        table.add_row(str(number), f"of level {level}", style="dim")
    for side, number in summary["split"].items():
        table.add_row(str(number), f"for {side}", style="dim")
    table.add_row(str(summary["judged"]), "judged")
    for code, number in summary["rejected"].items():
        table.add_row(str(number), f"rejected: {code}")
    for part, tally in summary["parts"].items():
        for reason, number in tally["dropped"].items():
            table.add_row(str(number), f"{part}: {reason}", style="dim")
    return table

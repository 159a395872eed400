"""`kernelwright data build`: pairs of programs and kernels to train writers on."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.checks import check_file
from kernelwright.cli.console import progress, show
from kernelwright.cli.options import JsonOption, WorkersOption, cores, out_option
from kernelwright.core.folders import check_folder
from kernelwright.core.record import Record

RecipeArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RECIPE.toml", help="The parts, sources and proportions, as docs/data.md says."
    ),
]
OutOption = Annotated[
    Path, out_option("The folder of the data set. The same command resumes the run.")
]
ParquetOption = Annotated[
    bool, typer.Option("--parquet", help="Write Parquet files too. This needs the extra `train`.")
]


def command(
    recipe: RecipeArgument,
    folder: OutOption,
    workers: WorkersOption = None,
    parquet: ParquetOption = False,
    json: JsonOption = False,
) -> None:
    """Write pairs (program, plan and Triton code) with a data card, verified as the recipe says."""
    with progress("data build") as say:
        check_file(recipe, "give a recipe in TOML: docs/data.md says what it holds")
        check_folder(folder)
        from kernelwright.data.pairs.build import build
        from kernelwright.data.pairs.recipe import PairsRecipe

        summary = build(PairsRecipe.load(recipe), folder, cores(workers), parquet=parquet, say=say)
    show(summary, summary_table(summary), f"data card  {folder / 'README.md'}", json=json)


def summary_table(summary: Record) -> Table:
    """Count pairs by level, then the pairs that were left out, by reason."""
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

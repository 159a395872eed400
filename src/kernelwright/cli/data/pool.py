"""`kernelwright data pool` and `data fastest`: judged answers, and the fastest of them as pairs."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli.checks import check_file
from kernelwright.cli.console import note, print_json, progress, show
from kernelwright.cli.options import JsonOption, out_option
from kernelwright.cli.train.options import ChangesOption
from kernelwright.core.folders import check_folder
from kernelwright.core.record import Record

RecipeArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RECIPE.toml", help="Programs, writer, choice and judging, as docs/pool.md says."
    ),
]
OutOption = Annotated[Path, out_option("The folder of the pool. The same command resumes the run.")]
PoolsArgument = Annotated[
    list[Path], typer.Argument(metavar="POOL...", help="Folders of `kernelwright data pool`.")
]
PairsOption = Annotated[Path, out_option("The folder of the pairs.")]
WithinOption = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        min=0.0,
        help="Keep answers that are slower than the fastest by this share at most.",
    ),
]
TeacherOption = Annotated[
    bool, typer.Option("--teacher/--no-teacher", help="Keep answers of the teacher too.")
]


def pool(
    recipe: RecipeArgument,
    folder: OutOption,
    changes: ChangesOption = None,
    json: JsonOption = False,
) -> None:
    """Write answers to programs, judge and time the most promising ones, and store all of them."""
    with progress("data pool") as say:
        check_file(recipe, "give a recipe in TOML: docs/pool.md says what it holds")
        check_folder(folder)
        from kernelwright.data.pool.recipe import PoolRecipe
        from kernelwright.data.pool.run import make_pool

        summary = make_pool(PoolRecipe.load(recipe, changes or ()), folder, say)
    show(summary, _table(summary), f"data card  {folder / 'README.md'}", json=json)
    raise typer.Exit(3 if summary["judging"]["infra"] else 0)


def fastest(
    pools: PoolsArgument,
    folder: PairsOption,
    within: WithinOption = 0.03,
    teacher: TeacherOption = True,
    json: JsonOption = False,
) -> None:
    """Write the fastest correct answers of pools as pairs, for expert iteration by `train sft`."""
    check_folder(folder)
    from kernelwright.data.pool.fastest import write_fastest

    counts = write_fastest(pools, folder, within=within, teacher=teacher)
    if json:
        print_json(counts)
    else:
        levels = ", ".join(f"{n} of {level}" for level, n in sorted(counts["levels"].items()))
        note(f"{counts['pairs']} pairs of {counts['programs']} programs: {levels}")


def _table(summary: Record) -> Table:
    table = Table("level", "answer", "judged", "correct", "faster", "speed-up", box=None)
    for level, figures in {**summary["levels"], "all": summary["all"]}.items():
        for why, correct in figures["correct"].items():
            if correct["of"]:
                speedup, faster = figures["speedup"][why], figures["faster"][why]
                table.add_row(
                    level,
                    why,
                    str(correct["of"]),
                    f"{correct['share']:.1%}",
                    "not timed" if faster is None else f"{faster['share']:.1%}",
                    "not timed" if speedup is None else f"{speedup:.2f}x",
                )
    return table

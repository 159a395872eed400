"""Measure the program sampler: `python -m tools.sampler --help`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli import failures
from kernelwright.cli.checks import check_file, check_output_file
from kernelwright.cli.console import out, print_json, progress
from kernelwright.cli.options import JsonOption, SeedOption, WorkersOption, cores, out_option
from kernelwright.core import record
from kernelwright.core.record import Record
from kernelwright.synth.recipe import DrawRecipe
from tools.sampler import figures
from tools.sampler import quality as qualities
from tools.sampler import solver as solving

OutOption = Annotated[Path, out_option("The JSONL file that records are added to.")]
LevelOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="The level of the programs to draw.", show_default="none are drawn"
    ),
]
NumberOption = Annotated[
    int, typer.Option("--num", metavar="N", min=1, help="The number of programs to draw.")
]
RecipeOption = Annotated[
    Path | None,
    typer.Option(metavar="TOML", help="The recipe to draw by.", show_default="balanced weights"),
]
ExecuteOption = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE", help="A device to run the programs on.", show_default="they are not run"
    ),
]
UniformityOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Test small spaces, with this number of draws for each of their programs.",
        show_default="no test",
    ),
]
SolverOption = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        help="Compare drawn sizes with CP-SAT's under this number of seeds.",
        show_default="no comparison",
    ),
]
QualityOption = Annotated[
    bool,
    typer.Option(
        "--quality", help="Only count the programs that are tasks, and why others are not."
    ),
]


def command(
    results: OutOption,
    level: LevelOption = None,
    num: NumberOption = 10_000,
    seed: SeedOption = 0,
    recipe: RecipeOption = None,
    execute: ExecuteOption = None,
    uniformity: UniformityOption = 0,
    solver: SolverOption = 0,
    quality: QualityOption = False,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Measure the program sampler: uniformity, coverage, speed, whether programs run."""
    lines: list[Record] = []

    def keep(measured: Record, text: str) -> None:
        record.append(results, [measured])
        lines.append(measured)
        if not json:
            out.print(text, markup=False)

    with progress("sampler") as say:
        if recipe is not None:
            check_file(recipe, "give a recipe in TOML: docs/csp-dag.md says what it holds")
        check_output_file(results)
        used = DrawRecipe.of({"weights": "balanced"}) if recipe is None else DrawRecipe.load(recipe)
        environment = {"environment": record.environment()}
        about = environment | {"recipe": used.to_json()}
        for space in figures.uniformity(uniformity, seed) if uniformity else ():
            text = f"{space['space']}: {space['programs']} programs, p = {space['p']:.3g}"
            keep(space | environment, text)
        for pair in solving.comparison(solver, seed) if solver else ():
            keep(pair | environment, _compared(pair))
        if level is not None and quality:
            counted = qualities.quality(used, level, num, seed, cores(workers), say)
            text = f"level {level}: {counted['passed']} of {counted['attempts']} pass"
            keep(counted | about, f"{text}\n{counted['refused']} {counted['cpu_ms']}")
        elif level is not None:
            plan = figures.FiguresPlan(recipe=used, level=level, num=num, seed=seed, device=execute)
            drawn = figures.programs(plan, cores(workers), say)
            keep(drawn | about, _drawn(level, drawn))
    if json:
        print_json(lines)


def _compared(pair: Record) -> str:
    return (
        f"{pair['measure']}: {pair['different_draws']} of {pair['draws']} draws differ"
        f" ({pair['draw_cpu_ms']:.2f} ms), {pair['different_solutions']} of"
        f" {pair['solver_seeds']} solutions ({pair['solver_cpu_ms']:.1f} ms)"
    )


def _drawn(level: int, drawn: Record) -> str:
    missing = {
        name: number for name, number in drawn["spread"].items() if name.endswith("_missing")
    }
    text = f"level {level}: {drawn['draw_cpu_ms']:.2f} ms a program, {missing}"
    return f"{text}\n{drawn.get('executed', '')}".rstrip()


def main(words: list[str]) -> int:
    """Run the command; errors become a message and an exit code, as in `kernelwright`."""
    app = typer.Typer(add_completion=False)
    app.command()(command)
    try:
        app(words, prog_name="python -m tools.sampler", standalone_mode=False)
    except Exception as error:
        return failures.show(error, as_json="--json" in words)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`kernelwright synth`: draw programs into a file, and count the programs of files."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli import verbs
from kernelwright.cli.checks import check_file, check_files, check_output_file
from kernelwright.cli.console import note, out, print_json, progress, rows_table
from kernelwright.cli.options import (
    JsonOption,
    SeedOption,
    SetName,
    WorkersOption,
    cores,
    number_option,
    out_option,
)
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.report.format import count
from kernelwright.report.programs.census import Census, read_census
from kernelwright.report.programs.coverage import CoverageShare, space_of
from kernelwright.report.programs.page import histograms, refused_rows, write_page

if TYPE_CHECKING:
    from kernelwright.synth.run import FilePlan, Tally

app = verbs.group(
    "synth",
    "Draw programs into a JSONL file: the same bytes for the same recipe and seed.",
    "csp-dag.md",
    ("Draw 1000 programs of five calls", "--level 5 -o l5.jsonl"),
    ("See what the file holds", "stats l5.jsonl --html l5.html"),
    runs_alone=True,
)

MOST_SHOWN = 24
"""Bars of a histogram in the terminal; the page shows all."""

OutOption = Annotated[Path | None, out_option("The JSONL file. The same command goes on with it.")]
RecipeOption = Annotated[
    Path | None,
    typer.Option(
        metavar="TOML",
        help="The recipe: which programs may be drawn, and how often.",
        show_default="balanced weights",
    ),
]
RECIPE_REMEDY = "give a recipe in TOML: docs/csp-dag.md says what it holds"
PROGRAMS_REMEDY = "give a file that `kernelwright synth --out FILE` wrote"


@app.callback()
def sample(
    context: typer.Context,
    level: Annotated[
        str,
        typer.Option(
            metavar="LEVELS", help="The calls of a program, as 5, or as 1,2,5,20 for several."
        ),
    ] = "5",
    num: Annotated[int, number_option("The number of programs of each level.")] = 1000,
    seed: SeedOption = 0,
    path: OutOption = None,
    recipe: RecipeOption = None,
    avoid: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Draw none of the programs in this file."),
    ] = None,
    workers: WorkersOption = None,
    lint: Annotated[bool, typer.Option(help="Run the programs and refuse bad tasks.")] = True,
    time: Annotated[
        bool, typer.Option("--time", help="Measure eager PyTorch's time, on a GPU.")
    ] = False,
    parquet: Annotated[
        bool,
        typer.Option("--parquet", help="Write FILE.parquet too. This needs the extra `train`."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Draw programs into a JSONL file: the same bytes for the same recipe and seed."""
    if context.invoked_subcommand is not None:
        return
    if path is None:
        raise UsageError("no file to write to", remedy="give --out FILE.jsonl")
    levels = _levels(level)
    if recipe is not None:
        check_file(recipe, RECIPE_REMEDY)
    check_files(avoid, PROGRAMS_REMEDY)
    check_output_file(path)
    from kernelwright.synth.benchmark import benchmark_fingerprints
    from kernelwright.synth.draws import LevelGroup
    from kernelwright.synth.file import fingerprints
    from kernelwright.synth.recipe import DrawRecipe
    from kernelwright.synth.run import FilePlan

    draw_recipe = (
        DrawRecipe.of({"weights": "balanced"}) if recipe is None else DrawRecipe.load(recipe)
    )
    if not lint:
        draw_recipe = replace(draw_recipe, quality=replace(draw_recipe.quality, lint=False))
    plan = FilePlan(
        recipe=draw_recipe,
        seed=seed,
        groups=tuple(LevelGroup(name=f"level {n}", level=n, num=num) for n in levels),
        avoid=benchmark_fingerprints().union(*map(fingerprints, avoid or ())),
    )
    _write(plan, path, workers, time=time, parquet=parquet, json=json)


def benchmark(
    path: Annotated[Path, out_option("The JSONL file.")],
    name: Annotated[SetName, typer.Option("--set", help="The frozen set.")] = SetName.V1,
    workers: WorkersOption = None,
    json: JsonOption = False,
) -> None:
    """Draw the programs of a frozen set again, by the recipe that is shipped."""
    check_output_file(path)
    from kernelwright.synth.benchmark import benchmark_plan

    _write(benchmark_plan(name), path, workers, time=False, parquet=False, json=json)


def balance(
    path: Annotated[Path, out_option("The TOML file for the weights.")],
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="TOML", help="The recipe to fit.", show_default="all operators, equal weights"
        ),
    ] = None,
    level: Annotated[int, number_option("The number of calls of a program.")] = 5,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Find weights under which a recipe's operators are called equally often."""
    if recipe is not None:
        check_file(recipe, RECIPE_REMEDY)
    check_output_file(path)
    from kernelwright.synth.balance import balanced_weights
    from kernelwright.synth.recipe import DrawRecipe

    draw_recipe = DrawRecipe() if recipe is None else DrawRecipe.load(recipe)
    with progress("balance") as say:
        weights = balanced_weights(draw_recipe, level, rounds=12, draws=20_000, seed=seed, say=say)
    lines = (f"{op} = {weight}" for op, weight in weights.items())
    head = f"# Operators are called equally often at level {level}: kernelwright synth balance"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, "[weights]", *lines, ""]))
    if json:
        print_json(weights)
    note(f"weights  {path}")


def stats(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSONL files that `synth` wrote.")
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="PAGE", help="Write a page with pictures to this file.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Count operators, reads, sizes, costs and refusals of programs, and their coverage."""
    check_files(files, PROGRAMS_REMEDY)
    check_output_file(html)
    census, headers = read_census(files)
    space = space_of(headers)
    coverage = [] if space is None else space.coverage(census)
    if json:
        print_json(census.to_json() | {"coverage": [_share_json(share) for share in coverage]})
    else:
        for table in _tables(census, coverage):
            out.print(table)
            out.print()
    if html is not None:
        write_page(census, space, ", ".join(file.name for file in files), html)
        note(f"page  {html}")


def _levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or min(levels) < 1 or len(set(levels)) < len(levels):
        raise UsageError(
            f"--level {text} gives no numbers of calls",
            remedy="give numbers of calls: 5, or 1,2,5,20",
        )
    return levels


def _write(
    plan: "FilePlan", path: Path, workers: int | None, *, time: bool, parquet: bool, json: bool
) -> None:
    from kernelwright.synth.parquet import check_pyarrow, write_parquet
    from kernelwright.synth.run import synthesize
    from kernelwright.synth.times import EagerClock

    if parquet:
        check_pyarrow()
    clock = EagerClock() if time else None
    with progress("synth") as say:
        tally = synthesize(plan, path, cores(workers), clock=clock, say=say)
    if json:
        counts = {"before": tally.before, "drawn": tally.drawn, "given_up": tally.given_up}
        print_json({"file": str(path), **counts, "refused": dict(tally.refused)})
    else:
        out.print(_tally_table(tally))
    note(f"programs  {path}")
    if parquet:
        write_parquet(path, path.with_suffix(".parquet"))
        note(f"parquet   {path.with_suffix('.parquet')}")


def _tally_table(tally: "Tally") -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    table.add_row(count(tally.drawn), "programs drawn")
    for number, text in (
        (tally.before, "were there before"),
        (tally.given_up, "not found and left out"),
        *((number, f"attempts refused: {why}") for why, number in tally.refused.most_common()),
    ):
        if number:
            table.add_row(count(number), text)
    return table


def _tables(census: Census, coverage: list[CoverageShare]) -> Iterator[Table]:
    groups = [*sorted(census.groups.items()), ("all", census.programs)]
    yield _table(("programs", ""), [(name, count(number)) for name, number in groups])
    if coverage:
        shares = [(s.what, f"{count(s.seen)} of {count(s.possible)}") for s in coverage]
        yield _table(("coverage", "seen"), shares)
    if census.attempts:
        refused = [(f"refused: {why}", f"{share:.2f}%") for why, _, share in refused_rows(census)]
        facts = [("not uniform", count(census.not_uniform)), ("all", count(census.attempts))]
        yield _table(("attempts", ""), [*refused, *facts])
    counted = [("Operators", census.operators.most_common()), *histograms(census)]
    rows = [(title, _shares(counts)) for title, counts in counted]
    yield _table(("what", "share of each"), rows)


def _table(head: tuple[str, str], rows: Iterable[tuple[str, str]]) -> Table:
    return rows_table([head, *(tuple(map(Text, row)) for row in rows)])


def _shares(counts: list[tuple[str, int]]) -> str:
    total = sum(number for _, number in counts)
    shown = [f"{label}: {number / total:.1%}" for label, number in counts[:MOST_SHOWN]]
    return ", ".join(shown + ["..."] * (len(counts) > MOST_SHOWN))


def _share_json(share: CoverageShare) -> Record:
    seen = {"what": share.what, "seen": share.seen, "possible": share.possible}
    return seen | {"missing": list(share.missing)}


verbs.add(app, "benchmark", benchmark, "csp-dag.md", ("Draw the benchmark again", "-o v1.jsonl"))
verbs.add(
    app,
    "balance",
    balance,
    "csp-dag.md",
    ("Fit the weights of a recipe", "--recipe r.toml -o w.toml"),
)
verbs.add(app, "stats", stats, "csp-dag.md", ("Count what a file holds", "l5.jsonl"))

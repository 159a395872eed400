"""`kernelwright synth`: draw programs into a file, and say what such files hold."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli.console import err, out, print_json, progress
from kernelwright.cli.options import JsonOption
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.report.format import count
from kernelwright.report.programs.census import Census, read_census
from kernelwright.report.programs.coverage import Share, space_of
from kernelwright.report.programs.page import histograms, refused_rows, write_page

if TYPE_CHECKING:
    from kernelwright.synth.run import Plan, Tally

app = typer.Typer(invoke_without_command=True)

MOST_SHOWN = 24
"""Of a histogram in the terminal; the page shows all."""

OutOption = Annotated[
    Path | None, typer.Option("--out", help="JSONL file; the same command goes on with it.")
]
WorkersOption = Annotated[
    int | None, typer.Option(min=1, help="Processes at once.", show_default="one a core")
]


@app.callback()
def sample(
    context: typer.Context,
    level: Annotated[str, typer.Option(help="Calls a program: 5, or several: 1,2,5,20.")] = "5",
    num: Annotated[int, typer.Option(min=1, help="Programs of each level.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    path: OutOption = None,
    recipe: Annotated[
        Path | None, typer.Option(metavar="TOML", help="What may be drawn, and how.")
    ] = None,
    avoid: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Draw none of this file's programs.")
    ] = None,
    workers: WorkersOption = None,
    lint: Annotated[bool, typer.Option(help="Run programs and refuse bad tasks.")] = True,
    time: Annotated[bool, typer.Option("--time", help="Take eager PyTorch's time (GPU).")] = False,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write FILE.parquet too (extra `train`).")
    ] = False,
) -> None:
    """Draw programs into a JSONL file: the same bytes for the same recipe and seed."""
    if context.invoked_subcommand is not None:
        return
    if path is None:
        raise UsageError("no file to write to", remedy="give --out FILE.jsonl")
    from kernelwright.synth.benchmark import benchmark_fingerprints
    from kernelwright.synth.draws import Group
    from kernelwright.synth.file import fingerprints
    from kernelwright.synth.recipe import Recipe
    from kernelwright.synth.run import Plan

    made = Recipe.of({"weights": "balanced"}) if recipe is None else Recipe.load(recipe)
    if not lint:
        made = replace(made, quality=replace(made.quality, lint=False))
    plan = Plan(
        recipe=made,
        seed=seed,
        groups=tuple(Group(name=f"level {n}", level=n, num=num) for n in _levels(level)),
        avoid=benchmark_fingerprints().union(*map(fingerprints, avoid or ())),
    )
    _write(plan, path, workers, time, parquet)


@app.command("benchmark")
def benchmark(
    path: Annotated[Path, typer.Option("--out", help="JSONL file.")],
    workers: WorkersOption = None,
) -> None:
    """Draw the programs of synthetic-v1 again, by the recipe that is shipped."""
    from kernelwright.synth.benchmark import benchmark_plan

    _write(benchmark_plan(), path, workers, time=False, parquet=False)


@app.command("balance")
def balance(
    path: Annotated[Path, typer.Option("--out", help="TOML file for the weights.")],
    recipe: Annotated[Path | None, typer.Option(metavar="TOML", help="What may be drawn.")] = None,
    level: Annotated[int, typer.Option(min=1, help="Calls a program.")] = 5,
    rounds: Annotated[int, typer.Option(min=1, help="Of fitting.")] = 12,
    draws: Annotated[int, typer.Option(min=1, help="Skeletons drawn each round.")] = 20_000,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
) -> None:
    """Find weights under which a recipe's operators are called equally often."""
    from kernelwright.synth.balance import balanced_weights
    from kernelwright.synth.recipe import Recipe

    made = Recipe() if recipe is None else Recipe.load(recipe)
    with progress("balance") as say:
        weights = balanced_weights(made, level, rounds=rounds, draws=draws, seed=seed, say=say)
    lines = (f"{op} = {weight}" for op, weight in weights.items())
    head = f"# Operators are called equally often at level {level}: kernelwright synth balance"
    path.write_text("\n".join([head, "[weights]", *lines, ""]))


@app.command("stats")
def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="JSONL files.")],
    html: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Write a page with pictures.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say what programs hold: coverage, operators, who reads whom, sizes, cost, refusals."""
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
        err.print(f"page  {html}", markup=False, soft_wrap=True)


def _levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or min(levels) < 1 or len(set(levels)) < len(levels):
        raise UsageError(f"--level {text}", remedy="give numbers of calls: 5, or 1,2,5,20")
    return levels


def _write(plan: "Plan", path: Path, workers: int | None, time: bool, parquet: bool) -> None:
    from kernelwright.synth.parquet import check_pyarrow, write_parquet
    from kernelwright.synth.run import synthesize
    from kernelwright.synth.times import EagerClock

    if parquet:
        check_pyarrow()
    clock = EagerClock() if time else None
    num_workers = workers or len(os.sched_getaffinity(0))
    with progress("synth") as say:
        tally = synthesize(plan, path, num_workers, clock=clock, say=say)
    out.print(_tally_table(tally))
    err.print(f"programs  {path}", markup=False, soft_wrap=True)
    if parquet:
        write_parquet(path, path.with_suffix(".parquet"))
        err.print(f"parquet   {path.with_suffix('.parquet')}", markup=False, soft_wrap=True)


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


def _tables(census: Census, coverage: list[Share]) -> Iterator[Table]:
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
    table = Table(*head, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _shares(counts: list[tuple[str, int]]) -> str:
    total = sum(number for _, number in counts)
    shown = [f"{label}: {number / total:.1%}" for label, number in counts[:MOST_SHOWN]]
    return ", ".join(shown + ["..."] * (len(counts) > MOST_SHOWN))


def _share_json(share: Share) -> Record:
    seen = {"what": share.what, "seen": share.seen, "possible": share.possible}
    return seen | {"missing": list(share.missing)}

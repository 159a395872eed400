"""`kernelwright report`: pages and tables from records, written again; and sites of many runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli import verbs
from kernelwright.cli.console import note, out, print_json
from kernelwright.cli.options import OUT_NAMES, JsonOption
from kernelwright.cli.result import results_table
from kernelwright.cli.train.table import training_table, trainings_json
from kernelwright.core.errors import UsageError
from kernelwright.report.models import is_models, write_models
from kernelwright.report.page import render
from kernelwright.report.run import ReportedRun, read_run
from kernelwright.report.site.write import INDEX, write_site
from kernelwright.report.suite.page import LINT, PAGE, RECORDS, write_suite
from kernelwright.report.synthetic.page import is_examination, write_examination
from kernelwright.report.training.page import write_comparison, write_training
from kernelwright.report.training.run import Training, is_training, read_training

FoldersArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Folders that `optimize`, `eval` or `train` wrote. With --out also files of records.",
    ),
]
OutOption = Annotated[
    Path | None, typer.Option(*OUT_NAMES, help="A folder for a site with the pages of all PATHs.")
]


def command(
    folders: FoldersArgument,
    out_folder: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Write report.html of each PATH from its records.jsonl, and print the tables of all PATHs.

    For several training runs, the first folder gets comparison.html with the curves of all. With
    --out, write a site: a table of all runs, a page for each run and task, and comparisons.
    """
    if out_folder is not None:
        _write_site(folders, out_folder, json=json)
        return
    runs: list[ReportedRun] = []
    trainings: list[Training] = []
    for folder in folders:
        with _whole_records(folder / RECORDS):
            _report(folder, runs, trainings)
    for group in _by_command(trainings):
        if len(group) > 1:
            _say_written(write_comparison(group))
    if json:
        print_json([*(run.result for run in runs), *trainings_json(trainings)])
        return
    if runs:
        out.print(results_table(runs))
    for group in _by_command(trainings):
        out.print(training_table(group))


def _write_site(paths: list[Path], folder: Path, *, json: bool) -> None:
    """Write the site, and note its path or print the table of the first page as JSON."""
    with _whole_records(*paths):
        levels = write_site(paths, folder, note)
    if json:
        print_json(
            [
                {"run": run.name, "commits": run.commits, **asdict(level)}
                for run, own in levels
                for level in own
            ]
        )
        return
    _say_written(folder / INDEX)


def _report(folder: Path, runs: list[ReportedRun], trainings: list[Training]) -> None:
    """Write the page that the records of a folder call for; add what the tables show."""
    if (folder / LINT).is_file():
        write_suite(folder)
        _say_written(folder / PAGE)
    elif is_examination(folder / RECORDS):
        write_examination(folder)
        _say_written(folder / PAGE)
    elif is_models(folder / RECORDS):
        write_models(folder)
        _say_written(folder / PAGE)
    elif is_training(folder / RECORDS):
        trainings.append(read_training(folder))
        _say_written(write_training(trainings[-1]))
    else:
        path = _records_of(folder)
        runs.append(read_run(path))
        render(path, path.with_name("report.html"))
        _say_written(path.with_name("report.html"))


@contextmanager
def _whole_records(*files: Path) -> Iterator[None]:
    """A context in which a missing field of these files becomes a fault of the user.

    Raises:
        UsageError: the records lack a field; the command that wrote them must run again.
    """
    try:
        yield
    except (KeyError, TypeError, IndexError) as error:
        message = f"the records are damaged or of another version: {type(error).__name__}: {error}"
        remedy = "make them again with the command that wrote them"
        raise UsageError(message, file=", ".join(map(str, files)), remedy=remedy) from error


def _by_command(runs: list[Training]) -> list[list[Training]]:
    commands = dict.fromkeys(run.command for run in runs)
    return [[run for run in runs if run.command == command] for command in commands]


def _say_written(page: Path) -> None:
    note(f"report  {page}")


def _records_of(folder: Path) -> Path:
    """The records file of a run's folder; UsageError where there is none."""
    records = folder / "records.jsonl"
    if not records.is_file():
        raise UsageError(
            "no records here",
            file=str(records),
            remedy="name a folder that `optimize`, `eval` or `train` wrote",
        )
    return records


def add_to(app: typer.Typer) -> None:
    """Add the verb."""
    verbs.add(
        app,
        "report",
        command,
        "site.md",
        ("Write the page of a run again", "kernelwright report out/model"),
        ("Compare training runs", "kernelwright report run-a run-b"),
        ("Write a site of several runs", "kernelwright report results/*.jsonl run --out site"),
    )

"""`kernelwright report`: pages and tables from records, written again; and sites of many runs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.console import note, out, print_json
from kernelwright.cli.options import JsonOption, out_option
from kernelwright.cli.result import results_table
from kernelwright.cli.train.table import training_table, trainings_json
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.kinds.searching import SearchedProgramLine
from kernelwright.report.models import write_models
from kernelwright.report.page import render
from kernelwright.report.run import ReportedRun, read_run
from kernelwright.report.site.reading import file_of
from kernelwright.report.site.write import INDEX, write_site
from kernelwright.report.suite.page import PAGE, RECORDS, write_suite
from kernelwright.report.synthetic.page import write_examination
from kernelwright.report.training.page import write_comparison, write_training
from kernelwright.report.training.run import Training, is_training, read_training

FoldersArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Folders that `optimize`, `eval` or `train` wrote. With --out also files of records.",
    ),
]
OutOption = Annotated[Path | None, out_option("A folder for a site with the pages of all PATHs.")]


WRITERS: dict[str, Callable[[Path], object]] = {
    "eval kernelbench": write_suite,
    "eval models": write_models,
    "eval synthetic": write_examination,
}
"""The function that writes the page of a run, by the command of the run."""


def command(
    folders: FoldersArgument, out_folder: OutOption = None, json: JsonOption = False
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
        with record.damage_in(folder / RECORDS):
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
    """Write the site, and say where it is; or print the figures of the first page's table."""
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
    """Write the page for the records of a folder, and add its rows to the tables."""
    path = _records_of(folder)
    if write := WRITERS.get(record.command_of(path)):
        write(folder)
        _say_written(folder / PAGE)
    elif is_training(path):
        trainings.append(read_training(folder))
        _say_written(write_training(trainings[-1]))
    else:
        _check_search(path)
        runs.append(read_run(path))
        render(path, path.with_name("report.html"))
        _say_written(path.with_name("report.html"))


def _check_search(path: Path) -> None:
    """See that records without a page of their own are not taken for a search.

    Raises:
        UsageError: the file has records, and none is of a search.
    """
    kinds = Counter(str(line.get("record")) for line in record.read(path, whole=True))
    del kinds["run"]  # a search that was interrupted early has no more than this record
    if kinds and record.word_of(SearchedProgramLine) not in kinds:
        counts = ", ".join(f"{kind}: {number}" for kind, number in kinds.items())
        remedy = "add --out SITE for a site that shows them"
        raise UsageError(f"these records have no page ({counts})", file=str(path), remedy=remedy)


def _by_command(runs: list[Training]) -> list[list[Training]]:
    commands = dict.fromkeys(run.command for run in runs)
    return [[run for run in runs if run.command == command] for command in commands]


def _say_written(page: Path) -> None:
    note(f"report  {page}")


def _records_of(folder: Path) -> Path:
    """The records file of a run's folder.

    Raises:
        UsageError: there is none.
    """
    if folder.is_file():
        remedy = "name its folder, or add --out SITE for a site"
        raise UsageError("this is a file", file=str(folder), remedy=remedy)
    return file_of(folder)

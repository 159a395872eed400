"""`kernelwright report`: pages, tables and published figures from records, again."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.console import err, out, print_json
from kernelwright.cli.options import JsonOption
from kernelwright.cli.result import results_table
from kernelwright.cli.training import training_table, trainings_json
from kernelwright.core.errors import UsageError
from kernelwright.report.matrix import write_matrix
from kernelwright.report.page import render
from kernelwright.report.run import read_run
from kernelwright.report.suite.page import LINT, PAGE, RECORDS, write_suite
from kernelwright.report.summary import write_summary
from kernelwright.report.synthetic.page import is_examination, write_examination
from kernelwright.report.training.page import write_comparison, write_training
from kernelwright.report.training.run import Training, is_training, read_training

MATRIX = Path("docs", "verifier-matrix.md")

FoldersArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[DIR]...",
        help="Folders that `optimize`, `eval kernelbench`, `eval synthetic` or `train` wrote.",
    ),
]
SummaryOption = Annotated[
    Path | None,
    typer.Option(
        metavar="RESULTS",
        help="Folder of benchmark records: writes its summary.json and the README's table.",
    ),
]
MatrixOption = Annotated[
    Path | None,
    typer.Option(
        metavar="RESULTS",
        help="Folder of corpus records: writes docs/verifier-matrix.md from them.",
    ),
]
ReadmeOption = Annotated[Path, typer.Option(help="The README that --summary updates.")]


def command(
    folders: FoldersArgument = None,
    summary: SummaryOption = None,
    readme: ReadmeOption = Path("README.md"),
    matrix: MatrixOption = None,
    json: JsonOption = False,
) -> None:
    """Write report.html of each DIR from its records.jsonl, and print their summary table.

    Of several training runs, comparison.html in the first one's folder has their curves over each
    other.
    """
    if not folders and summary is None and matrix is None:
        raise UsageError("nothing to report", remedy="name folders, or give --summary RESULTS")
    if matrix is not None:
        write_matrix(matrix, MATRIX)
        err.print(f"matrix  {MATRIX}", markup=False)
    if summary is not None:
        if not (summary.is_dir() and readme.is_file()):
            raise UsageError(f"needs the folder {summary} and the file {readme}")
        figures = write_summary(summary, readme)
        err.print(f"{len(figures)} figures  {summary / 'summary.json'}, {readme}", markup=False)
    suites = [folder for folder in folders or () if (folder / LINT).is_file()]
    for folder in suites:
        write_suite(folder)
        _say_written(folder / PAGE)
    examinations = [f for f in folders or () if is_examination(f / RECORDS)]
    for folder in examinations:
        write_examination(folder)
        _say_written(folder / PAGE)
    trained = [f for f in folders or () if is_training(f / RECORDS)]
    trainings = _write_trainings(trained)
    rest = [f for f in folders or () if f not in (*suites, *examinations, *trained)]
    paths = [_records_of(folder) for folder in rest]
    runs = [read_run(path) for path in paths]
    for path in paths:
        render(path, path.with_name("report.html"))
        _say_written(path.with_name("report.html"))
    if json:
        print_json([*(run.result for run in runs), *trainings_json(trainings)])
        return
    if runs:
        out.print(results_table(runs))
    for group in _by_command(trainings):
        out.print(training_table(group))


def _write_trainings(folders: list[Path]) -> list[Training]:
    """A page of each run, and one of those of a command side by side."""
    runs = [read_training(folder) for folder in folders]
    for run in runs:
        _say_written(write_training(run))
    for group in _by_command(runs):
        if len(group) > 1:
            _say_written(write_comparison(group))
    return runs


def _by_command(runs: list[Training]) -> list[list[Training]]:
    commands = dict.fromkeys(run.command for run in runs)
    return [[run for run in runs if run.command == command] for command in commands]


def _say_written(page: Path) -> None:
    err.print(f"report  {page}", markup=False, soft_wrap=True)


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

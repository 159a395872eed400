"""The terminal's table of training runs, from their records."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from kernelwright.core.record import Record
from kernelwright.report.naming import names_of
from kernelwright.report.training.run import Training
from kernelwright.report.training.tables import value_rows, values


def training_table(runs: Sequence[Training]) -> Table:
    """The last and the best values of runs of one command, side by side."""
    head, *rows = value_rows(list(zip(names_of([run.folder for run in runs]), runs, strict=True)))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(runs[0].command)
    for name in head[1:]:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    return table


def trainings_json(runs: Iterable[Training]) -> list[Record]:
    return [
        {
            "command": run.command,
            "folder": str(run.folder),
            "step": run.steps[-1]["step"],
            "gpu_hours": run.gpu_hours,
            "values": {
                value.name: {"last": value.last, "best": value.best, "best_step": value.best_step}
                for value in values(run)
            },
        }
        for run in runs
    ]

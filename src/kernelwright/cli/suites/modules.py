"""`kernelwright eval modules`: the modules of factories through the search."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.bench.suite import RIVALS, SuiteRun, module_cases, run_suite
from kernelwright.cli.checks import check_policies, check_source
from kernelwright.cli.console import note, out, print_json, progress
from kernelwright.cli.options import (
    DEFAULT_MODE,
    FOREVER,
    BudgetOption,
    Device,
    DeviceOption,
    ForOption,
    JsonOption,
    ModeOption,
    PoliciesOption,
    PrecisionOption,
    out_option,
)
from kernelwright.cli.suites.options import CasesOption, TimeoutOption, exit_code, search_options
from kernelwright.core import record
from kernelwright.core.delivered import over
from kernelwright.core.folders import check_folder
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.record import Record
from kernelwright.core.verdict import Precision
from kernelwright.policy.names import DEFAULT
from kernelwright.report.suite.rows import row_of
from kernelwright.report.suite.scores import cases_of

SpecsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="PACKAGE.MODULE:FACTORY...",
        help="Functions that return a module and its example inputs.",
    ),
]
OutOption = Annotated[
    Path, out_option("The folder for records.jsonl. Cases in it are not run again.")
]


def command(
    specs: SpecsArgument,
    folder: OutOption = Path("out/modules"),
    policy: PoliciesOption = DEFAULT,
    jobs: CasesOption = 1,
    for_s: ForOption = FOREVER,
    timeout_s: TimeoutOption = 600,
    budget_s: BudgetOption = 300,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = DEFAULT_MODE,
    json: JsonOption = False,
) -> None:
    """Optimize modules that factories make, and time them beside torch.compile and PyTorch.

    The exit code is 4 if the time ended before the last case, and 3 if our side failed in a case.
    Then the same command continues the run.
    """
    with progress("eval modules") as say:
        for spec in specs:
            check_source(spec)
        check_folder(folder)
        check_policies(policy)
        run = SuiteRun(
            suite="modules",
            policy=policy,
            out=folder,
            options=search_options(device, precision, mode, budget_s) | {"policy": policy},
            jobs=jobs,
            deadline_s=time.monotonic() + for_s,
            timeout_s=timeout_s,
        )
        left = run_suite(run, module_cases(specs), say)
    lines = list(record.read(run.records))
    if json:
        print_json([_with_ratios(line) for line in lines])
    else:
        out.print(_table(cases_of(lines)))
    note(f"records  {run.records}")
    raise typer.Exit(exit_code(left))


def _with_ratios(line: Record) -> Record:
    """A record of a case that begins with "over": [ratio, low, high] by baseline, as delivered;
    [ratio] alone where it has no interval."""
    case = record.as_kind(line, CaseLine)
    if case is None:
        return line
    ratios = {name: over(case, name) for name in RIVALS}
    intervals = {
        name: [ratio.value, *(ratio.interval or ())] for name, ratio in ratios.items() if ratio
    }
    return {"over": intervals, **line}


def _table(cases: Sequence[CaseLine]) -> Table:
    """A row for each module: speed-ups as delivered with intervals, and the result of the user."""
    table = Table("module", box=None, pad_edge=False, header_style="bold")
    rows = [row_of(case, list(RIVALS), "") for case in cases]
    for cell in rows[0].cells[: len(RIVALS) + 1] if rows else ():
        table.add_column(cell.label)
    for row in rows:
        cells = row.cells[: len(RIVALS) + 1]
        table.add_row(row.name, *(Text(f"{cell.text}\n{cell.below}".strip()) for cell in cells))
    return table

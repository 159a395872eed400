"""`kernelwright eval modules`: the modules of factories through the search."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.checks import check_policies, check_source
from kernelwright.cli.console import note, print_json, progress
from kernelwright.cli.options import (
    DEFAULT_MODE,
    OUT_NAMES,
    BudgetOption,
    Device,
    DeviceOption,
    JsonOption,
    ModeOption,
    PoliciesOption,
    Precision,
    PrecisionOption,
)
from kernelwright.cli.suites.options import CasesOption, TimeoutOption, search_options
from kernelwright.core import record
from kernelwright.core.folders import check_folder
from kernelwright.policy.names import DEFAULT

SpecsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="PACKAGE.MODULE:FACTORY...",
        help="Functions that return a module and its example inputs.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(*OUT_NAMES, help="The folder for records.jsonl. Cases in it are not run again."),
]


def command(
    specs: SpecsArgument,
    folder: OutOption = Path("out/modules"),
    policy: PoliciesOption = DEFAULT,
    jobs: CasesOption = 1,
    timeout_s: TimeoutOption = 600,
    budget_s: BudgetOption = 300,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = DEFAULT_MODE,
    json: JsonOption = False,
) -> None:
    """Optimize modules that factories make, and time them against eager PyTorch."""
    with progress("eval modules") as say:
        for spec in specs:
            check_source(spec)
        check_folder(folder)
        check_policies(policy)
        from kernelwright.bench.suite import Run, module_cases, run_suite

        run = Run(
            suite="modules",
            policy=policy,
            out=folder,
            options=search_options(device, precision, mode, budget_s) | {"policy": policy},
            jobs=jobs,
            deadline_s=float("inf"),
            timeout_s=timeout_s,
        )
        run_suite(run, module_cases(specs), say)
    if json:
        print_json(list(record.read(run.records)))
    note(f"records  {run.records}")

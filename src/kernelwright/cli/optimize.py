"""`kernelwright optimize`: the main job on one target."""

from pathlib import Path
from typing import Annotated

import typer

from kernelwright.cli.console import err, out, print_json, progress
from kernelwright.cli.options import (
    Device,
    DeviceOption,
    JsonOption,
    Mode,
    ModeOption,
    Precision,
    PrecisionOption,
)
from kernelwright.cli.result import results_table
from kernelwright.policy.names import DEFAULT, FORMS
from kernelwright.report.page import render
from kernelwright.report.run import read_run

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A KernelBench-format file, a flat program, or package.module:factory.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", help="Folder for optimized.py and report.html.", show_default="out/NAME"),
]
SourcesOption = Annotated[
    str,
    typer.Option(
        "--policy", metavar="POLICY,..", help=f"Who writes kernels: {FORMS}; several with commas."
    ),
]
BudgetOption = Annotated[
    float, typer.Option(min=1.0, help="Seconds the search may take before it settles.")
]


def command(
    target: TargetArgument,
    folder: OutOption = None,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = Mode.HYBRID,
    budget_s: BudgetOption = 600.0,
    policy: SourcesOption = DEFAULT,
    json: JsonOption = False,
) -> None:
    """Turn the hot parts of a PyTorch program into verified Triton kernels."""
    from kernelwright.search.optimize import optimize_target

    folder = folder or Path("out") / default_name(target)
    with progress(f"optimize {target}") as report:
        result = optimize_target(
            target,
            out=folder,
            device=device.value,
            precision=precision.value,
            mode=mode.value,
            budget_s=budget_s,
            policy=policy,
            progress=lambda step: report(f"{step.stage} {step.subject}".strip()),
        )
    records, page = folder / "records.jsonl", folder / "report.html"
    render(records, page)
    for failed in result["failed_sources"]:
        message = f"{failed['origin']} failed and was asked no more: {failed['message']}"
        err.print(message, style="yellow", markup=False, soft_wrap=True)
    err.print(result["outcome"]["message"], markup=False, soft_wrap=True)
    if result["unknown_operators"]:
        names = ", ".join(result["unknown_operators"])
        err.print(f"kept in PyTorch, not in the operator table: {names}", markup=False)
    if json:
        print_json(result)
        return
    out.print(results_table([read_run(records)]))
    err.print(f"module  {folder / 'optimized.py'}\nreport  {page}", markup=False, soft_wrap=True)


def default_name(target: str) -> str:
    """Folder name for a target: "mlp" for "models/mlp.py" and for "models:mlp"."""
    return Path(target).stem if target.endswith(".py") else target.rpartition(":")[2]

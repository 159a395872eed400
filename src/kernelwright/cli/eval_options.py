"""Options that several suites of `kernelwright eval` share."""

from typing import Annotated

import typer

from kernelwright.cli.options import Device, Mode, Precision

JobsOption = Annotated[int, typer.Option(min=1, help="Processes at once.")]
ForOption = Annotated[
    float, typer.Option("--for", metavar="SECONDS", help="Begin no case after so many.")
]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="One case may take.")
]
BudgetOption = Annotated[
    float, typer.Option("--budget", metavar="SECONDS", help="Each search may take.")
]


def search_options(
    device: Device, precision: Precision, mode: Mode, budget_s: float
) -> dict[str, str | float]:
    """Of `optimize_target`, as JSON."""
    return {
        "device": device.value,
        "precision": precision.value,
        "mode": mode.value,
        "budget_s": budget_s,
    }

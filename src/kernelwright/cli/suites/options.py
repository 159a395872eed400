"""Options that several suites of `kernelwright eval` share."""

from typing import Annotated

import typer

from kernelwright.cli.options import Device, Mode
from kernelwright.core.verdict import Precision

CasesOption = Annotated[
    int,
    typer.Option("--jobs", metavar="N", min=1, help="The number of cases that run at once."),
]
TimeoutOption = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", help="The seconds that one case may take."),
]


def search_options(
    device: Device, precision: Precision, mode: Mode, budget_s: float
) -> dict[str, str | float]:
    """Fields of `SearchOptions`, as JSON."""
    return {
        "device": device.value,
        "precision": precision.value,
        "mode": mode.value,
        "budget_s": budget_s,
    }

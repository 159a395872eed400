"""Options that several suites of `kernelwright eval` share."""

from typing import Annotated

import typer

from kernelwright.bench.suite import CasesLeft
from kernelwright.cli.console import note
from kernelwright.cli.failures import INFRA_CODE, UNFINISHED_CODE
from kernelwright.cli.options import Device, Mode, number_option
from kernelwright.core.verdict import Precision

CasesOption = Annotated[int, number_option("The number of cases that run at once.", "--jobs")]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", min=0.001, help="The seconds that one case may take."
    ),
]


def exit_code(left: CasesLeft) -> int:
    """The exit code of a suite: 0, or 4 or 3 after a note that says how many cases are left."""
    if left.not_begun:
        note(f"the time is over, {left.not_begun} cases are left: run the same command again")
        return UNFINISHED_CODE
    if left.failed:
        note(f"our side failed in {left.failed} cases: run the same command again")
        return INFRA_CODE
    return 0


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

"""Options that several verbs share."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.policy.names import FORMS

if TYPE_CHECKING:
    from kernelwright.verify.recipe import Recipe


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Precision(StrEnum):
    STRICT = "strict"
    TF32 = "tf32"
    KERNELBENCH = "kernelbench"


class Mode(StrEnum):
    PURE = "pure"
    HYBRID = "hybrid"


class Grade(StrEnum):
    FRESH = "fresh"
    RECYCLED = "recycled"


DeviceOption = Annotated[
    Device,
    typer.Option(help="auto: the GPU where there is one, else the CPU interpreter (no times)."),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        help="strict: no less accurate than PyTorch's own result; tf32: what TF32 gives;"
        " kernelbench: that suite's tolerance."
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        help="pure: all computation in own Triton kernels; hybrid: library calls may stay."
    ),
]
PolicyOption = Annotated[
    str,
    typer.Option(metavar="POLICY", help=f"Who writes kernels: {FORMS}."),
]
GradeOption = Annotated[
    Grade,
    typer.Option(
        help="fresh: a guest for each candidate; recycled: guests that live on, for training and"
        " wide search."
    ),
]
TimingOption = Annotated[bool, typer.Option(help="Time what is accepted (GPU only).")]
JudgesOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Judges at once.", show_default="one a core"),
]
TopPOption = Annotated[
    float,
    typer.Option(
        min=0.0, max=1.0, help="Share of the probability that the likeliest tokens are drawn from."
    ),
]
MaxTokensOption = Annotated[int, typer.Option(min=1, help="Of one answer.")]
SeedOption = Annotated[int, typer.Option(help="Of the draws of answers.")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print only JSON on stdout; progress stays on stderr.")
]


def judging(
    device: Device, precision: Precision, mode: Mode, grade: Grade, *, timing: bool
) -> "Recipe":
    """How many candidates are judged, with nothing left to the machine.

    Raises:
        UsageError: there is no such device.
    """
    from kernelwright.verify.recipe import Recipe

    return Recipe(
        device=device.value,
        precision=precision.value,
        mode=mode.value,
        grade=grade.value,
        timing=timing,
    ).resolved()

"""Options that several verbs share."""

from enum import StrEnum
from typing import Annotated

import typer

from kernelwright.policy.names import FORMS


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
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print only JSON on stdout; progress stays on stderr.")
]

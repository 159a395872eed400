"""Options that several verbs share."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelwright.core.verdict import Checks, Contract, Precision
from kernelwright.policy import names
from kernelwright.policy.names import FORMS

if TYPE_CHECKING:
    from kernelwright.verify.many.recipe import JudgeRecipe


class Device(StrEnum):
    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class Mode(StrEnum):
    PURE = "pure"
    HYBRID = "hybrid"


DEFAULT_MODE = Mode(names.DEFAULT_MODE)


class Grade(StrEnum):
    FRESH = "fresh"
    RECYCLED = "recycled"


class SetName(StrEnum):
    """As `synth.benchmark.SETS`, which takes long to import."""

    V1 = "synthetic-v1"
    V2 = "synthetic-v2"


FOREVER = float("inf")
"""The default of `--for`: no end on the clock."""


def number_option(help_text: str, *names: str, default: bool | str = True) -> Any:
    """An option that takes a number above zero.

    Args:
        names: the option's names, if they differ from the parameter's name.
        default: a text for the default, if the number alone is unclear.
    """
    return typer.Option(*names, metavar="N", min=1, help=help_text, show_default=default)


def out_option(help_text: str, default: bool | str = True) -> Any:
    """The option `--out`, or `-o`; `default` as for `number_option`."""
    return typer.Option("-o", "--out", help=help_text, show_default=default)


DeviceOption = Annotated[
    Device,
    typer.Option(
        help="The device: `auto` takes the GPU where there is one, else the CPU, where Triton's"
        " interpreter checks kernels and nothing is timed."
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        help="The allowed error: `strict` is a small multiple of PyTorch's own error, `tf32` allows"
        " TensorFloat-32, `kernelbench` is that suite's tolerance."
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        help="The rule for library calls: `hybrid` lets them stay, `pure` asks for Triton kernels"
        " for all computation."
    ),
]
ContractOption = Annotated[
    Contract,
    typer.Option(
        help="The promise of a verdict: `fixed` holds for the sizes, layout and mode of the"
        " reference's own inputs, `drop-in` wherever the reference works."
    ),
]
EvalOption = Annotated[
    bool,
    typer.Option(
        "--eval/--train",
        help="The mode of the module: `--eval` as in use, `--train` as in training.",
    ),
]
PolicyOption = Annotated[
    str, typer.Option("--policy", metavar="POLICY", help=f"The writer of the kernels: {FORMS}.")
]
PoliciesOption = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="POLICY,...",
        help=f"The writers of the kernels, separated by commas: {FORMS}.",
    ),
]
GradeOption = Annotated[
    Grade,
    typer.Option(
        help="The isolation of candidates: `fresh` judges each in a process of its own, `recycled`"
        " reuses processes, for training and wide search."
    ),
]
TimingOption = Annotated[
    bool, typer.Option(help="Measure the time of accepted candidates, on a GPU only.")
]
ClusterOption = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="The address of a Ray cluster: HOST:PORT, or `auto`."),
]
JudgesOption = Annotated[
    int | None,
    number_option(
        "The number of judges that work at once.",
        "--workers",
        default="one a core, at most 16 a GPU",
    ),
]
WorkersOption = Annotated[
    int | None, number_option("The number of processes that work at once.", default="one a core")
]
TopPOption = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        min=0.0,
        max=1.0,
        help="The share of probability that the likeliest tokens are drawn from.",
    ),
]
MaxTokensOption = Annotated[int, number_option("The most tokens of one answer.")]
SeedOption = Annotated[int, typer.Option(metavar="N", help="The seed of the random draws.")]
BudgetOption = Annotated[
    float,
    typer.Option(
        "--budget",
        metavar="SECONDS",
        min=1,
        help="Seconds on the clock for the whole search, with loading and writing.",
    ),
]


def for_option(help_text: str) -> Any:
    """The option `--for`: the seconds of a call, which may be "inf"."""
    return typer.Option("--for", metavar="SECONDS", min=0, help=help_text, show_default="no limit")


ForOption = Annotated[float, for_option("The seconds after which no further case begins.")]
LibraryOption = Annotated[
    Path | None,
    typer.Option(
        "--library",
        metavar="FOLDER",
        envvar="KERNELWRIGHT_LIBRARY",
        help="A library of kernels that earlier searches kept.",
        show_default="none",
    ),
]
JsonOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON alone on stdout, also for errors. Progress stays on stderr."
    ),
]


def cores(workers: int | None) -> int:
    """The number that the user gives, or one process a core that this process may use."""
    return workers or len(os.sched_getaffinity(0))


def judging(
    device: Device,
    precision: Precision,
    mode: Mode,
    grade: Grade,
    *,
    timing: bool,
    timing_s: float | None = None,
    contract: Contract = Contract.FIXED,
    checks: Checks = Checks.ALL,
) -> "JudgeRecipe":
    """The recipe by which candidates are judged, with nothing left to the machine.

    Raises:
        UsageError: there is no such device.
    """
    from kernelwright.verify.many.recipe import JudgeRecipe

    return JudgeRecipe(
        device=device.value,
        precision=precision.value,
        mode=mode.value,
        contract=contract.value,
        grade=grade.value,
        checks=checks.value,
        timing=timing,
        timing_s=timing_s,
    ).resolved()

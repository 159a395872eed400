"""`kernelwright eval models`: public models by name, compiled with our backend, whole and by
block."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.cli.console import note, out, print_json, progress, rows_table
from kernelwright.cli.options import (
    FOREVER,
    Device,
    DeviceOption,
    ForOption,
    JsonOption,
    out_option,
)
from kernelwright.cli.suites.options import TimeoutOption, exit_code
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.folders import check_folder
from kernelwright.core.kinds.models import ModelCaseLine
from kernelwright.report.models import case_rows, reason_rows, sentence, write_models
from kernelwright.report.suite.page import PAGE, RECORDS

DTYPES = ("float32", "bfloat16")
PHASES = ("prefill", "decode", "batch")
BY = ("whole", "blocks")

NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LIBRARY/NAME...",
        help="Models: timm/resnet50, or transformers/gpt2 by its model type.",
        show_default="the published list",
    ),
]
FolderOption = Annotated[
    Path, out_option("The folder of records and kernels. The same command resumes the run.")
]
DtypesOption = Annotated[
    str, typer.Option("--dtype", metavar="DTYPE,...", help="The dtypes, of float32 and bfloat16.")
]
PhasesOption = Annotated[
    str,
    typer.Option(
        "--phase",
        metavar="PHASE,...",
        help="The calls. `prefill`: a model reads one text. `decode`: a decoder writes one token"
        " after a text. `batch`: eight texts, or one image and eight images.",
    ),
]
ByOption = Annotated[
    str,
    typer.Option(
        metavar="PARTS,...",
        help="`whole`: the model. `blocks`: each distinct block of the model by itself.",
    ),
]
SmallOption = Annotated[
    bool, typer.Option("--small", help="Small models, for a trial run on a CPU.")
]
GraphBudgetOption = Annotated[
    float,
    typer.Option("--budget", metavar="SECONDS", min=1, help="Seconds of search for each graph."),
]


def command(
    names: NamesArgument = None,
    folder: FolderOption = Path("out/models"),
    dtype: DtypesOption = "float32,bfloat16",
    phase: PhasesOption = "prefill,decode,batch",
    by: ByOption = "whole",
    small: SmallOption = False,
    budget_s: GraphBudgetOption = 150,
    timeout_s: TimeoutOption = 3600,
    for_s: ForOption = FOREVER,
    device: DeviceOption = Device.AUTO,
    json: JsonOption = False,
) -> None:
    """Measure models of timm and transformers, compiled with our backend, with random weights.

    A process searches kernels for a model. A new process measures the model, PyTorch and
    torch.compile in turn. The exit code is 4 if the time was over first, and 3 if cases are left
    that failed through a fault of ours.
    """
    dtypes = _chosen("--dtype", dtype, DTYPES)
    phases, parts = _chosen("--phase", phase, PHASES), _chosen("--by", by, BY)
    check_folder(folder)
    from kernelwright.bench.models.run import ModelsPlan, run_models
    from kernelwright.bench.models.zoo import DEFAULT
    from kernelwright.verify.judging import device_named

    plan = ModelsPlan(
        out=folder,
        models=names or DEFAULT,
        dtypes=dtypes,
        phases=phases,
        by=parts,
        is_small=small,
        device=device_named(device.value).type,
        budget_s=budget_s,
        timeout_s=timeout_s,
        deadline_s=time.monotonic() + for_s,
    )
    with progress("eval models") as say:
        left = run_models(plan, say)
    if not any(True for _ in record.of_kind(record.read(plan.records), ModelCaseLine)):
        raise typer.Exit(exit_code(left))  # the time may be over before the first case
    cases = write_models(folder).cases
    if json:
        print_json(list(record.read(plan.records)))
    else:
        # Compile times and memory are on the page alone: a terminal has no room for them.
        rows = [(f"{row[0]}\n{row[1]}", *row[2:6], row[-1]) for row in case_rows(cases)]
        out.print(_table(rows))
        out.print(_table(reason_rows(cases)))
        out.print(sentence(cases), markup=False)
    note(f"records  {folder / RECORDS}")
    note(f"report  {folder / PAGE}")
    raise typer.Exit(exit_code(left))


def _chosen(option: str, text: str, allowed: tuple[str, ...]) -> list[str]:
    """The names in the text of an option, which commas separate.

    Raises:
        UsageError: the list is empty, or a name is not allowed.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or not set(names) <= set(allowed):
        raise UsageError(f"{option} is {text!r}", remedy=f"choose among {', '.join(allowed)}")
    return names


def _table(rows: list[tuple[str, ...]]) -> Table:
    head, *body = rows
    return rows_table([head, *(tuple(map(Text, row)) for row in body)])

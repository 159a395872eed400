"""`kernelwright eval all`: all published runs, in slices that continue each other."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from kernelwright.bench.queue.runs import CHECKOUT, QUEUE, SOURCES, QueuedRun, read_queue
from kernelwright.bench.queue.slice import INTERRUPTED, QueueSlice
from kernelwright.bench.queue.state import QueueCall, RunState, RunStatus
from kernelwright.cli.checks import check_file
from kernelwright.cli.console import note, out, print_json
from kernelwright.cli.failures import INFRA_CODE, UNFINISHED_CODE
from kernelwright.cli.options import FOREVER, JsonOption, for_option, out_option
from kernelwright.core import record
from kernelwright.core.commits import named, short
from kernelwright.core.errors import UsageError
from kernelwright.core.folders import check_folder

CUT = (UNFINISHED_CODE, INTERRUPTED)
"""Exit codes of a run that the end of the time cut."""

OutOption = Annotated[
    Path, out_option("The folder of all runs of one GPU. The same command continues the runs.")
]
SliceOption = Annotated[
    float, for_option("The seconds of this slice. A run that still works then is interrupted.")
]
OnlyOption = Annotated[
    str, typer.Option(metavar="NAME,...", help="Only these runs.", show_default="all")
]
StatusOption = Annotated[bool, typer.Option("--status", help="Print the table, and run nothing.")]
AgainOption = Annotated[
    bool,
    typer.Option(
        "--again",
        help="Also measure runs of another commit again. Their old folders are moved to earlier/.",
    ),
]
KernelBenchOption = Annotated[
    Path | None, typer.Option(metavar="PATH", help="A checkout of KernelBench.")
]
TritonBenchOption = Annotated[
    Path | None, typer.Option(metavar="PATH", help="A checkout of the TritonBench repository.")
]
QueueOption = Annotated[
    Path,
    typer.Option(metavar="TOML", help="Another queue of runs.", show_default="the published runs"),
]


def command(
    folder: OutOption,
    for_s: SliceOption = FOREVER,
    status: StatusOption = False,
    only: OnlyOption = "",
    again: AgainOption = False,
    kernelbench: KernelBenchOption = None,
    tritonbench: TritonBenchOption = None,
    queue: QueueOption = QUEUE,
    json: JsonOption = False,
) -> None:
    """Run the queue of all published runs for some time, and print the state of each run.

    The exit code is 0 if no run is left that can run here, and 4 if the time ended first. The code
    is 3 if all runs that are left failed at their last call.
    """
    check_file(queue, "give a TOML file of runs")
    runs = _selected(read_queue(queue), only)
    check_folder(folder)
    call = QueueCall(
        folder=folder,
        values=_values(kernelbench=kernelbench, tritonbench=tritonbench),
        environment=record.environment(),
    )
    if status:
        _show(call.status(runs), call, json=json)
        return
    queue_slice = QueueSlice(call=call, deadline_s=time.monotonic() + for_s, again=again)
    try:
        queue_slice.run(runs, lambda name: note(f"eval all: {name}"))
    except KeyboardInterrupt:
        if not json:
            _show(call.status(runs), call, json=False)
        raise
    states = call.status(runs)
    _show(states, call, json=json)
    raise typer.Exit(_exit_code([state for state in states if queue_slice.is_wanted(state)]))


def _selected(runs: list[QueuedRun], only: str) -> list[QueuedRun]:
    """The runs that `--only` names.

    Raises:
        UsageError: there is no run of a name.
    """
    names = [name.strip() for name in only.split(",") if name.strip()]
    if unknown := sorted(set(names) - {run.name for run in runs}):
        remedy = "see the names with --status"
        raise UsageError(f"no run is called {unknown[0]}", remedy=remedy)
    return [run for run in runs if not names or run.name in names]


def _values(**checkouts: Path | None) -> dict[str, str]:
    """Name in braces -> path, for the checkouts that are there.

    Raises:
        UsageError: a path is no folder.
    """
    for name, path in checkouts.items():
        if path is not None and not path.is_dir():
            remedy = f"give a checkout: --{name} PATH"
            raise UsageError("there is no such folder", file=str(path), remedy=remedy)
    sources = {SOURCES: CHECKOUT} if (CHECKOUT / "tests" / "corpus").is_dir() else {}
    known = {**checkouts, **sources}
    return {name: str(path.absolute()) for name, path in known.items() if path is not None}


def _exit_code(left: Sequence[RunStatus]) -> int:
    """The exit code of a call.

    Args:
        left: runs that the same command would run again.
    """
    if not left:
        return 0
    return INFRA_CODE if all(map(_has_failed, left)) else UNFINISHED_CODE


def _has_failed(state: RunStatus) -> bool:
    """Whether the last call of a run ended with an error, and not with the end of the time."""
    return state.code not in (None, *CUT)


def _show(states: Sequence[RunStatus], call: QueueCall, *, json: bool) -> None:
    if json:
        print_json({"commit": call.commit, "runs": [asdict(state) for state in states]})
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("run", no_wrap=True)
    for heading in ("state", "cases", "commit", ""):
        table.add_column(heading)
    for state in states:
        shown = (_state(state), _cases(state), named(state.commits), _remark(state))
        table.add_row(state.name, *map(Text, shown))
    out.print(table)
    done = sum(state.state is RunState.DONE for state in states)
    present = short(call.commit)
    out.print(f"{done} of {len(states)} runs done; the present commit is {present}", markup=False)


def _state(state: RunStatus) -> str:
    return state.lacks if state.state is RunState.MISSING and state.lacks else state.state


def _cases(state: RunStatus) -> str:
    if state.state is RunState.MISSING:
        return ""
    return str(state.cases) if state.total is None else f"{state.cases} of {state.total}"


def _remark(state: RunStatus) -> str:
    """The remarks about a run: another commit, several GPUs, a missing checkout, a failure."""
    remarks = ["at another commit"] * state.is_other
    remarks += [f"mixed: {', '.join(state.gpus)}"] * (len(state.gpus) > 1)
    if state.state is RunState.PART:
        remarks += [state.lacks] if state.lacks else []
    if state.state is not RunState.DONE and _has_failed(state):
        remarks += [f"exit code {state.code}"]
    return "; ".join(remarks)

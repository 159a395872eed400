"""`kernelwright optimize`: make one target faster."""

import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from signal import Signals
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.checks import check_policies, check_target
from kernelwright.cli.console import note, out, print_json
from kernelwright.cli.options import (
    DEFAULT_MODE,
    BudgetOption,
    ClusterOption,
    Device,
    DeviceOption,
    EvalOption,
    JsonOption,
    LibraryOption,
    ModeOption,
    PoliciesOption,
    PrecisionOption,
    number_option,
    out_option,
)
from kernelwright.cli.result import results_table
from kernelwright.cli.signals import SIGNALLED
from kernelwright.core.folders import check_folder
from kernelwright.core.progress import OnProgress, Progress
from kernelwright.core.record import Record
from kernelwright.core.verdict import Precision
from kernelwright.deploy.place import check_place
from kernelwright.policy.names import DEFAULT
from kernelwright.report.outcome import lead
from kernelwright.report.page import render
from kernelwright.report.run import ReportedRun, read_run
from kernelwright.sandbox.host import supervised
from kernelwright.search.telling.display import displayed
from kernelwright.timing.deadline import Budget

if TYPE_CHECKING:
    from kernelwright.library.store import Library

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="A file with Model and get_inputs, a flat program, or package.module:factory.",
    ),
]
OutOption = Annotated[
    Path | None, out_option("The folder for optimized.py and report.html.", default="out/NAME")
]

DynamicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dynamic",
        metavar="INPUT:DIM[=SIZE][:LOW-HIGH]",
        help="A size that varies from call to call; may be repeated. x:0=batch:1-256, for example.",
        show_default=False,
    ),
]

ExportOption = Annotated[
    Path | None,
    typer.Option(
        "--export",
        metavar="FILE.pt2",
        help="Also write a package of AOTInductor, which runs without kernelwright.",
        show_default=False,
    ),
]

WorkersOption = Annotated[
    int | None,
    number_option(
        "Tune fragments in N processes side by side; with --cluster, in N actors.",
        default="none; in a cluster, one for each GPU",
    ),
]


def command(
    target: TargetArgument,
    folder: OutOption = None,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = DEFAULT_MODE,
    is_eval: EvalOption = True,
    budget_s: BudgetOption = 600,
    policy: PoliciesOption = DEFAULT,
    library: LibraryOption = None,
    dynamic: DynamicOption = None,
    package: ExportOption = None,
    workers: WorkersOption = None,
    cluster: ClusterOption = None,
    json: JsonOption = False,
) -> None:
    """Turn the hot parts of a PyTorch program into verified Triton kernels."""
    budget = Budget.start(budget_s)  # covers importing torch
    folder = folder or Path("out") / default_name(target)
    with ExitStack() as folders, displayed(True, in_pipes=True) as show:
        show(Progress(stage="loading", subject=target, budget_s=budget_s))
        check_target(target)
        check_folder(folder)
        check_policies(policy)
        if package is not None:
            check_place(package)
        supervised.limit_user_code(budget_s)
        from kernelwright.search.fleet import Workers
        from kernelwright.search.optimize import optimize_target
        from kernelwright.search.options import SearchOptions

        fleet = Workers(number=workers, cluster=cluster) if workers or cluster else None
        kept = _library(library, folders, is_needed=fleet is not None)
        options = SearchOptions(
            device=device.value,
            precision=precision.value,
            mode=mode.value,
            policy=policy,
            budget_s=budget_s,
            training=not is_eval,
            dynamic=tuple(dynamic or ()),
        )
        result = optimize_target(
            target, options, out=folder, budget=budget, progress=show, workers=fleet, library=kept
        )
        if package is not None and not result["interrupted_by"]:
            _export(target, folder / "optimized.py", package, result, show)
    _show(result, folder, json=json)


def _library(folder: Path | None, folders: ExitStack, *, is_needed: bool) -> "Library | None":
    """The user's library; a temporary one where workers need one: their results go through it."""
    from kernelwright.library.store import Library

    if folder is None and is_needed:
        folder = Path(folders.enter_context(TemporaryDirectory(prefix="kernelwright-")))
    return Library(folder, partial(note, style="yellow")) if folder else None


def _show(result: Record, folder: Path, *, json: bool) -> None:
    """Write the page, and print the result.

    Raises:
        typer.Exit: a signal ended the search.
    """
    render(folder / "records.jsonl", folder / "report.html")
    _note_failures(result)
    if json:
        print_json(result)
    else:
        _print(read_run(folder / "records.jsonl"), folder)
    if signal_name := result.get("interrupted_by"):
        raise typer.Exit(SIGNALLED + Signals[signal_name])


def _export(target: str, optimized: Path, package: Path, result: Record, show: OnProgress) -> None:
    """Write the package of the delivered module."""
    budget_s = result["budget"]["budget_s"]
    show(Progress(stage="exporting", subject=str(package), budget_s=budget_s))
    from kernelwright.deploy.targets import export_target
    from kernelwright.verify.judging import device_named

    options = read_run(optimized.with_name("records.jsonl")).run["options"]
    export_target(
        target,
        optimized,
        package,
        form=result["form"],
        device=device_named(options["device"]),
        training=options["training"],
        dynamic=options.get("dynamic", ()),
    )


def _note_failures(result: Record) -> None:
    """Name the models that failed, the work that the clock cut off, uncovered operators.

    The message of the outcome is printed last; a sentence that stands there is not said twice.
    """
    for failed in result["failed_sources"]:
        note(f"{failed['origin']} failed and was asked no more: {failed['message']}", "yellow")
    outcome = result["outcome"]
    for sentence in outcome["left_out"]:
        if sentence not in outcome["message"]:
            note(sentence, "yellow")
    if searched_s := result.get("searched_s"):
        date = time.strftime("%Y-%m-%d", time.gmtime(searched_s))
        note(f"from the library: the result of the search of {date}")
    elif number := result.get("num_from_library"):
        note(f"{number} fragments are as the library has them")
    if result["unknown_operators"]:
        names = ", ".join(result["unknown_operators"])
        note(f"kept in PyTorch, not in the operator table: {names}")


def _print(run: ReportedRun, folder: Path) -> None:
    """The table, the files, and the result in sentences, last."""
    out.print(results_table([run]))
    note(f"module  {folder / 'optimized.py'}\nreport  {folder / 'report.html'}")
    if sentence := lead(run):
        out.print(sentence, markup=False)
    out.print(run.result["outcome"]["message"], markup=False)


def default_name(target: str) -> str:
    """Folder name for a target: "mlp" for "models/mlp.py" and for "models:mlp"."""
    return Path(target).stem if target.endswith(".py") else target.rpartition(":")[2]

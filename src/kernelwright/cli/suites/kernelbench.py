"""`kernelwright eval kernelbench`: the public suite from a checkout, as records and a page."""

import os
import re
import time
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kernelwright.bench.bfloat16 import DTYPE, cast_tasks
from kernelwright.bench.judge.cross_check import CrossCheck
from kernelwright.bench.kernelbench import (
    KERNELS,
    TASKS,
    Place,
    find_tasks,
    place,
    with_samples,
    write_kernels,
)
from kernelwright.bench.suite import SuiteCase, SuiteRun, run_suite
from kernelwright.cli.checks import check_policies
from kernelwright.cli.console import note, out, print_json, progress, rows_table
from kernelwright.cli.options import (
    DEFAULT_MODE,
    FOREVER,
    BudgetOption,
    Device,
    DeviceOption,
    ForOption,
    JsonOption,
    ModeOption,
    PrecisionOption,
    out_option,
)
from kernelwright.cli.suites.options import CasesOption, TimeoutOption, exit_code, search_options
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.folders import check_folder
from kernelwright.core.kinds.suites import CaseLine
from kernelwright.core.progress import Say
from kernelwright.core.verdict import Precision
from kernelwright.policy.names import DEFAULT, FORMS, are_policies
from kernelwright.report.suite.page import CROSS_CHECK, LINT, PAGE, Suite, sentence, write_suite
from kernelwright.report.suite.tables import counts, means
from kernelwright.report.suite.task_sets import SETS, task_sets

LINT_BUDGET_S, LINT_TIMEOUT_S = 6.0, 120.0
LINT_JOBS = 8
"""The most processes that lint at once."""

RootOption = Annotated[Path, typer.Option(metavar="FOLDER", help="A checkout of KernelBench.")]
LevelsOption = Annotated[
    str, typer.Option("--levels", metavar="LEVELS", help="The levels to run, as 1,2,3.")
]
OutOption = Annotated[
    Path, out_option("The folder of records, kernels and page. The same command resumes the run.")
]
PolicyOption = Annotated[
    str,
    typer.Option(
        metavar="POLICY,...|FOLDER",
        help=f"The writers of the kernels, separated by commas: {FORMS}. Or a folder of kernels"
        " that are judged as they are: level_1_problem_1_sample_0_kernel.py and so on.",
    ),
]
SubsetOption = Annotated[
    str,
    typer.Option(
        metavar="|".join(SETS), help="The set of tasks to run. The page shows all three sets."
    ),
]
OnlyOption = Annotated[
    str,
    typer.Option(
        metavar="TASKS",
        help="The tasks to run, by level and number, as 1/7,2/20.",
        show_default="all",
    ),
]
AutotuneOption = Annotated[
    bool,
    typer.Option(
        "--max-autotune",
        help="Also time torch.compile with max-autotune, which takes minutes a task.",
    ),
]


class TaskDtype(StrEnum):
    """Types that tasks can be cast to."""

    BFLOAT16 = DTYPE


DtypeOption = Annotated[
    TaskDtype | None,
    typer.Option(
        "--dtype",
        help="The type that models and floating-point inputs are cast to. The levels of such tasks"
        " are named as L2-bf16.",
        show_default="as written",
    ),
]
CrossCheckOption = Annotated[
    bool,
    typer.Option(
        "--cross-check", help="Also judge the kernels by KernelBench's own evaluator, on a GPU."
    ),
]


def command(
    root: RootOption,
    levels: LevelsOption = "1,2,3",
    folder: OutOption = Path("out/kernelbench"),
    policy: PolicyOption = DEFAULT,
    subset: SubsetOption = "all",
    only: OnlyOption = "",
    max_autotune: AutotuneOption = False,
    cross_check: CrossCheckOption = False,
    dtype: DtypeOption = None,
    jobs: CasesOption = 4,
    for_s: ForOption = FOREVER,
    timeout_s: TimeoutOption = 600,
    budget_s: BudgetOption = 150,
    device: DeviceOption = Device.AUTO,
    precision: PrecisionOption = Precision.STRICT,
    mode: ModeOption = DEFAULT_MODE,
    json: JsonOption = False,
) -> None:
    """Answer every task, time it against eager PyTorch and torch.compile, and write a page.

    The exit code is 4 if the time ended before the last case, and 3 if our side failed in a case.
    Then the same command continues the run.
    """
    is_search = are_policies(policy)
    _check(root, folder, policy)
    options = search_options(device, precision, mode, budget_s)
    run = SuiteRun(
        suite="kernelbench",
        policy=policy,
        out=folder,
        options=options | {"policy": policy} if is_search else options,
        max_autotune=max_autotune,
        dtype=dtype and dtype.value,
        jobs=jobs,
        deadline_s=time.monotonic() + for_s,
        timeout_s=timeout_s,
    )
    tasks = find_tasks(root, parse_levels(levels), parse_places(only))
    cross_check = cross_check and _can_be_checked(dtype)
    with progress("eval kernelbench") as say:
        tasks = _of_subset(tasks, subset, folder / LINT, device, jobs, say)
        tasks = cast_tasks(tasks, folder / TASKS) if dtype else tasks
        cases = tasks if is_search else with_samples(tasks, Path(policy))
        left = run_suite(run, cases, say)
        write_kernels(cases, list(record.read(run.records)), run.work, folder / KERNELS)
        if cross_check:
            _cross_check(run, root, cases, say)
    if _has_case(run.records):
        _show(folder, json=json)
    raise typer.Exit(exit_code(left))


def _check(root: Path, folder: Path, policy: str) -> None:
    if not root.is_dir():
        remedy = "give a checkout of KernelBench: --root FOLDER"
        raise UsageError("there is no such folder", file=str(root), remedy=remedy)
    check_folder(folder)
    if are_policies(policy):
        check_policies(policy)


def parse_levels(text: str) -> list[int]:
    """Numbers from "1,2,3".

    Raises:
        UsageError: it is no list of numbers.
    """
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"--levels {text!r} is no list of numbers", remedy="write e.g. 1,2,3")
    return sorted({int(part) for part in parts})


def _has_case(records: Path) -> bool:
    """Whether a case of the run has a record. The time of `--for` may end before the first case."""
    return any(True for _ in record.of_kind(record.read(records), CaseLine))


def parse_places(text: str) -> list[Place]:
    """Levels and numbers from "1/7,2/20".

    Raises:
        UsageError: it is no such list.
    """
    matches = [re.fullmatch(r"\s*(\d+)/(\d+)\s*", part) for part in text.split(",") if part.strip()]
    if not all(matches):
        raise UsageError(f"--only {text!r} names no tasks", remedy="write e.g. 1/7,2/20")
    return [(int(match[1]), int(match[2])) for match in matches if match]


def _of_subset(
    tasks: list[SuiteCase], subset: str, lint: Path, device: Device, jobs: int, say: Say
) -> list[SuiteCase]:
    """The tasks to run; those without a report of the linter get one first."""
    from kernelwright.verify.linting.files import lint_files

    if subset not in SETS:
        raise UsageError(f"no subset {subset!r}", remedy=f"one of {', '.join(SETS)}")
    lint_files(
        [task.spec for task in tasks],
        device=device.value,
        budget_s=LINT_BUDGET_S,
        timeout_s=LINT_TIMEOUT_S,
        num_workers=min(max(jobs, LINT_JOBS), len(os.sched_getaffinity(0))),
        out=lint,
        say=say,
    )
    kept = task_sets({place(task) for task in tasks}, list(record.read(lint)))[subset]
    return [task for task in tasks if place(task) in kept]


def _can_be_checked(dtype: TaskDtype | None) -> bool:
    """Whether KernelBench's evaluator can judge the kernels; says why where it is skipped.

    Raises:
        UsageError: there is no GPU.
    """
    import torch

    if dtype:
        note(
            "KernelBench's own evaluator is skipped: it judges in fp32, and these tasks are cast to"
            f" {dtype.value}.",
            "yellow",
        )
        return False
    if not torch.cuda.is_available():
        raise UsageError("KernelBench's evaluator needs a GPU", remedy="leave out --cross-check")
    return True


def _cross_check(run: SuiteRun, root: Path, cases: list[SuiteCase], say: Say) -> None:
    check = CrossCheck(
        root=root, kernels=run.out / KERNELS, records=run.out / CROSS_CHECK, timeout_s=run.timeout_s
    )
    check.run(cases, say)


def _show(folder: Path, *, json: bool) -> None:
    """Write the page, and print the scores."""
    suite = write_suite(folder)
    if json:
        print_json({name: [asdict(row) for row in rows] for name, rows in suite.by_set.items()})
    else:
        _print(suite)
        note(f"kernels  {folder / KERNELS}\nreport   {folder / PAGE}")


def _print(suite: Suite) -> None:
    """The run in a sentence, geometric means and disagreements, then the counts, last."""
    scores = suite.by_set["all"]
    out.print(sentence(suite), markup=False, soft_wrap=True)
    if scores[0].against:
        out.print(rows_table(means(scores)))
    for line in suite.disagreements:
        out.print(f"KernelBench disagrees on {line}", markup=False, soft_wrap=True)
    out.print(rows_table(counts(scores, published=True)))

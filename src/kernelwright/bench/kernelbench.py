"""Reads KernelBench from a checkout of the public repository. No part of it is in this project.

Files of kernels have the names that KernelBench's scripts use, so that these scripts can read them.
"""

import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kernelwright.bench.suite import KERNEL, SLOWER, SuiteCase
from kernelwright.core.errors import UsageError
from kernelwright.core.levels import level_number
from kernelwright.core.record import Record

KERNELS = "kernels"
"""Folder beside the records: a file with `ModelNew` for every task that was answered."""
TASKS = "tasks"
"""Folder beside the records: the tasks as they were cast, where they were."""
_KERNEL_FILE = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py")

Place = tuple[int, int]
"""Level and number of a task."""


def find_tasks(
    root: Path, levels: Collection[int], only: Collection[Place] = ()
) -> list[SuiteCase]:
    """The tasks of some levels (files levelN/NUMBER_NAME.py), by level and number.

    Args:
        root: a checkout, or its folder of levels.
        only: leave out all others.

    Raises:
        UsageError: a level is not there, or nothing is left.
    """
    inner = root / "KernelBench"
    folders = [(level, (inner if inner.is_dir() else root) / f"level{level}") for level in levels]
    tasks = []
    for level, folder in sorted(folders):
        if not folder.is_dir():
            raise UsageError(
                f"no level {level} here",
                file=str(folder),
                remedy="give --root a checkout of KernelBench",
            )
        cases = [case for case in _tasks_in(folder, level) if not only or place(case) in only]
        tasks += sorted(cases, key=lambda case: case.id)
    if not tasks:
        raise UsageError("no such tasks", file=str(root), remedy="name others with --only")
    return tasks


def _tasks_in(folder: Path, level: int) -> Iterator[SuiteCase]:
    for path in folder.glob("*.py"):
        if match := re.match(r"(\d+)_", path.name):
            yield SuiteCase(level=f"L{level}", id=int(match[1]), name=path.stem, spec=str(path))


def place(case: SuiteCase) -> Place:
    """Level and number of a case's task, the same for a task that was cast to bfloat16."""
    return level_number(case.level), case.id


def with_samples(tasks: Sequence[SuiteCase], folder: Path) -> list[SuiteCase]:
    """A case for every candidate in a folder, by task and sample.

    A task without a candidate has a case whose file is missing, so that it counts as not correct.

    Raises:
        UsageError: the folder has no candidate for these tasks.
    """
    by_place = {place(task): task for task in tasks}
    samples = []
    for path in folder.glob("*.py"):
        match = _KERNEL_FILE.fullmatch(path.name)
        if match and (task := by_place.get((int(match[1]), int(match[2])))):
            samples.append(replace(task, candidate=str(path), sample=int(match[3])))
    if not samples:
        raise UsageError(
            "no kernels for these tasks",
            file=str(folder),
            remedy="name files level_N_problem_N_sample_N_kernel.py, as KernelBench does",
        )
    answered = {place(case) for case in samples}
    samples += [
        replace(task, candidate=str(folder / kernel_file(task)))
        for task in tasks
        if place(task) not in answered
    ]
    return sorted(samples, key=lambda case: (place(case), case.sample))


def write_kernels(
    tasks: Sequence[SuiteCase], lines: Sequence[Record], work: Path, out: Path
) -> list[Path]:
    """Copy every accepted `ModelNew`, kept or not, to a file with KernelBench's name.

    Args:
        lines: records of the cases.
        work: folder with the cases' files.
        out: folder for the copies.

    Returns:
        The files written. Cases whose files are missing are left out.
    """
    is_kept = {
        (line["level"], line["id"], line["sample"]): line.get("kept", True)
        for line in lines
        if line.get("correct")
    }
    written = []
    for task in tasks:
        if task.key in is_kept:
            name = KERNEL if is_kept[task.key] else SLOWER
            source = Path(task.candidate) if task.candidate else work / task.folder / name
            if not source.exists():
                continue  # the records came without the cases' files
            out.mkdir(parents=True, exist_ok=True)
            target = out / kernel_file(task)
            shutil.copyfile(source, target)
            written.append(target)
    return written


def kernel_file(case: SuiteCase) -> str:
    """The name of a case's file of kernels, as KernelBench's scripts write it."""
    level, number = place(case)
    return f"level_{level}_problem_{number}_sample_{case.sample}_kernel.py"

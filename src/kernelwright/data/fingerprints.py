"""Fingerprints of other people's tasks, so that these tasks can be left out of training.

A fingerprint is 16 hexadecimal digits. Names, sizes and text of a task are not written.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.progress import Say
from kernelwright.core.record import Record
from kernelwright.data.called import called_programs, calls_its_function
from kernelwright.data.collect.confined import confined
from kernelwright.data.collect.lowered import capture_source
from kernelwright.data.collect.outcome import Refused
from kernelwright.data.collect.sources import CollectSource
from kernelwright.programs.lowering.lower import lower
from kernelwright.synth.benchmarks import task_fingerprint


def fingerprints(paths: Sequence[Path], *, timeout_s: float, say: Say) -> Record:
    """The fingerprints of every task in these files and folders.

    Each file runs in a child process of its own.

    Args:
        timeout_s: processor time for one file.

    Returns:
        A record with "fingerprints" of programs of two calls and more, "one_call" of all others,
        and "sources": for each path its name, its number of files, how many gave tasks, and why
        the others did not.

    Raises:
        UsageError: a path holds no Python file.
    """
    torch.set_num_threads(1)  # threads do not survive the fork
    lower(torch.nn.Linear(2, 2), (torch.ones(1, 2),))  # loads what every child needs
    num_calls_of: dict[str, int] = {}
    sources: list[Record] = []
    for path in paths:
        files = _files(path)
        tasks: list[dict[str, int]] = []
        refused: Counter[str] = Counter()
        for i, file in enumerate(files):
            say(f"{path.name}: {i + 1} of {len(files)}")
            try:
                tasks.append(confined(partial(_of_file, file), timeout_s))
            except Refused as error:
                refused[error.outcome.value] += 1
        of_path = {name: num_calls for task in tasks for name, num_calls in task.items()}
        num_calls_of |= of_path
        sources.append(
            {
                "name": path.resolve().name,
                "files": len(files),
                "read": len(tasks),
                "refused": dict(sorted(refused.items())),
                "fingerprints": len(of_path),
            }
        )
    return {
        "record": "fingerprints",
        "sources": sources,
        "fingerprints": sorted(name for name, num_calls in num_calls_of.items() if num_calls > 1),
        "one_call": sorted(name for name, num_calls in num_calls_of.items() if num_calls < 2),
    }


def _files(path: Path) -> list[Path]:
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    if not files:
        raise UsageError(
            "no Python file there", file=str(path), remedy="give task files or folders of them"
        )
    return files


def _of_file(file: Path) -> Record:
    """Fingerprint -> number of calls, of the file's programs. Runs foreign code.

    Raises:
        Refused: it has none.
    """
    if calls_its_function(file.read_text(encoding="utf-8", errors="replace")):
        programs = called_programs(file)
    else:
        source = CollectSource(kind="task", name=file.name, where=str(file))
        programs = [capture_source(source).program]
    return dict(map(task_fingerprint, programs))

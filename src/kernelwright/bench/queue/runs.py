"""The runs of a queue, from a TOML file.

A table `[[run]]` has a name, a command line of kernelwright and an estimate of its time. If the
table has a table `choices`, it stands for a run for each combination of values. The names of these
runs get the keys, and the commands get the values.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from math import inf
from pathlib import Path

from kernelwright.core import strict
from kernelwright.core.errors import UsageError

QUEUE = Path(__file__).with_name("all.toml")
"""The queue of all published runs."""
CHECKOUT = Path(__file__).parents[4]
"""The checkout of kernelwright that this file is in; another folder where the package is
installed."""
LOGS, EARLIER, LOCK, SLICES = "logs", "earlier", "queue.lock", "queue.jsonl"
"""In the folder of all runs: printed results, runs that were measured again, the lock, and a record
for each call of a run."""
RESERVED = frozenset({LOGS, EARLIER, LOCK, SLICES})
SLICE_S, FOLDER, SOURCES = "for", "folder", "checkout"
"""Names in braces that every command may have: the seconds of `--for`, the folder of the run, and
the checkout of kernelwright."""
NAMES = (FOLDER, SLICE_S, "kernelbench", "tritonbench", SOURCES)
"""All names in braces that a command may have."""
_BRACES = re.compile(r"\{(\w+)\}")
_ON_GPU = ("--device", "cuda")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedRun:
    """A run of the queue, by the keys of its table in the file."""

    name: str
    """The run's folder below the folder of all runs has this name too."""
    command: str
    """Words after `kernelwright`. Names in braces stand for values of this call."""
    seconds: float
    """An estimate of the time of the whole run, in seconds."""
    case_s: float = 0.0
    """The seconds that the last case may take: so long before the end of a call, no case begins."""
    whole: bool = False
    """The run cannot be continued, so it begins only if its whole time is left."""
    ends: tuple[int, ...] = (0,)
    """The exit codes of a run that is complete."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Files to copy before the run begins: path below the folder of all runs -> path below the
    folder of this run."""
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Name in braces -> key -> value."""

    @property
    def words(self) -> list[str]:
        return shlex.split(self.command)

    @property
    def needs_gpu(self) -> bool:
        return _ON_GPU in pairwise(self.words)

    def lacks(self, values: Mapping[str, str], *, has_gpu: bool) -> str:
        """The checkout or the GPU that the run needs and this call does not have, as text; "" where
        nothing is missing.

        Args:
            values: name in braces -> value, for the names that this call knows.
        """
        known = {*values, SLICE_S, FOLDER}
        missing = [name for name in _BRACES.findall(self.command) if name not in known]
        if SOURCES in missing:
            return "needs a checkout of kernelwright"
        if missing:
            return f"needs --{missing[0]} PATH"
        return "needs a GPU" if self.needs_gpu and not has_gpu else ""

    def arguments(self, values: Mapping[str, str]) -> list[str]:
        """The words of the command with values in place of the names in braces.

        Raises:
            KeyError: a name in braces has no value (`lacks`).
        """
        return [_BRACES.sub(lambda match: values[match[1]], word) for word in self.words]


@dataclass(frozen=True, kw_only=True, slots=True)
class _QueueFile:
    run: tuple[QueuedRun, ...]


def read_queue(path: Path) -> list[QueuedRun]:
    """The runs of a file, in its order.

    Raises:
        UsageError: the file cannot be read, has unknown keys or a run that cannot be run, has no
            runs, or two runs have the same name.
    """
    entries = strict.load(path, lambda values: strict.read(_QueueFile, values)).run
    runs = [run for entry in entries for run in _combinations(entry)]
    if not runs:
        raise UsageError("the file has no runs", file=str(path), remedy="add a table [[run]]")
    for run in runs:
        if fault := _fault(run):
            raise UsageError(f"run {run.name!r}: {fault}", file=str(path), remedy="mend the run")
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two runs are called {twice}", file=str(path), remedy="rename a run")
    return runs


def _combinations(entry: QueuedRun) -> Iterator[QueuedRun]:
    for items in product(*(values.items() for values in entry.choices.values())):
        keys = dict(zip(entry.choices, (key for key, _ in items), strict=True))
        values = dict(zip(entry.choices, (value for _, value in items), strict=True))
        yield replace(
            entry,
            name=_filled(entry.name, keys),
            command=_filled(entry.command, values),
            choices={},
        )


def _fault(run: QueuedRun) -> str:
    """Why a run of the file cannot be run, as text; "" where nothing is wrong."""
    try:
        words = run.words
    except ValueError as error:
        return f"the command cannot be split into words: {error}"
    names = _BRACES.findall(run.command)
    if FOLDER not in names:
        return f"the command has no {{{FOLDER}}}, and its records would not be seen"
    if unknown := [name for name in names if name not in NAMES]:
        return f"there is no value for {{{unknown[0]}}}: there are {', '.join(NAMES)}"
    if not re.fullmatch(r"\w[\w.-]*", run.name) or run.name in RESERVED:
        return "the name is to be that of a folder, and not one of the queue's own"
    if not (0 <= run.seconds < inf and 0 <= run.case_s < inf):
        return "seconds and case_s are to be numbers from 0"
    parts = [Path(text) for text in (*run.copies, *run.copies.values())]
    if outside := [part for part in parts if part.is_absolute() or ".." in part.parts]:
        return f"copies lead out of the folder: {outside[0]}"
    return "" if words else "the command is empty"


def _filled(text: str, values: Mapping[str, str]) -> str:
    """The text with values for the names in braces that are known."""
    return _BRACES.sub(lambda match: values.get(match[1], match[0]), text)

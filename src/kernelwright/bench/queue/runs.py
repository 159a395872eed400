"""The runs of a queue, from a TOML file.

A table `[[run]]` has a name, a command line of kernelwright and an estimate of its time. A table
with `choices` describes several runs: one run for each combination of values. In the name of such
a run, keys of the values stand in place of the names in braces. In the command, the values do.
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
"""The checkout of kernelwright with this file. If the package is installed, the folder is no
checkout."""
LOGS, EARLIER, LOCK, SLICES = "logs", "earlier", "queue.lock", "queue.jsonl"
"""Names in the folder of all runs: the folder of printed results, the folder of records that a new
measurement replaced, the lock, and the file with a record for each child process."""
RESERVED = frozenset({LOGS, EARLIER, LOCK, SLICES})
"""Names that no run may have, because a run has a folder of its name."""
SLICE_S, FOLDER, SOURCES = "for", "folder", "checkout"
"""Names in braces that every command may have: the seconds of `--for`, the folder of the run, and
the checkout of kernelwright."""
NAMES = (FOLDER, SLICE_S, "kernelbench", "tritonbench", SOURCES)
"""All names in braces that a command may have."""
_BRACES = re.compile(r"\{(\w+)\}")
_ON_GPU = ("--device", "cuda")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedRun:
    """A run of the queue. Its fields are the keys of the table `[[run]]` in the file."""

    name: str
    """The name of the run, and of its folder below the folder of all runs."""
    command: str
    """The command line after `kernelwright`. Names in braces stand for values of a call."""
    seconds: float
    """An estimate of the time of the whole run, in seconds."""
    case_s: float = 0.0
    """The seconds that a case may take. No case begins later than these seconds before the end of
    the slice."""
    whole: bool = False
    """Whether the run must be measured in one piece. Such a run begins only if its whole time is
    left."""
    ends: tuple[int, ...] = (0,)
    """The exit codes of a run that is complete."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Files to copy before the run begins: path below the folder of all runs -> path below the
    folder of this run."""
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Name in braces -> key for the run's name -> value for the command."""

    @property
    def words(self) -> list[str]:
        """The words of the command, still with names in braces."""
        return shlex.split(self.command)

    @property
    def needs_gpu(self) -> bool:
        """Whether the command asks for a GPU."""
        return _ON_GPU in pairwise(self.words)

    def lacks(self, values: Mapping[str, str], *, has_gpu: bool) -> str:
        """A text about a checkout or a GPU that the run needs and this call does not have; "" if
        nothing is missing.

        Args:
            values: name in braces -> value, for the names that this call knows.
            has_gpu: whether this machine has a GPU.
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
        UsageError: the file cannot be read, or has unknown keys, an invalid run, no runs, or two
            runs of the same name.
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
    """A run for each combination of the entry's choices; the entry itself if it has no choices."""
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
    """A text about the fault of a run in the file; "" if the run has no fault."""
    try:
        words = run.words
    except ValueError as error:
        return f"the command cannot be split into words: {error}"
    names = _BRACES.findall(run.command)
    if FOLDER not in names:
        return f"the command has no {{{FOLDER}}}, so its records would be in another folder"
    if unknown := [name for name in names if name not in NAMES]:
        return f"there is no value for {{{unknown[0]}}}: there are {', '.join(NAMES)}"
    if not re.fullmatch(r"\w[\w.-]*", run.name) or run.name in RESERVED:
        return "the name must be a name of a folder that the queue itself does not use"
    if not (0 <= run.seconds < inf and 0 <= run.case_s < inf):
        return "seconds and case_s must be finite numbers from 0"
    parts = [Path(text) for text in (*run.copies, *run.copies.values())]
    if outside := [part for part in parts if part.is_absolute() or ".." in part.parts]:
        return f"copies lead out of the folder: {outside[0]}"
    return "" if words else "the command is empty"


def _filled(text: str, values: Mapping[str, str]) -> str:
    """The text with values in place of names in braces. Names without a value stay."""
    return _BRACES.sub(lambda match: values.get(match[1], match[0]), text)

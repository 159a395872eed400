"""The tasks of a TritonBench checkout (https://github.com/thunlp/TritonBench).

A task is a file. The file defines functions, and tests call these functions below a ruler: a line
of the character #. The text above the ruler is the golden code. Channel T has PyTorch functions,
channel G has Triton kernels with their wrappers. Our records keep no text of these files.
"""

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelwright.core.errors import UsageError
from kernelwright.core.seed import derive
from kernelwright.core.text import read_text
from kernelwright.data.called import halves

REMEDY = "give --root the path of a checkout of TritonBench"


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchFile:
    """A task: one file of a channel."""

    channel: str
    """"T" or "G"."""
    id: int
    """The place of the file in the order of names, from 1."""
    name: str
    """The file's name with its ending."""
    text: str

    @property
    def stem(self) -> str:
        """The file's name without its ending. Records name the task so."""
        return self.name.removesuffix(".py")

    @property
    def golden(self) -> str:
        """The golden code: the text above the ruler."""
        return halves(self.text)[0]

    @property
    def tail(self) -> str:
        """The tests below the ruler."""
        return halves(self.text)[1]

    @property
    def fault(self) -> str | None:
        """The reason why the file is no task; None if the file is a task."""
        above, below = halves(self.text)
        if not below.strip():
            return "no tests: there is no line of #s, or nothing below it"
        for part in (above, below):
            try:
                ast.parse(part)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                return f"not Python: {getattr(error, 'msg', error)}"
        return None


class Checkout:
    """A channel of a checkout of the public repository.

    Args:
        root: the folder of the checkout.
        channel: "T" or "G".

    Raises:
        UsageError: the checkout has no folder of this channel.
    """

    def __init__(self, root: Path, channel: str) -> None:
        self._data, self.channel = root / "data", channel
        self.folder = self._data / f"TritonBench_{channel}_v1"
        if not self.folder.is_dir():
            raise UsageError(
                f"there is no {self.folder.relative_to(root)}", file=str(root), remedy=REMEDY
            )

    @cached_property
    def files(self) -> tuple[BenchFile, ...]:
        """All tasks, in the order of names.

        Bytes that are no UTF-8 are replaced. In code such a byte makes the file a fault
        (`BenchFile.fault`); in a comment it does no harm.

        Raises:
            UsageError: the folder has no files.
        """
        paths = sorted(self.folder.glob("*.py"))
        if not paths:
            raise UsageError("no tasks here", file=str(self.folder), remedy=REMEDY)
        return tuple(
            BenchFile(
                channel=self.channel,
                id=number,
                name=path.name,
                text=path.read_text(encoding="utf-8", errors="replace"),
            )
            for number, path in enumerate(paths, 1)
        )

    def selected(self, limit: int | None) -> tuple[BenchFile, ...]:
        """At most `limit` tasks, in the order of names. The draw is fixed: a larger limit keeps the
        tasks of a smaller limit, and adds tasks."""
        drawn = sorted(self.files, key=lambda file: derive(0, "tritonbench", file.name))[:limit]
        return tuple(sorted(drawn, key=lambda file: file.id))

    @cached_property
    def about(self) -> list[dict[str, Any]]:
        """The benchmark's own facts about the tasks of the channel, an object for each task.

        Raises:
            UsageError: the file of facts is missing, or is no list of objects.
        """
        ending = "jsonl" if self.channel == "T" else "json"  # both files are one JSON list
        return _objects(self._data / f"TritonBench_{self.channel}_v1.{ending}")

    def instructions(self, kind: str) -> dict[str, str]:
        """File's name -> the benchmark's instruction for it.

        Args:
            kind: "simp" or "comp".

        Raises:
            UsageError: the file of instructions is missing, or is no list of objects.
        """
        path = self._data / f"TritonBench_{self.channel}_{kind}_alpac_v1.json"
        items = _objects(path)
        names = (
            names_of_labels(self.about, [text_of(item, "output") for item in items])
            if self.channel == "G"
            else names_of_instructions(self.about, [text_of(item, "instruction") for item in items])
        )
        return {
            name: "\n".join(filter(None, (text_of(item, "instruction"), text_of(item, "input"))))
            for name, item in zip(names, items, strict=True)
            if name is not None
        }


def names_of_labels(about: Sequence[dict[str, Any]], labels: Iterable[str]) -> list[str | None]:
    """For each label, the name of the file with this golden text; None if no file fits.

    A label may be cut off at its end. If several files have the same text, each file is used once.
    If exactly one label and one file are left at the end, they belong together: some runs have a
    label in other words.

    Args:
        about: `Checkout.about`.
        labels: golden texts, as model runs record them.
    """
    left = [(_squeezed(text_of(item, "output")), text_of(item, "file")) for item in about]
    wanted = [_squeezed(label) for label in labels]
    names: list[str | None] = [None] * len(wanted)
    # Equal texts go first. A label that was cut off could else take the file of an equal label.
    for is_equal in (True, False):
        for number, label in enumerate(wanted):
            if names[number] is not None or not label:
                continue
            hits = [x for x in left if (x[0] == label if is_equal else x[0].startswith(label))]
            if hits and (is_equal or len(hits) == 1):
                names[number] = hits[0][1]
                left.remove(hits[0])
    if len(left) == 1 and names.count(None) == 1:
        names[names.index(None)] = left[0][1]
    return names


def names_of_instructions(
    about: Sequence[dict[str, Any]], instructions: Iterable[str]
) -> list[str | None]:
    """For each instruction, the name of the file whose description the instruction contains.

    The longest description counts. The name is None if no file fits, or several files fit.

    Args:
        about: `Checkout.about`.
    """
    by_text = [(_squeezed(text_of(item, "description")), text_of(item, "file")) for item in about]
    names: list[str | None] = []
    for instruction in instructions:
        text = _squeezed(instruction)
        hits = [hit for hit in by_text if hit[0] and hit[0] in text]
        longest = max((len(description) for description, _ in hits), default=0)
        best = {name for description, name in hits if len(description) == longest}
        names.append(best.pop() if len(best) == 1 else None)
    return names


def _squeezed(text: str) -> str:
    """The text without white space, in which copies of a text may differ."""
    return "".join(text.split())


def text_of(item: Mapping[str, Any], key: str) -> str:
    """The text of a field; "" if the field has none."""
    value = item.get(key, "")
    return value if isinstance(value, str) else ""


def _objects(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON list.

    Raises:
        UsageError: the file is missing, or is no list of objects.
    """
    if not path.is_file():
        raise UsageError("there is no such file", file=str(path), remedy=REMEDY)
    try:
        values = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"not JSON: {error}", file=str(path), remedy=REMEDY) from error
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise UsageError("not a list of objects", file=str(path), remedy=REMEDY)
    return values

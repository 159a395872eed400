"""Predicted files for the tasks of a channel: a folder of FILE.py, or JSONL as models' runs have.

A file of a folder may have the tests of its task below a line of #s, as the benchmark's scripts
write files. The text above counts. A line of JSONL has the model's text in "predict" and names its
task by "instruction" or "prompt" (channel T), or by "label", the golden text (channel G).
"""

import re
from collections.abc import Mapping
from pathlib import Path

from kernelwright.bench.tritonbench.checkout import (
    Checkout,
    names_of_instructions,
    names_of_labels,
)
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.data.called import halves

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_END_MARK = re.compile(r"<\|(?:im_end|EOT)\|>|</s>")
"""Marks of a model's template that some runs keep."""
_DESCRIPTION = "Functional Description:"
"""Prompts with examples have several; the last one is the task's."""


def read_predictions(path: Path, checkout: Checkout) -> Mapping[str, str]:
    """File's name -> the predicted code.

    Raises:
        UsageError: there is nothing to read, or nothing that belongs to a task.
    """
    if path.is_dir():
        predictions = {file.name: _source(file) for file in sorted(path.glob("*.py"))}
    elif path.is_file():
        predictions = _of_lines(path, checkout)
    else:
        raise UsageError(
            "no such folder or file",
            file=str(path),
            remedy="give a folder of FILE.py, or a JSONL file of a model's answers",
        )
    if predictions.keys().isdisjoint(file.name for file in checkout.files):
        raise UsageError(
            f"no prediction for a task of channel {checkout.channel}",
            file=str(path),
            remedy="name the files as the tasks are named, or give the other --channel",
        )
    return predictions


def _source(file: Path) -> str:
    return halves(file.read_text(encoding="utf-8", errors="replace"))[0]


def _of_lines(path: Path, checkout: Checkout) -> dict[str, str]:
    lines = list(record.read(path))
    if not all(isinstance(line.get("predict"), str) for line in lines):
        raise UsageError('a line has no text "predict"', file=str(path))
    if checkout.channel == "G":
        names = names_of_labels(checkout.about, [_unmarked(_field(x, "label")) for x in lines])
    else:
        names = names_of_instructions(checkout.about, map(_instruction, lines))
    return {
        name: code_of(line["predict"])
        for name, line in zip(names, lines, strict=True)
        if name is not None
    }


def _instruction(line: Record) -> str:
    text = _field(line, "instruction") or _field(line, "prompt")
    return text.rpartition(_DESCRIPTION)[2]


def _field(line: Record, key: str) -> str:
    value = line.get(key)
    return value if isinstance(value, str) else ""


def code_of(text: str) -> str:
    """The last block of code of a model's answer, or the text where there is no fence."""
    text = _unmarked(text)
    blocks = _FENCE.findall(text)
    return str(blocks[-1]) if blocks else text


def _unmarked(text: str) -> str:
    return _END_MARK.sub("", text)

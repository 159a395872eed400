"""Reads predicted code for the tasks of a channel: a folder of FILE.py, or a JSONL file of a
model's answers.

A file of a folder may have the tests of its task below a ruler, because the benchmark's scripts
write such files. Only the text above the ruler counts. A line of JSONL has the model's text in
"predict". The task is named by "instruction" or "prompt" (channel T), or by "label", the golden
text (channel G).
"""

import re
from collections.abc import Mapping
from pathlib import Path

from kernelwright.bench.tritonbench.checkout import (
    Checkout,
    names_of_instructions,
    names_of_labels,
    text_of,
)
from kernelwright.core import record
from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.data.called import halves

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_END_MARK = re.compile(r"<\|(?:im_end|EOT)\|>|</s>")
"""Marks of a model's template that some runs keep."""
_DESCRIPTION = "Functional Description:"
"""The heading of a description. A prompt with examples has several descriptions. The last
description is of the task."""


def read_predictions(path: Path, checkout: Checkout) -> Mapping[str, str]:
    """File's name -> the predicted code.

    Raises:
        UsageError: the path does not exist, a line has no text "predict", or no prediction belongs
            to a task of the channel.
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
            remedy="give the files the names of the tasks, or give the other --channel",
        )
    return predictions


def _source(file: Path) -> str:
    return halves(file.read_text(encoding="utf-8", errors="replace"))[0]


def _of_lines(path: Path, checkout: Checkout) -> dict[str, str]:
    lines = list(record.read(path))
    if not all(isinstance(line.get("predict"), str) for line in lines):
        raise UsageError('a line has no text "predict"', file=str(path))
    if checkout.channel == "G":
        names = names_of_labels(checkout.about, [_unmarked(text_of(x, "label")) for x in lines])
    else:
        names = names_of_instructions(checkout.about, map(_instruction, lines))
    return {
        name: code_of(line["predict"])
        for name, line in zip(names, lines, strict=True)
        if name is not None
    }


def _instruction(line: Record) -> str:
    text = text_of(line, "instruction") or text_of(line, "prompt")
    return text.rpartition(_DESCRIPTION)[2]


def code_of(text: str) -> str:
    """The last fenced block of code in a model's answer; the whole text if there is no fence."""
    text = _unmarked(text)
    blocks = _FENCE.findall(text)
    return str(blocks[-1]) if blocks else text


def _unmarked(text: str) -> str:
    return _END_MARK.sub("", text)

"""Programs of files that define a function and, below a line of #s, call it: TritonBench's form.

Each call is lowered with the arguments it has.
"""

import ast
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.errors import KernelwrightError
from kernelwright.data.collect.outcome import CollectOutcome, Refused
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Program

_RULER = "\n" + "#" * 40
"""Begins the line between the function and its calls."""


def calls_its_function(text: str) -> bool:
    """Whether a file has this form."""
    return _RULER in text


def halves(text: str) -> tuple[str, str]:
    """The text above the line of #s, and that line with the text below; "" where there is none."""
    above, ruler, below = text.partition(_RULER)
    return above, ruler.removeprefix("\n") + below


def called_programs(file: Path) -> list[Program]:
    """One program for each call of the file's function that can be lowered.

    Runs foreign code. The text "cuda" becomes "cpu" before, since no GPU is needed.

    Raises:
        Refused: the file cannot be run, or no call can be lowered.
    """
    text = file.read_text(encoding="utf-8", errors="replace").replace("cuda", "cpu")
    above, below = halves(text)
    space: dict[str, Any] = {"__name__": file.stem}
    try:
        name = _function_name(ast.parse(above), file.stem)
        exec(compile(above, file.name, "exec"), space)
        recorder = space[name] = _CallRecorder(space[name])
    except (Exception, SystemExit) as error:
        raise Refused(CollectOutcome.IMPORT_FAILED, error) from error
    with suppress(Exception, SystemExit):  # what was called until then counts
        exec(compile(below, file.name, "exec"), space)
    if not recorder.programs:
        why = recorder.failures[0] if recorder.failures else f"{name} is never called"
        raise Refused(CollectOutcome.NOT_CAPTURED, why)
    return recorder.programs


def _function_name(tree: ast.Module, wanted: str) -> str:
    """The function named as its file, or the last one."""
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not names:
        raise ValueError("it defines no function")
    return wanted if wanted in names else names[-1]


class _CallRecorder:
    """Replaces a function: lowers each call, then makes it. Later calls may need its result."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.programs: list[Program] = []
        self.failures: list[Exception] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            self.programs.append(lower(FunctionModule(self.function), args, kwargs).program)
        except (KernelwrightError, RuntimeError, ValueError, TypeError) as error:
            self.failures.append(error)
        return self.function(*args, **kwargs)


class FunctionModule(torch.nn.Module):
    """A function as a module, which is what can be lowered."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

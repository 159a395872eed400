"""One architecture through lowering, forms, proposals, text and writing, as a record.

Nothing is searched and no kernel is written: these are the stages before the first candidate.
"""

import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

from kernelwright.core.errors import UsageError
from kernelwright.core.record import Record
from kernelwright.programs.fragments.compose import compose
from kernelwright.programs.fragments.partition import propose
from kernelwright.programs.lowering import lower as lowering
from kernelwright.programs.lowering.lower import Lowered
from kernelwright.programs.reference import run
from kernelwright.programs.text import parse, to_text
from kernelwright.search.forms import forms
from kernelwright.search.module.emit import factory_file
from kernelwright.search.module.guards import LoweredModule
from kernelwright.teacher.writer import family
from tools.architectures.architecture import Architecture, Example

TOLERANCE = 1e-4
"""The tolerance of a result, on the scale of its largest element: eager may fuse what the program
spells out."""
MAX_MESSAGE = 300
PROPOSING_S = 4.0
"""Seconds on the clock for the proposals of a case: a search stops looking after a share of its
budget too, so the suite need not wait for the end."""

Report = Callable[[Record], None]


def measure(architecture: Architecture, report: Report) -> None:
    """Call `report` with the record so far after each stage; the last call has all of it.

    The record's status is "lowered", "refused" (a `UsageError`), "crash" (any other exception of
    ours, at any stage) or "unbuilt" (the library does not run the model itself). Seconds are of
    CPU time.
    """
    case: Record = {"name": architecture.name, "family": architecture.family, "status": "unbuilt"}
    case |= {"stage": "build", "cpu_s": {}}
    report(case)
    try:
        example = architecture.build()
        wanted = _eager(example)
    except Exception as error:  # the library's own
        report(case | {"message": _text(error)})
        return
    stages = _Stages(case, report)
    try:
        _through(example, wanted, stages)
    except UsageError as error:
        place = None if error.file is None else f"{_short(error.file)}:{error.line}"
        failure = {"message": _text(error), "place": place, "remedy": error.remedy}
        report(stages.record | {"status": "refused"} | failure)
    except Exception as error:  # a crash is what the suite looks for
        failure = {"message": f"{type(error).__name__}: {_text(error)}", "place": _raised_at(error)}
        report(stages.record | {"status": "crash"} | failure)


class _Stages:
    """The record of one case while its stages run."""

    def __init__(self, record: Record, report: Report) -> None:
        self.record, self._report = dict(record), report

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Name the stage that runs, and add its CPU seconds afterwards."""
        self.record["stage"] = name
        self._report(self.record)
        begin_s = time.process_time()
        try:
            yield
        finally:
            spent_s = round(time.process_time() - begin_s, 2)
            self.record["cpu_s"] = {**self.record["cpu_s"], name: spent_s}

    def add(self, **facts: Any) -> None:
        self.record |= facts
        self._report(self.record)


def _through(example: Example, wanted: Any, stages: _Stages) -> None:
    """Run every stage.

    Raises:
        UsageError: the module is refused.
        Exception: anything else is a defect of ours.
    """
    args, kwargs = copy.deepcopy((example.args, dict(example.kwargs)))
    with stages("lower"), _timed(lowering, "export", stages):
        lowered = lowering.lower(example.module, args, kwargs)
    program = lowered.program
    extern = Counter(call.op for call in program.calls if call.is_extern)
    stages.add(status="lowered", calls=len(program.calls), extern=dict(sorted(extern.items())))
    with stages("text"):
        stages.add(round_trip=parse(to_text(program)) == program)
    with stages("run"):
        stages.add(same_numbers=_is_same(_leaves(_results(lowered, example)), _leaves(wanted)))
    with stages("write"):
        stages.add(unwritten=_unwritten(lowered, example.module))
    with stages("forms"):
        every = forms(program, on_gpu=False, at_other_sizes=True)
    with stages("proposals"):
        proposed = propose(every[0].program, family, for_s=PROPOSING_S)
    covered = frozenset().union(*proposed)
    stages.add(forms=len(every), fragments=len(proposed), covered=len(covered), stage="done")


@contextmanager
def _timed(module: Any, function: str, stages: _Stages) -> Iterator[None]:
    """Count the CPU seconds of one function of a module apart."""
    original = getattr(module, function)

    def timed(*args: Any, **kwargs: Any) -> Any:
        begin_s = time.process_time()
        try:
            return original(*args, **kwargs)
        finally:
            spent_s = round(time.process_time() - begin_s, 2)
            stages.record["cpu_s"] = {**stages.record["cpu_s"], function: spent_s}

    setattr(module, function, timed)
    try:
        yield
    finally:
        setattr(module, function, original)


def _eager(example: Example) -> Any:
    """The module's result and its inputs after the call; the example's own inputs stay as they are.

    A decode step changes the cache that it is given.
    """
    args, kwargs = copy.deepcopy((example.args, dict(example.kwargs)))
    with torch.no_grad():
        result = example.module(*args, **kwargs)
    return result, args, kwargs


def _results(lowered: Lowered, example: Example) -> Any:
    """The program's result and its inputs after the call, as `_eager`'s."""
    args, kwargs = copy.deepcopy((example.args, dict(example.kwargs)))
    outputs = run(lowered.program, lowered.gather(example.module, args, kwargs))
    return lowered.rebuild(outputs, args, kwargs), args, kwargs


def _leaves(result: Any) -> list[Any]:
    """The tensors in a result. Caches are trees only after a capture has made them so."""
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _is_same(results: list[Any], wanted: list[Any]) -> bool:
    return len(results) == len(wanted) and all(map(_is_close, results, wanted))


def _is_close(result: torch.Tensor, wanted: torch.Tensor) -> bool:
    if result.shape != wanted.shape or result.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return torch.equal(result, wanted)
    scale = wanted.nan_to_num().abs().amax().item() if wanted.numel() else 0.0
    tolerance = TOLERANCE * (1 + scale)
    return torch.allclose(result, wanted, rtol=TOLERANCE, atol=tolerance, equal_nan=True)


def _unwritten(lowered: Lowered, module: torch.nn.Module) -> str | None:
    """Why `optimized.py` cannot be written; None where it can."""
    composed = compose(lowered.program, []).source
    traced = LoweredModule(module=module, lowered=lowered, is_for_one_mode=False)
    try:
        factory_file("models:build", traced, composed)
    except UsageError as error:
        return error.message
    return None


def _text(error: BaseException) -> str:
    """The error's message on one line, cut off where it is long."""
    message = error.message if isinstance(error, UsageError) else str(error)
    return " ".join(message.split())[:MAX_MESSAGE]


def _raised_at(error: BaseException) -> str | None:
    """File and line of our code where an error was raised."""
    place, trace = None, error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "kernelwright" in Path(file).parts:
            place = f"{_short(file)}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _short(file: str) -> str:
    """A path from the package on, so that records do not name places on a machine."""
    parts = Path(file).parts
    for folder in ("site-packages", "src"):
        if folder in parts:
            return "/".join(parts[len(parts) - parts[::-1].index(folder) :])
    return Path(file).name if Path(file).is_absolute() else file

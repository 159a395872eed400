"""Turns a module class into a program: constructs it, calls it, captures it. This is first tried on
the meta device, which needs no memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.core.errors import UsageError
from kernelwright.data.collect import construct, inputs
from kernelwright.data.collect.outcome import CollectOutcome, Refused
from kernelwright.data.collect.sources import CollectSource
from kernelwright.programs.lowering.lower import lower
from kernelwright.programs.program import Program
from kernelwright.verify.tasks.load import load_factory, load_task
from kernelwright.verify.tasks.module_task import ModuleTask
from kernelwright.verify.tasks.program_task import ProgramTask
from kernelwright.verify.tasks.task import CPU

PLACES = (("meta", "meta"), ("cpu", "meta"), ("cpu", "cpu"))
"""Where a module is constructed and where it is called. Constructors read values of tensors (the
rates of stochastic depth, say) more often than forwards do."""
_MAX_REAL_TRIES = 30
"""Sets of inputs with memory: each is a whole forward."""
_MAX_CAPTURES = 2
"""Sets of inputs that the module takes but torch.export does not, after which it is given up."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Captured:
    """A program, and the arguments and inputs that it was captured with."""

    program: Program
    arguments: str = ""
    """The arguments of the constructor, as text."""
    inputs: str = ""
    """The inputs of the call, as text."""


def capture_source(source: CollectSource) -> Captured:
    """The program of a task's file or of a factory, at its own sizes.

    Raises:
        Refused: the task cannot be loaded or captured.
    """
    try:
        if source.kind == "factory":
            return Captured(program=lower(*load_factory(source.where)).program)
        task = load_task(Path(source.where), torch.device("meta"))
        if isinstance(task, ProgramTask):
            return Captured(program=task.program)
        if isinstance(task, ModuleTask):
            return Captured(program=_of_task(task))
    except UsageError as error:
        raise Refused(CollectOutcome.NOT_CAPTURED, error.message) from error
    raise Refused(CollectOutcome.NOT_CAPTURED, "fused_operator is more than a flat program")


def _of_task(task: ModuleTask) -> Program:
    """The program of a task at its own sizes, captured on the meta device if possible."""
    try:
        with torch.device("meta"):
            return lower(task.build(), tuple(task.get_inputs())).program
    except UsageError:
        return lower(task.module(CPU), tuple(task.draw(0, CPU))).program


def capture_class(cls: type[nn.Module]) -> Captured:
    """The program of a module class, with guessed arguments and inputs.

    Raises:
        Refused: no guess worked. The outcome is that of the attempt that came furthest.
    """
    if cls.forward is nn.Module.forward or getattr(cls, "__abstractmethods__", None):
        raise Refused(CollectOutcome.NO_FORWARD)
    if unknown := construct.unknown_parameters(cls):
        raise Refused(CollectOutcome.NOT_CONSTRUCTED, f"no rule for {', '.join(unknown)}")
    refusals = []
    for built_on, called_on in PLACES:
        try:
            return _capture_at(cls, built_on, called_on)
        except Refused as refused:
            refusals.append(refused)
    raise _furthest(refusals)


_STEPS = (
    CollectOutcome.NOT_CONSTRUCTED,
    CollectOutcome.NO_INPUTS,
    CollectOutcome.NO_FORWARD,
    CollectOutcome.NOT_CAPTURED,
)


def _furthest(refusals: list[Refused]) -> Refused:
    """The refusal of the attempt that came furthest; of several the first, the likeliest guess."""
    if not refusals:
        return Refused(CollectOutcome.NOT_CONSTRUCTED, "nothing to try")
    return max(refusals, key=lambda refused: _STEPS.index(refused.outcome))


def _capture_at(cls: type[nn.Module], built_on: str, called_on: str) -> Captured:
    with torch.device(built_on):
        attempts = list(construct.arguments_for(cls))
    refusals = []
    for arguments in attempts:
        try:
            program, example = _capture(_built(cls, arguments, built_on).to(called_on), called_on)
            return Captured(
                program=program,
                arguments=construct.spelled(arguments),
                inputs=inputs.spelled(example),
            )
        except Refused as refused:
            refusals.append(refused)
    raise _furthest(refusals)


def _built(cls: type[nn.Module], arguments: construct.Arguments, device: str) -> nn.Module:
    try:
        with torch.device(device):
            return cls(**arguments).eval()
    except Exception as error:  # foreign constructors raise anything
        raise Refused(CollectOutcome.NOT_CONSTRUCTED, error) from error


def _capture(module: nn.Module, device: str) -> tuple[Program, inputs.Example]:
    refusals, captures = [], 0
    for number, example in enumerate(_examples(module)):
        if device != "meta" and number == _MAX_REAL_TRIES:
            break
        try:
            args, kwargs = _arguments(inputs.made(example, device))
            _try_call(module, args, kwargs, device)
        except Exception as error:  # so do foreign forwards
            is_missing = isinstance(error, NotImplementedError) and not str(error)
            outcome = CollectOutcome.NO_FORWARD if is_missing else CollectOutcome.NO_INPUTS
            refusals.append(Refused(outcome, error))
            continue
        try:
            with torch.device(device):
                return lower(module, args, kwargs).program, example
        except UsageError as error:
            refusals.append(Refused(CollectOutcome.NOT_CAPTURED, error.message))
            captures += 1
            if captures == _MAX_CAPTURES:
                break
    raise _furthest(refusals)


def _examples(module: nn.Module) -> Iterator[inputs.Example]:
    try:
        yield from inputs.examples_for(module)
    except (TypeError, ValueError) as error:  # a forward without a signature
        raise Refused(CollectOutcome.NO_INPUTS, error) from error


def _arguments(example: inputs.Example) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The positional and named arguments of a call: `*` by position, all others by name."""
    rest = {name: value for name, value in example.items() if name != "*"}
    return ((example["*"],), rest) if "*" in example else ((), rest)


def _try_call(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], device: str
) -> None:
    """Call the module, and let its errors through.

    An error because meta tensors have no values is ignored. While a library is traced it may skip
    the check that reads values, so the module may still be captured.
    """
    try:
        with torch.no_grad(), torch.device(device):
            module(*args, **kwargs)
    except RuntimeError as error:
        if "meta tensor" not in str(error):
            raise

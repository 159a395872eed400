"""A second look at outputs that are wrong by little, or in few elements: is it rounding?

**Magnified.** The bound is the reference's own error, and that is one draw: where few elements
carry the answer (a scalar, an exponential of outliers) it can be near zero by luck, or because
PyTorch computes a part in float64 (batch statistics on a CPU). So inputs and what each operator
makes are moved by an ulp, several times where few elements count, and what that makes of the fp64
answer is allowed too.

**Decided.** A comparison, a floor or an argmax makes of one ulp another element altogether. So what
each operator makes is rounded otherwise, many times; an element that this changes is not settled by
the task, and is not held against a candidate. Inputs are not moved here: what is decided by them
alone is decided for everybody, `<` and `<=` among it.
"""

from dataclasses import replace
from typing import Any

import torch

from kernelwright.core.verdict import Code, ErrorFigures
from kernelwright.verify.compare import (
    Expected,
    Precision,
    Tensors,
    compare,
    effective_count,
    relative_errors,
    share_of_allowed,
)
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import WrongOutputs
from kernelwright.verify.task import Task

CLOSE = 16.0
"""Errors up to this many times the bound get a second look."""
NUDGES = 8
"""For an answer that one element carries; fewer for more."""
FEW_NUDGES, SMALL = 4, 1 << 20
"""At least so many where answers have no more elements than this: they cost nothing, and many
elements may owe their errors to few (a channel of a batch that hardly varies)."""
MOST_OFF = 1 / 50
"""Share of an output's elements, one at least, that may be off if roundings are to explain it."""
MOST_UNSETTLED = 0.5
"""Share of an output's elements: where rounding decides more, too little is left to judge."""
MOST_ROUNDINGS, FEW_ROUNDINGS = 32, 4
"""Each changes about half of the elements that rounding decides. The first few must explain half of
those that are off, or the rest is not tried."""
MOST_ELEMENTS = 1 << 26
"""Of all outputs, for which elements are looked at one by one: half a GiB in float64."""


def look_again(
    wrong: WrongOutputs,
    task: Task,
    inputs: list[Any],
    seed: int,
    outputs: Tensors,
    expected: Expected,
    rules: Rules,
) -> ErrorFigures | None:
    """The error figures of outputs that rounding explains.

    Raises:
        WrongOutputs: it does not.
    """
    if wrong.code is not Code.WRONG_VALUES or rules.precision is Precision.KERNELBENCH:
        raise wrong  # that policy knows no such thing
    if is_close(wrong.errors):
        expected = tolerant(task, inputs, seed, expected, rules)
        try:
            return _compared(outputs, expected, rules)
        except WrongOutputs as still:
            wrong = still
    limit = wrong.errors.max_allowed if wrong.errors is not None else 0.0
    unsettled = _unsettled(task, inputs, seed, outputs, expected, limit, rules.device)
    if unsettled is None:
        raise wrong
    return _compared(_as_reference(outputs, expected.native, unsettled), expected, rules)


def is_close(errors: ErrorFigures | None) -> bool:
    """They may be rounding that was magnified."""
    return errors is not None and share_of_allowed(errors) <= CLOSE


def tolerant(
    task: Task, inputs: list[Any], seed: int, expected: Expected, rules: Rules
) -> Expected:
    """The same expectation, allowing what an ulp in inputs and results of operators does."""
    floats = [output for output in expected.oracle if output.is_floating_point()]
    fewest = min(map(effective_count, floats), default=1.0)
    least = FEW_NUDGES if sum(output.numel() for output in floats) <= SMALL else 1
    nudged = tuple(
        task.nudged(inputs, seed, rules.device, number)
        for number in range(max(least, round(NUDGES / max(fewest, 1.0))))
    )
    return replace(expected, tolerated=(*expected.tolerated, *nudged))


def _compared(outputs: Tensors, expected: Expected, rules: Rules) -> ErrorFigures | None:
    comparison = compare(outputs, expected, rules.precision)
    if comparison.mismatch is not None:
        raise WrongOutputs(comparison.mismatch.code, comparison.mismatch.message, comparison.errors)
    return comparison.errors


def _unsettled(
    task: Task,
    inputs: list[Any],
    seed: int,
    outputs: Tensors,
    expected: Expected,
    limit: float,
    device: torch.device,
) -> list[torch.Tensor] | None:
    """The elements of each output that rounding moves beyond the limit, once all that are off are
    among them; None where they are not."""
    if sum(output.numel() for output in outputs) > MOST_ELEMENTS:
        return None
    oracle = tuple(each.to(device) for each in expected.oracle)
    off = [
        mine if wanted.is_floating_point() else mine & (output != native)
        for mine, output, native, wanted in zip(
            _beyond(outputs, oracle, limit), outputs, expected.native, oracle, strict=True
        )
    ]
    num_off = _count(off)
    if not num_off or any(int(each.sum()) > max(1, MOST_OFF * each.numel()) for each in off):
        return None
    found = _beyond(expected.native, oracle, limit)
    for number in range(MOST_ROUNDINGS):
        other = task.rounded_otherwise(inputs, seed, device, number)
        found = [a | b for a, b in zip(found, _beyond(other, oracle, limit), strict=True)]
        num_left = _count([mine & ~every for mine, every in zip(off, found, strict=True)])
        if not num_left:
            is_judged = all(int(each.sum()) <= MOST_UNSETTLED * each.numel() for each in found)
            return found if is_judged else None
        if number + 1 == FEW_ROUNDINGS and num_left > num_off / 2:
            return None
    return None


def _beyond(answers: Tensors, oracle: Tensors, limit: float) -> list[torch.Tensor]:
    """Elements that are another whole number, or further off than the limit."""
    return [
        relative_errors(answer, wanted) > limit if wanted.is_floating_point() else answer != wanted
        for answer, wanted in zip(answers, oracle, strict=True)
    ]


def _count(masks: list[torch.Tensor]) -> int:
    return sum(int(mask.sum()) for mask in masks)


def _as_reference(outputs: Tensors, native: Tensors, unsettled: list[torch.Tensor]) -> Tensors:
    """Outputs with the reference's own elements where nothing is settled. What lies outside of all
    that the reference returns stays, NaN among it."""

    def settled(output: torch.Tensor, own: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if output.numel() and output.dtype is not torch.bool:
            mask = mask & (output >= own.amin()) & (output <= own.amax())
        return torch.where(mask, own, output)

    return tuple(map(settled, outputs, native, unsettled))

"""A second look at outputs that are wrong by little, or in few elements: is it rounding?

**Magnified.** The bound is the reference's own error, a single random sample. Where few elements
carry the answer (a scalar, an exponential of outliers), that error can be near zero by luck.
PyTorch may also compute a part in float64 (batch statistics on a CPU). So the fp64 answer is also
computed with inputs and operator results moved by an ulp, several times where few elements carry
the answer. The changes of the answer raise the bound.

**Decided.** A change of one ulp can flip a comparison, a floor or an argmax. So the reference is
run many times with other roundings of operator results. A wrong element is excused where these
runs explain its value (`decided.py`). Inputs stay unchanged and equal values stay equal, so that
a candidate must still decide comparisons of inputs right (`<` is not `<=`).
"""

from dataclasses import dataclass, replace
from typing import Any

import torch

from kernelwright.core.errors import UsageError
from kernelwright.core.verdict import Code, ErrorFigures, Precision
from kernelwright.verify import checks
from kernelwright.verify.judging import Rules
from kernelwright.verify.rejection import WrongOutputs
from kernelwright.verify.tasks.task import Task
from kernelwright.verify.values.compare import (
    Expected,
    Tensors,
    compare,
    effective_count,
    share_of_allowed,
)
from kernelwright.verify.values.decided import Exact, Look, Stepped

CLOSE = 16.0
"""Errors up to this many times the bound get a second look."""
NUDGES = 8
"""Nudged fp64 answers where one element carries the answer; more elements need fewer."""
FEW_NUDGES, SMALL = 4, 1 << 20
"""Least number of nudged answers for outputs of at most `SMALL` elements, where nudges are cheap.
One inner value may cause the errors of many elements (a channel that hardly varies)."""
MOST_ROUNDINGS, ENOUGH_ROUNDINGS = 32, 8
"""Most roundings tried, and roundings before the first decision. A rounding explains an element
that rounding decides with probability 1/2; 8 roundings all miss the element once in 256. If more
than half of the off elements then stay unexplained, no further rounding is tried."""
MOST_ELEMENTS = 1 << 24
"""The most elements of all outputs that are looked at one by one: 128 MiB in float64, a few
times."""


@dataclass(frozen=True, slots=True)
class ReferenceCall:
    """A call of the reference, which runs again with other roundings for a second look."""

    task: Task
    """Starts from the state before the call."""
    inputs: list[Any]
    seed: int
    """The seed of the generators in the call."""
    expected: Expected


def check_values(outputs: Tensors, call: ReferenceCall, rules: Rules) -> ErrorFigures | None:
    """Compares outputs, with a second look where the first refuses them.

    Returns:
        The error figures; None if no output is floating-point.

    Raises:
        WrongOutputs: the outputs are wrong at both looks.
    """
    try:
        return checks.check_comparison(compare(outputs, call.expected, rules.precision))
    except WrongOutputs as wrong:
        return look_again(wrong, outputs, call, rules)


def look_again(
    wrong: WrongOutputs, outputs: Tensors, call: ReferenceCall, rules: Rules
) -> ErrorFigures | None:
    """Returns the error figures of outputs if rounding explains the errors of the first look.

    Args:
        wrong: the refusal of the first look.

    Raises:
        WrongOutputs: rounding does not explain the outputs.
    """
    # Structure, NaN and aliases are not questions of rounding.
    if wrong.code is not Code.WRONG_VALUES or rules.precision is Precision.KERNELBENCH:
        raise wrong  # the suite's own rule has no second look
    expectations = [call.expected]
    try:
        if is_close(wrong.errors) and _is_off(wrong.errors):
            # The magnified bound first: it needs a few runs, and rounding otherwise needs up to 32.
            expectations.insert(0, tolerant(call, rules))
            comparison = compare(outputs, expectations[0], rules.precision)
            if comparison.mismatch is None:
                return comparison.errors
        for expectation in expectations:
            settled = _settled(outputs, replace(call, expected=expectation), rules)
            # Only the elements that roundings explain are replaced, so all others are judged again.
            if settled is not outputs:
                return checks.check_comparison(compare(settled, expectation, rules.precision))
    except UsageError:  # moved values may leave the domain of an operator of the reference
        raise wrong from None
    raise wrong


def is_close(errors: ErrorFigures | None) -> bool:
    """Whether the errors are small enough to be magnified rounding: at most `CLOSE` bounds."""
    return errors is not None and share_of_allowed(errors) <= CLOSE


def _is_off(errors: ErrorFigures | None) -> bool:
    """Whether floating-point errors exceed the bound. If not, integer elements may be wrong."""
    return errors is not None and share_of_allowed(errors) > 1


def tolerant(call: ReferenceCall, rules: Rules) -> Expected:
    """Returns the expectation with a wider bound, from nudged fp64 answers.

    The nudges move inputs and results of operators by at most an ulp (`Task.nudged`).
    """
    expected = call.expected
    floats = [output for output in expected.oracle if output.is_floating_point()]
    # The error of one element is one draw; of many elements, their rms hardly varies. So few
    # elements need many nudges.
    fewest = min(map(effective_count, floats), default=1.0)
    least = FEW_NUDGES if sum(output.numel() for output in floats) <= SMALL else 1
    nudged = (
        call.task.nudged(call.inputs, call.seed, rules.device, number)
        for number in range(max(least, round(NUDGES / max(fewest, 1.0))))
    )
    alike = tuple(outputs for outputs in nudged if _are_alike(outputs, expected.oracle))
    return replace(expected, tolerated=(*expected.tolerated, *alike))


def _are_alike(moved: Tensors, oracle: Tensors) -> bool:
    """Whether the shapes agree: values may decide how many elements an output has."""
    return [tensor.shape for tensor in moved] == [tensor.shape for tensor in oracle]


def _settled(outputs: Tensors, call: ReferenceCall, rules: Rules) -> Tensors:
    """If roundings explain every off element: returns the outputs with the reference's value in
    each off element. Otherwise returns the same object."""
    if sum(output.numel() for output in outputs) > MOST_ELEMENTS:
        return outputs
    tried = [_look(i, output, call.expected, rules) for i, output in enumerate(outputs)]
    looks = [look for look in tried if look is not None]
    # Wrong special values are not a question of rounding, so nothing is excused.
    if len(looks) < len(tried):
        return outputs
    num_off = sum(look.num_left for look in looks)
    if not num_off or not all(look.may_be_rounding for look in looks):
        return outputs
    for number in range(MOST_ROUNDINGS):
        other = call.task.rounded_otherwise(call.inputs, call.seed, rules.device, number)
        # Elements have no counterpart where rounding decides how many there are.
        if not _are_alike(other, call.expected.oracle):
            break
        for look, moved in zip(looks, other, strict=True):
            look.add(moved)
        num_left = sum(look.num_left for look in looks)
        # Each rounding explains a decided element with probability one half: too few say nothing.
        if number + 1 < ENOUGH_ROUNDINGS:
            continue
        if not num_left and all(look.leaves_enough for look in looks):
            return tuple(look.settled() for look in looks)
        # With nothing left, too many elements are unsettled, and further roundings add to these.
        if not num_left or num_left > num_off / 2:
            break
    return outputs


def _look(i: int, output: torch.Tensor, expected: Expected, rules: Rules) -> Look | None:
    """Returns the look at output `i`; None where special values are wrong."""
    native, oracle = expected.native[i], expected.oracle[i]
    if not output.dtype.is_floating_point:
        return Exact(output, native, oracle)
    alone = replace(
        expected,
        native=(native,),
        oracle=(oracle,),
        tolerated=tuple((outputs[i],) for outputs in expected.tolerated),
    )
    errors = compare((output,), alone, rules.precision).errors
    if errors is None:  # special values where there should be none
        return None
    return Stepped(output, native, oracle, errors.max_allowed)

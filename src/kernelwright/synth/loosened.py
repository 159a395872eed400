"""Makes drawn programs more like real modules: with any numbers, and with several results.

A drawn program has one of a few values for each attribute, and a single result to which all calls
contribute. A policy that learns only from such programs makes two mistakes. The policy writes 0.2
where a module has 0.125. And the policy does not return values that other parts of a larger program
read too.
"""

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kernelwright.ops.operator import TensorType
from kernelwright.ops.registry import names_with
from kernelwright.ops.rules import is_float
from kernelwright.ops.traits import Trait
from kernelwright.programs.build import canonical
from kernelwright.programs.program import Call, Program, Ref

CHANGED = 0.75
"""In a program with other numbers: the share of calls whose numbers change, defaults included."""
TO_NUMBER = 0.5
"""The share of inputs that become a number, among inputs that only one such call reads."""
TAKE_A_NUMBER = names_with(Trait.ADDS, Trait.SCALES, Trait.ORDERS) - {"rsub"}
FIXED = frozenset({"p", "exponent", "scale_factor", "label_smoothing", "momentum"})
"""Attributes that keep their numbers: they change the kind of computation, or their range is
narrow."""
LEFT_OPEN = 0.5
"""The share of reshapes in which one size becomes -1."""
FACTORS = (0.3, 3.0)
"""A number is multiplied by a factor between these two, because the sign and the magnitude of a
number belong to its purpose."""
FULL = 0.15
"""The share of numbers with all digits, such as square roots. Other numbers have one to four
digits."""
NEGATIVE = 0.2
PLACES = (3, 12)
"""Decimal places of an epsilon."""
MOST_OUTPUTS = 2
"""The most values that a program returns in addition to its last value."""
STATISTICS = {"batch_norm_train": (0, 3, 4)}
"""Operator -> results that a module uses further. They are returned in place of drawn values."""


def loosened(program: Program, rng: random.Random, *, numbers: float, outputs: float) -> Program:
    """The program, by chance with other numbers, and by chance with more results.

    Args:
        numbers: the share of programs that get other numbers, from 0 to 1.
        outputs: the share of programs that return more results, from 0 to 1.
    """
    # Both are drawn first: a new value of one share then changes no other choice of programs.
    has_numbers, has_outputs = rng.random(), rng.random()
    if has_numbers < numbers:
        program = with_other_numbers(program, rng)
    return with_more_outputs(program, rng) if has_outputs < outputs else program


def with_other_numbers(program: Program, rng: random.Random) -> Program:
    """The program with new numbers in its attributes.

    Floats, numbers of groups and open sizes of reshapes are drawn anew, and some inputs become
    numbers. Zero stays zero, and all results keep their types.
    """
    program = _with_inputs_as_numbers(program, rng)
    calls = tuple(_renumbered(call, rng) for call in program.calls)
    return replace(program, calls=calls)


def with_more_outputs(program: Program, rng: random.Random) -> Program:
    """The program that also returns one or two intermediate values, in the order of the calls.

    If a norm updates statistics, the statistics are returned instead. A program without
    intermediate values stays as it is.
    """
    results = [name for call in program.calls for name in call.outputs]
    others = [name for name in results if name not in program.outputs]
    if not others:
        return program
    kept = [call.outputs[i] for call in program.calls for i in STATISTICS.get(call.op, ())]
    more = kept or rng.sample(others, min(len(others), rng.randint(1, MOST_OUTPUTS)))
    returned = {*more, *program.outputs}
    return replace(program, outputs=tuple(name for name in results if name in returned))


def _with_inputs_as_numbers(program: Program, rng: random.Random) -> Program:
    reads = Counter(name for call in program.calls for name in call.refs())
    lone = {v.name for v in program.inputs if reads[v.name] == 1} - set(program.outputs)
    calls, gone = [], set()
    for call in program.calls:
        other = dict(call.args).get("other")
        if (
            isinstance(other, Ref)
            and other.name in lone
            and _takes_a_number(program, call)
            and rng.random() < TO_NUMBER
        ):
            gone.add(other.name)
            number = _constant(rng)
            args = tuple((n, number if n == "other" else value) for n, value in call.args)
            call = replace(call, args=args)
        calls.append(call)
    kept = tuple(value for value in program.inputs if value.name not in gone)
    return canonical(replace(program, inputs=kept, calls=tuple(calls))) if gone else program


def _takes_a_number(program: Program, call: Call) -> bool:
    """Whether a number can stand in place of `other` without a change of any type."""
    operand = dict(call.args).get("input")
    if call.op not in TAKE_A_NUMBER or not isinstance(operand, Ref):
        return False
    read, (result_type,) = program.type_of(operand.name), call.types
    is_same = result_type.shape == read.shape and result_type.layout == read.layout
    return is_same and is_float(read.dtype) and result_type.dtype in (read.dtype, "bool")


def _renumbered(call: Call, rng: random.Random) -> Call:
    if call.is_extern or rng.random() > CHANGED:
        return call
    factor = _factor(rng)  # one for all: bounds stay in order
    return replace(call, args=tuple(_redrawn(call, factor, rng)))


def _redrawn(call: Call, factor: float, rng: random.Random) -> Iterator[tuple[str, Any]]:
    arguments = dict(call.args)
    for param in call.operator.params:
        value = arguments.get(param.name, param.default)
        if type(value) is float and param.name not in FIXED:
            is_epsilon = param.name == "eps"
            value = _epsilon(rng) if is_epsilon else _written(value * factor, rng)
        if param.name == "num_groups":
            value = rng.choice(_numbers_of_groups(call.types[0]))
        if call.op == "reshape" and param.name == "shape" and rng.random() < LEFT_OPEN:
            left_open = rng.randrange(len(value)) if value else None
            value = tuple(-1 if i == left_open else size for i, size in enumerate(value))
        # A call never states a default in drawn programs. A new value that equals the default
        # therefore gives way to the old value.
        if param.name in arguments or value != param.default:
            yield param.name, arguments[param.name] if value == param.default else value


def _numbers_of_groups(x: TensorType) -> list[int]:
    """All numbers of groups that divide the channels and leave a group more than one value."""
    channels = x.shape[1]
    return [n for n in range(1, channels + 1) if channels % n == 0 and n < x.numel]


def _factor(rng: random.Random) -> float:
    low, high = FACTORS
    return float(low * (high / low) ** rng.random())


def _written(number: float, rng: random.Random) -> float:
    """The number with as many digits as a person would write."""
    return number if rng.random() < FULL else float(f"{number:.{rng.randint(1, 4)}g}")


def _epsilon(rng: random.Random) -> float:
    return float(f"{rng.choice((1, 1, 1, 2, 5))}e-{rng.randint(*PLACES)}")


def _constant(rng: random.Random) -> float:
    """A number to multiply by or to add: a power of 2 or 10, 1 / sqrt(n), or any number."""
    kinds = (
        0.5 ** rng.randint(1, 8),
        10.0 ** rng.randint(-4, 2),  # more overflows float16
        1 / math.sqrt(2.0 ** rng.randint(1, 10)),
        _written(10 ** rng.uniform(-2, 2), rng),
    )
    return -rng.choice(kinds) if rng.random() < NEGATIVE else rng.choice(kinds)

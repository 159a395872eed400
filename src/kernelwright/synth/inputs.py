"""Chooses how the inputs of a drawn program are drawn, so that values stay near 1 for 20 calls.

Parameters of layers are recognized by their slot, and drawn as `programs.draws.initial` draws the
parameters of a model. In a sum of k products, one operand is scaled by 1 / sqrt(k): the right
operand if it is an input of the program, else the left operand. An operand of a product over a
dimension is drawn near 1. An operand that is compared with 0, or for equality, is drawn from three
numbers.
"""

from collections.abc import Sequence
from math import sqrt

from kernelwright.ops.registry import names_with
from kernelwright.ops.traits import Trait
from kernelwright.programs.draws.initial import Uses, choose_init
from kernelwright.programs.program import Call, Init, Input, Program

_LAYER = frozenset({"weight", "bias", "running_mean", "running_var", "pos_weight"})
"""Parameters of layers."""
_PRODUCTS = ("prod", "cumprod")
_TESTS = names_with(Trait.TESTS_EQUALITY, Trait.READS_TRUTH)
"""Operators that ask whether values are 0 or equal. Values of a normal distribution never are."""
_FEW = Init("randint", 0, 3)
_MODERATE = Init("rand", 0.5, 2.0)
"""How exponents are drawn."""


def with_inits(program: Program) -> Program:
    """The program with a draw for each input, chosen by the calls that read the input."""
    uses = Uses(program)
    inputs = tuple(Input(v.name, v.type, _init(uses, v)) for v in program.inputs)
    return Program(inputs, program.calls, program.outputs)


def _init(uses: Uses, value: Input) -> Init:
    own_uses = list(uses.of(value.name))
    slot = own_uses[0][1] if own_uses else ""
    if slot in _LAYER:
        return choose_init(uses, value, slot)
    chosen = choose_init(uses, value, "")
    return _of_operand(uses.program, own_uses) if chosen == Init("randn") else chosen


def _of_operand(program: Program, found: Sequence[tuple[Call, str]]) -> Init:
    """The draw of a floating-point operand without a required domain.

    Args:
        found: its uses, as (call, parameter).
    """
    for call, parameter in found:
        if call.op in _TESTS:
            return _FEW
        if call.op in _PRODUCTS:
            return _near_one(program, call)
        if (call.op, parameter) == ("pow", "exponent"):
            return _MODERATE
    # The variance of a sum of k products is k. Without the scale, values grow by sqrt(k) a call.
    terms = [_terms(program, call, parameter) for call, parameter in found]
    if not terms or not all(terms):
        return Init("randn")  # another call needs the operand without a scale
    return Init("randn", 0.0, _rounded(1 / sqrt(max(terms))))


def _near_one(program: Program, call: Call) -> Init:
    """The draw of an operand whose elements are multiplied: uniform around 1.

    The width falls with the number of factors, so that the product neither vanishes nor overflows.
    """
    (name,) = call.refs()
    shape = program.type_of(name).shape
    count = program.type_of(name).numel / max(call.types[0].numel, 1)
    if call.op == "cumprod" and shape:
        count = shape[call.arg("dim")]
    reach = _rounded(min(0.5, 1 / sqrt(max(count, 1))))
    return Init("rand", 1 - reach, 1 + reach)


def _terms(program: Program, call: Call, parameter: str) -> int:
    """The number of products that a result of the call sums, if this operand is to be scaled.

    0 if the call sums no products, or if its other operand is scaled.
    """
    if call.is_extern or not call.operator.factors:
        return 0
    left, right = (factor.name for factor in call.operator.factors)
    if right in _LAYER:
        return 0
    scaled = right if _is_input(program, call, right) else left
    if parameter != scaled:
        return 0
    arguments = dict(call.args)
    return max(program.type_of(arguments[left].name).shape[-1], 1)


def _is_input(program: Program, call: Call, parameter: str) -> bool:
    """Whether an operand is an input of the program, directly or through shape operators."""
    name = dict(call.args)[parameter].name
    inputs = {value.name for value in program.inputs}
    producer = program.producer()
    while name not in inputs:
        maker = program.calls[producer[name]]
        if maker.is_extern or maker.operator.family != "shape":
            return False
        name = next(maker.refs())
    return True


def _rounded(scale: float) -> float:
    return float(f"{scale:.3g}")

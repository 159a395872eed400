"""The table of rules for the spread of results, with a rule for every operator."""

from collections.abc import Mapping

from kernelwright.ops.operator import Bound, Operator, TensorType
from kernelwright.ops.ranges import contraction, functions, loss, movement, pointwise, reduction
from kernelwright.ops.ranges.given import Given, Rule
from kernelwright.ops.ranges.spread import Spread

RULES: Mapping[str, Rule] = {
    **functions.RULES,
    **pointwise.RULES,
    **reduction.RULES,
    **contraction.RULES,
    **movement.RULES,
    **loss.RULES,
}


def result_spreads(
    operator: Operator,
    bound: Bound,
    spreads: Mapping[str, Spread | tuple[Spread, ...]],
    made: tuple[TensorType, ...],
) -> tuple[Spread, ...]:
    """The spread of each result of a call.

    Args:
        bound: the call's parameters, types in place of tensors.
        spreads: tensor parameter -> spread; a tuple of spreads for a sequence of tensors.
        made: the types of the results.

    Raises:
        OutOfDomain: an operand's range holds values for which the operator is not defined.
    """
    spreads_made = RULES[operator.name](Given(bound, spreads, made))
    return (spreads_made,) if isinstance(spreads_made, Spread) else spreads_made

"""The table of rules for the spread of results, with a rule for every operator."""

from collections.abc import Mapping

from kernelwright.ops.operator import Bound, Operator, TensorType
from kernelwright.ops.ranges import contraction, functions, loss, movement, pointwise, reduction
from kernelwright.ops.ranges.rule_inputs import Rule, RuleInputs
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
    results: tuple[TensorType, ...],
) -> tuple[Spread, ...]:
    """The spread of each result of a call.

    Args:
        bound: the call's parameters, types in place of tensors.
        spreads: tensor parameter -> spread; a tuple of spreads for a sequence of tensors.
        results: the types of the results.

    Raises:
        OutOfDomain: an operand's range holds values for which the operator is not defined.
    """
    ranged = RULES[operator.name](RuleInputs(bound, spreads, results))
    return (ranged,) if isinstance(ranged, Spread) else ranged

"""Operands that broadcasting stretches: a size of 1 beside a larger one.

Which these are belongs to a program's structure: code written where both sizes are n need not run
where one is 1 and the other n, though PyTorch would.
"""

from collections.abc import Iterator, Sequence

from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call

Shape = tuple[int, ...]
Place = tuple[int, int, int]
"""Group of shapes that are broadcast together, number in it, dimension from the last (0)."""

_WHOLE = ("pointwise", "loss")
"""Families whose operands are broadcast in all dimensions."""
_BATCHES = ("matrix", "attention")
"""Families of products: in all but the last two, and `input` of an addition to the result."""


def stretched(call: Call, shapes: Sequence[Shape], result: Shape) -> set[Place]:
    """Where operands of these shapes are stretched.

    Args:
        shapes: of `call.refs()`.
        result: of the first result.
    """
    return {
        (group, number, from_last)
        for group, together in enumerate(_broadcast(call, shapes, result))
        for number, shape in enumerate(together)
        for from_last, size in enumerate(reversed(shape))
        if size == 1
        and any(other[-1 - from_last] > 1 for other in together if len(other) > from_last)
    }


def _broadcast(call: Call, shapes: Sequence[Shape], result: Shape) -> Iterator[Sequence[Shape]]:
    """Groups of shapes that the call broadcasts together."""
    if call.is_extern:
        return
    if call.operator.family in _WHOLE or call.op == "take_along_dim":
        yield shapes
    elif call.operator.family in _BATCHES:
        yield [shape[:-2] for shape in shapes]
        if call.has(Trait.ADDS_OPERAND):
            yield [shapes[0], result]

"""Matrix operators."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

"""Pointwise operators: unary, binary and ternary functions of broadcast arguments."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

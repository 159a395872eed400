"""Convolutions and transposed convolutions."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

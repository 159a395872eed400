"""Operators that draw from the generator."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

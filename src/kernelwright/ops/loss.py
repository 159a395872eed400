"""Losses and similarities."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

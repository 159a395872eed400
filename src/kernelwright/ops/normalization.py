"""Normalization over channels, groups or trailing dimensions."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

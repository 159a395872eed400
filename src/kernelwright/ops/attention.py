"""Scaled dot-product attention."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

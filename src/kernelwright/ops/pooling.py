"""Windowed and adaptive pooling, and interpolation."""

from kernelwright.ops.operator import Operator

OPERATORS: tuple[Operator, ...] = ()

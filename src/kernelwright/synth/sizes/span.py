"""Interval arithmetic over integers or, for many intervals at once, over arrays."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np


@dataclass(frozen=True, slots=True)
class IntegerSpan:
    """An interval, ends included, for `ops.sizes.evaluate`.

    The result of an operation contains every possible value, and may contain more.
    """

    low: Any
    high: Any

    def __add__(self, other: Self | int) -> "IntegerSpan":
        if isinstance(other, IntegerSpan):
            return IntegerSpan(self.low + other.low, self.high + other.high)
        return IntegerSpan(self.low + other, self.high + other)

    __radd__ = __add__

    def __mul__(self, other: Self | int) -> "IntegerSpan":
        if isinstance(other, IntegerSpan):
            if np.min(self.low) >= 0 and np.min(other.low) >= 0:  # nearly always, and cheaper
                return IntegerSpan(self.low * other.low, self.high * other.high)
            corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
            if isinstance(corners[0], int):
                return IntegerSpan(min(corners), max(corners))
            return IntegerSpan(np.minimum.reduce(corners), np.maximum.reduce(corners))
        ends = self.low * other, self.high * other
        return IntegerSpan(*ends) if other > 0 else IntegerSpan(*ends[::-1])

    def __floordiv__(self, divisor: int) -> "IntegerSpan":
        return IntegerSpan(self.low // divisor, self.high // divisor)

"""Interval arithmetic over integers or, for many intervals at once, over arrays."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np


@dataclass(frozen=True, slots=True)
class Interval:
    """For `ops.sizes.evaluate`. Ends are included; what is possible is never left out."""

    low: Any
    high: Any

    def __add__(self, other: Self | int) -> "Interval":
        if isinstance(other, Interval):
            return Interval(self.low + other.low, self.high + other.high)
        return Interval(self.low + other, self.high + other)

    __radd__ = __add__

    def __mul__(self, other: Self | int) -> "Interval":
        if isinstance(other, Interval):
            corners = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
            if isinstance(corners[0], int):
                return Interval(min(corners), max(corners))
            return Interval(np.minimum.reduce(corners), np.maximum.reduce(corners))
        ends = self.low * other, self.high * other
        return Interval(*ends) if other > 0 else Interval(*ends[::-1])

    def __floordiv__(self, divisor: int) -> "Interval":
        return Interval(self.low // divisor, self.high // divisor)

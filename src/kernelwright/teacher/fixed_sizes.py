"""Kernels made for the sizes at hand.

Of an argument Triton is told whether 16 divides it, no more. Where 16 does not, as of 126 x 126
pixels, a compiler cannot see that rows begin at multiples of four elements: each is loaded by
itself, and positions are divided by the size the long way. A size that is a constant tells it; the
kernel is compiled anew for every other one.
"""

from collections.abc import Sequence
from math import prod
from typing import Protocol, Self, TypeVar

from kernelwright.teacher.space import Space

ALIGNED = 16
WHY = "sizes that 16 does not divide are constants: neighbours are loaded together"
_LARGE = 1 << 20
"""Elements from where on memory is what a kernel waits for."""


class Fixable(Protocol):
    def fixed(self) -> Self:
        """The same schedule of a kernel with such sizes as constants."""


S = TypeVar("S", bound=Fixable)


def with_fixed(schedules: Sequence[S], space: Space) -> list[S]:
    """The schedules; before them the same with fixed sizes, where that can matter."""
    if not matters([axis.size for axis in space.axes]):
        return list(schedules)
    return [*(each.fixed() for each in schedules), *schedules]


def matters(sizes: Sequence[int]) -> bool:
    """Whether some of the sizes that a kernel walks are better known to the compiler."""
    return prod(sizes) >= _LARGE and any(size % ALIGNED for size in sizes)

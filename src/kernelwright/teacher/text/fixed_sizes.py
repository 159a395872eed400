"""Kernels made for the sizes at hand.

Of an argument Triton is told whether 16 divides it, no more. Where 16 does not, as of 126 x 126
pixels, a compiler cannot see that rows begin at multiples of four elements: each is loaded by
itself, and positions are divided by the size the long way. A size that is a constant tells it; the
kernel is compiled anew for every other one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from kernelwright.teacher.text.space import StageSpace

ALIGNED = 16
_WHY = "sizes that 16 does not divide are constants: neighbours are loaded together"
_LARGE = 1 << 20
"""Elements from where on memory is what a kernel waits for."""
_FIRST = 3


@dataclass(frozen=True, slots=True)
class StageSchedule:
    """The choices of one kernel of a stage: loop form, tile, warps and splits."""

    form: str
    """Pointwise: "flat", "grid_stride", "rows", "row_blocks" or "transpose"; reduction: "one_pass",
    "looped" or "two_pass"."""
    rows: int
    """Rows of the tile; 1: the tile has one dimension."""
    block: int
    """Columns of the tile, reduced positions in a reduction; a one_pass block covers the row."""
    num_warps: int
    why: str
    splits: int = 1
    """Programs that share a row, at most; two_pass only."""
    is_fixed: bool = False
    """Sizes that 16 does not divide are constants of the kernel."""


def with_fixed(schedules: Sequence[StageSchedule], space: StageSpace) -> list[StageSchedule]:
    """The schedules, and if it can matter the same schedules with fixed sizes too.

    Three with fixed sizes come first. The best without is fourth, so that it is measured as well.
    """
    num_elements = prod(axis.size for axis in space.axes)
    # The outermost size is no stride: no position is multiplied with it.
    if not _matters([axis.size for axis in space.axes[1:]], num_elements):
        return list(schedules)
    fixed = [
        replace(schedule, is_fixed=True, why=f"{schedule.why}; {_WHY}") for schedule in schedules
    ]
    return [*fixed[:_FIRST], *schedules[:1], *fixed[_FIRST:], *schedules[1:]]


def _matters(strides: Sequence[int], num_elements: int) -> bool:
    """Whether fixed sizes can matter: the tensor is large and 16 does not divide some stride.

    Args:
        strides: sizes that positions are multiplied with or divided by.
    """
    return num_elements >= _LARGE and any(size % ALIGNED for size in strides)

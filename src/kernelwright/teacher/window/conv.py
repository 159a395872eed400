"""A kernel writer's view of a program with one convolution: a sum of products over a window.

A tile of the output has an axis of channels and one of pixels: positions of the output in all
images, in memory order. The schedule chooses which of the two axes is the tile's columns. Columns
should be neighbours in memory: pixels in contiguous tensors, channels in channels-last ones.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.programs.program import Ref
from kernelwright.teacher.contraction.parts import Product, ProductSchedule
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import (
    AxisText,
    Dim,
    Index,
    View,
    axes_of,
    parts,
    position,
    times,
)
from kernelwright.teacher.tile.views import Side
from kernelwright.teacher.window.sweep import Sweep

FEW_CHANNELS = 16
"""The most channels of a group for which kernels have the number as a constant. The compiler then
knows where each element of a window lies, and loads neighbours together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Channels:
    """Index terms of channels: the input's are (group, taken), the output's (group, made)."""

    group: Dim
    taken: Dim
    made: Dim


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelCounts:
    """Numbers of groups and of channels a group, with the wrapper's texts of them."""

    groups: int
    taken: int
    made: int
    groups_text: str
    taken_text: str
    made_text: str
    total_text: str
    """The text for the number of all output channels."""

    @property
    def are_few(self) -> bool:
        """Whether a group takes 2 to FEW_CHANNELS channels."""
        return 1 < self.taken <= FEW_CHANNELS


@dataclass(frozen=True, kw_only=True)
class Convolution(Product):
    """A program with one convolution; its forms differ in how they sum."""

    image: Side
    """The value that the window moves over; along its spatial dimensions lie axes "d", "h" and
    "w"."""
    weights: Side
    """The weights of the window; along their spatial dimensions lie axes "kd", "kh" and "kw"."""
    sweeps: tuple[Sweep, ...]
    pixels: str
    """The tile's axis of pixels, "m" or "n"; the other is that of channels."""
    counts: ChannelCounts
    pixel_index: Index
    """The pixel of the output of one phase: (sample or nothing, *positions)."""

    @property
    def dtype(self) -> str:
        return self.program.type_of(self.image.value).dtype

    @property
    def channels(self) -> str:
        """The tile's axis of channels."""
        return other_axis(self.pixels)

    @property
    def numel(self) -> str:
        return times(*(term.size for dim in self.index for term in dim))

    @property
    def phased(self) -> tuple[Sweep, ...]:
        """The sweeps whose outputs fall into several phases."""
        return tuple(sweep for sweep in self.sweeps if sweep.num_phases > 1)

    def begin(self, body: TileBody) -> None:
        bias = self.call.arg("bias")
        if not isinstance(bias, Ref):
            self.place(body, "acc")
            return
        # Counted from the end, because an image may have no batch dimension.
        channel = self.index[-len(self.sweeps) - 1]
        self.place(body, f"acc + {body.value(bias.name, (channel,))}")

    def view(self) -> View:
        view = dict(super().view())
        if "b" in view and self.groups_are_apart and self.phased:
            # With phases, "b" numbers groups and phases together, so the group has its own
            # variable.
            view["b"] = AxisText("group")
        # With phases, the number of pixels a phase is rounded up for each dimension.
        if self.pixels not in axes_of(self.index):  # every position has a bound of its own
            view[self.pixels] = AxisText(view[self.pixels].name, view[self.pixels].suffix)
        return view | {phase_axis(s): AxisText(phase_axis(s), "", s.out) for s in self.phased}

    @property
    def groups_are_apart(self) -> bool:
        """Whether groups are independent products, along the axis "b"."""
        return "b" in axes_of(self.index)

    def position(self, schedule: ProductSchedule) -> list[str]:
        lines = super().position(schedule)
        # Outputs of one phase are `stride` apart, so their place follows from the phase.
        if not self.phased:
            return lines
        if self.groups_are_apart:
            num_phases = _factor(self.phased)
            lines += [f"group = part // {num_phases}", f"phase = part % {num_phases}"]
        for at, sweep in enumerate(self.phased):
            inner = self.phased[at + 1 :]
            # The first dimension is the highest digit of the phase's number, so no remainder is
            # taken there.
            text = f"phase // {_factor(inner)}" if inner else "phase"
            text += f" % {sweep.num_phases}" if at else ""
            lines.append(f"{sweep.at}_phase = {text}")
            lines += sweep.phase_lines()
        view = self.view()
        places = [
            f"{phase_axis(sweep)} = {where} * {sweep.stride} + {sweep.at}_phase"
            for sweep, where in self.places(view)
            if sweep.num_phases > 1
        ]
        return [*lines, *parts(view), *places]

    def places(self, view: View) -> list[tuple[Sweep, str]]:
        """Each sweep with the text of the tile's positions among the outputs of a phase."""
        dims = self.pixel_index[-len(self.sweeps) :]
        return [
            (sweep, position(dim[0], view)) for sweep, dim in zip(self.sweeps, dims, strict=True)
        ]

    @staticmethod
    @abstractmethod
    def split(counts: ChannelCounts, channels: str) -> tuple[Channels, dict[str, str]]:
        """How the form indexes channels.

        Args:
            channels: the tile's axis of channels, "m" or "n".

        Returns:
            (index terms of channels, size symbol -> wrapper text of the sizes that they need).
        """


def _factor(sweeps: Sequence[Sweep]) -> str:
    """Text of the number of phases that these sweeps have together, as a factor."""
    text = " * ".join(str(sweep.num_phases) for sweep in sweeps)
    return f"({text})" if len(sweeps) > 1 else text


def phase_axis(sweep: Sweep) -> str:
    """The output's axis along a sweep with phases, and the variable of the position there."""
    return sweep.out.lower()


def other_axis(axis: str) -> str:
    """The tile's other axis: "m" for "n" and the reverse."""
    return "m" if axis == "n" else "n"

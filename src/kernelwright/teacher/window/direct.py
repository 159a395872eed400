"""A convolution summed tap by tap on the CUDA cores: depthwise, and groups of few channels.

A program owns a tile of channels and pixels, and every tap adds one tile of the image times a
weight a channel. Groups share nothing, so there is no product of matrices. Where one group of few
channels makes many there is, but a sum of a few dozen terms does not fill tensor cores: a thread
holds a tile of registers, and each value it loads serves a row or a column of them.
"""

from dataclasses import dataclass
from math import prod

from kernelwright.teacher.contraction.parts import ProductSchedule
from kernelwright.teacher.tile.index import AxisText, Dim, Term, parts
from kernelwright.teacher.window.conv import ChannelCounts, Channels, Convolution
from kernelwright.teacher.window.walk import SummedAxes, Walk

_MAX_UNROLLED = 32
"""Windows of more taps, and those of dense tiles, are unrolled along the innermost dimension
only."""
_DENSE = 16
"""The least channels of a tile that is dense: a thread then holds so many sums that registers are
scarce."""


@dataclass(frozen=True, kw_only=True)
class Direct(Convolution):
    """A convolution summed tap by tap; all groups lie along the tile's axis of channels."""

    @staticmethod
    def split(counts: ChannelCounts, channels: str) -> tuple[Channels, dict[str, str]]:
        symbol = channels.upper()
        sizes: dict[str, str] = {}
        taken: Dim = ()
        if counts.taken > 1:
            sizes["C"] = counts.taken_text
            taken = (Term("c", "C", counts.taken),)
        group: Dim = ()
        channels_made: Dim = (Term(channels, symbol, counts.made),)
        # An axis of all output channels holds both: channel = group * O + number in the group.
        if counts.groups > 1 and counts.made > 1:
            sizes |= {"G": counts.groups_text, "O": counts.made_text}
            group = (Term(channels, "G", counts.groups, "O"),)
            channels_made = (Term(channels, "O", counts.made, "1", False),)
        elif counts.groups > 1:
            group, channels_made = (Term(channels, symbol, counts.groups),), ()
        sizes[symbol] = counts.total_text
        return Channels(group=group, taken=taken, made=channels_made), sizes

    def loop(self, _: ProductSchedule) -> str:
        return "direct"

    def is_dense(self, schedule: ProductSchedule) -> bool:
        """Whether a thread holds a tile of sums, so that each load serves a row or a column."""
        return self.pixels == "n" and self.counts.groups == 1 and schedule.block_m >= _DENSE

    def accumulate(self, schedule: ProductSchedule) -> list[str]:
        """Lines that leave the sum, (BLOCK_M, BLOCK_N) in fp32, in `acc`."""
        # A dimension with one tap needs no loop: the window's start is the position.
        moving = [sweep for sweep in self.sweeps if sweep.is_moving]
        channel = {"c": AxisText("c")} if self.counts.taken > 1 else {}
        over = SummedAxes(
            image=channel,
            weights=channel | {f"k{s.at}": AxisText(s.weight(s.tap)) for s in moving},
            taps={sweep.at: sweep.tap for sweep in moving},
            dims={},
            # CUDA cores multiply in fp32, so 16-bit values are widened at the load.
            is_narrow=False,
        )
        view = dict(self.view())
        preloaded: list[str] = []
        if self.is_dense(schedule):  # a mask for each row would take more registers than its weight
            rows = view[self.channels]
            preloaded = [f"held_{self.channels} = {rows.name} % {rows.bound}"]
            view[self.channels] = AxisText(f"held_{self.channels}", rows.suffix)
        walk = Walk(self, view, over)
        image, weights = walk.image(), walk.weights()
        add = f"acc += {image.name} * {weights.name}"
        lines = [*parts(channel), *walk.place(), *image.lines, *weights.lines, add]
        return [
            *walk.head([*self.position(schedule), *preloaded]),
            *image.before,
            *weights.before,
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            *self._nested(lines, is_dense=bool(preloaded)),
        ]

    def _nested(self, lines: list[str], *, is_dense: bool) -> list[str]:
        """The lines inside loops over channels and taps."""
        moving = [sweep for sweep in self.sweeps if sweep.is_moving]
        # A dense tile of 32 x 256 keeps its registers only if the innermost taps alone are
        # unrolled.
        is_short = not is_dense and prod(sweep.kernel for sweep in moving) <= _MAX_UNROLLED
        headers = ["for c in range(C):"] if self.counts.taken > 1 else []
        for sweep in moving:
            # With phases the number of taps is known only at run time, which nothing unrolls.
            is_unrolled = sweep.num_phases == 1 and (is_short or sweep is moving[-1])
            walk = "tl.static_range" if is_unrolled else "range"
            headers.append(f"for {sweep.tap} in {walk}({sweep.num_taps}):")
        nested = ["    " * depth + header for depth, header in enumerate(headers)]
        return nested + ["    " * len(headers) + line for line in lines]

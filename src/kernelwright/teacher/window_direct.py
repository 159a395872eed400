"""A convolution summed tap by tap on the CUDA cores: depthwise, and groups of few channels.

Nothing is shared between channels there, so there is no product of matrices: a program owns a tile
of channels and pixels, and every tap adds one tile of the image times a weight a channel.
"""

from dataclasses import dataclass
from math import prod

from kernelwright.teacher.tile_index import AxisText, Dim, Term, parts
from kernelwright.teacher.tile_parts import Schedule
from kernelwright.teacher.window_conv import Channels, Convolution, Counts
from kernelwright.teacher.window_walk import Sum, Walk

_MAX_UNROLLED = 32
"""Windows of more taps are unrolled along the innermost dimension only."""


@dataclass(frozen=True, kw_only=True)
class Direct(Convolution):
    """All groups lie along the tile's axis of channels."""

    @staticmethod
    def split(counts: Counts, channels: str) -> tuple[Channels, dict[str, str]]:
        symbol = channels.upper()
        sizes: dict[str, str] = {}
        taken: Dim = ()
        if counts.taken > 1:
            sizes["C"] = counts.taken_text
            taken = (Term("c", "C", counts.taken),)
        group: Dim = ()
        made: Dim = (Term(channels, symbol, counts.made),)
        if counts.groups > 1 and counts.made > 1:
            sizes |= {"G": counts.groups_text, "O": counts.made_text}
            group = (Term(channels, "G", counts.groups, "O"),)
            made = (Term(channels, "O", counts.made, "1", False),)
        elif counts.groups > 1:
            group, made = (Term(channels, symbol, counts.groups),), ()
        sizes[symbol] = counts.total_text
        return Channels(group=group, taken=taken, made=made), sizes

    def loop(self, _: Schedule) -> str:
        return "direct"

    def accumulate(self, schedule: Schedule) -> list[str]:
        moving = [sweep for sweep in self.sweeps if sweep.is_moving]
        channel = {"c": AxisText("c")} if self.counts.taken > 1 else {}
        over = Sum(
            image=channel,
            weights=channel | {f"k{s.at}": AxisText(s.weight(s.tap)) for s in moving},
            taps={sweep.at: sweep.tap for sweep in moving},
            dims={},
            is_narrow=False,
        )
        walk = Walk(self, self.view(), over)
        image, weights = walk.image(), walk.weights()
        add = f"acc += {image.name} * {weights.name}"
        return [
            *walk.head(self.position(schedule)),
            *image.before,
            *weights.before,
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            *self._nested([*parts(channel), *walk.place(), *image.lines, *weights.lines, add]),
        ]

    def _nested(self, lines: list[str]) -> list[str]:
        """The lines inside loops over channels and taps."""
        moving = [sweep for sweep in self.sweeps if sweep.is_moving]
        is_short = prod(sweep.kernel for sweep in moving) <= _MAX_UNROLLED
        headers = ["for c in range(C):"] if self.counts.taken > 1 else []
        for sweep in moving:
            is_unrolled = sweep.num_phases == 1 and (is_short or sweep is moving[-1])
            walk = "tl.static_range" if is_unrolled else "range"
            headers.append(f"for {sweep.tap} in {walk}({sweep.num_taps}):")
        nested = ["    " * depth + header for depth, header in enumerate(headers)]
        return nested + ["    " * len(headers) + line for line in lines]

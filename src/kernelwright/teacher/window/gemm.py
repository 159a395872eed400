"""A convolution as a product of matrices that are never made: implicit GEMM.

One loop walks taps and blocks of channels together, so that loads stay ahead of the products from
one tap to the next. Which of the two it walks first is the schedule's `order`:

- "taps": all channels of a tap, then the next tap;
- "channels": all taps of a block of channels, then the next block: what they read overlaps;
- "flat": channels and taps are one dimension, as they lie in the weights' memory: for few channels.
"""

from dataclasses import dataclass
from functools import cached_property

from kernelwright.ops.operator import Layout
from kernelwright.teacher.contraction.parts import ROUNDED, Loads, ProductSchedule
from kernelwright.teacher.tile.index import (
    AxisText,
    Term,
    factor,
    flat_axis,
    parts,
    position,
    times,
)
from kernelwright.teacher.window.conv import ChannelCounts, Channels, Convolution
from kernelwright.teacher.window.walk import SummedAxes, Walk

_COMMENTS = {
    "taps": "# One loop over taps and, within each, blocks of channels.",
    "channels": "# One loop over blocks of channels and, within each, taps: these read much alike.",
    "flat": "# Channels and taps are one dimension, in the order of the weights' memory.",
}


@dataclass(frozen=True, kw_only=True)
class ImplicitGemm(Convolution):
    """A convolution summed on tensor cores, over blocks of channels; each group is a product."""

    @staticmethod
    def split(counts: ChannelCounts, channels: str) -> tuple[Channels, dict[str, str]]:
        symbol = channels.upper()
        group = (Term("b", "G", counts.groups),) if counts.groups > 1 else ()
        taken, channels_made = Term("c", "C", counts.taken), Term(channels, symbol, counts.made)
        sizes = {"G": counts.groups_text} if group else {}
        sizes |= {"C": counts.taken_text, symbol: counts.made_text}
        return Channels(group=group, taken=(taken,), made=(channels_made,)), sizes

    def loop(self, schedule: ProductSchedule) -> str:
        name = f"implicit_gemm_{schedule.order}"
        return f"{name}_split_k" if schedule.split_k > 1 else name

    def shared_bytes(self, schedule: ProductSchedule) -> int:
        """Bytes of shared memory for the factor tiles of one step, in all pipeline stages."""
        # The walk is built as for writing: a tile that is not loaded takes no shared memory.
        key = schedule.order, schedule.precision == ROUNDED
        if key not in self._loads:
            walk = Walk(self, self.view(), _Steps(self, key[0]).over, is_rounded=key[1])
            image, weights = (
                (side.num_loads, side.is_loaded) for side in (walk.image(), walk.weights())
            )
            # The left factor is the one whose tile holds the rows.
            self._loads[key] = (image, weights) if self.pixels == "m" else (weights, image)
        return self.shared_bytes_of(schedule, *self._loads[key])

    @cached_property
    def _loads(self) -> dict[tuple[str, bool], tuple[Loads, Loads]]:
        """The loads of the tiles in each order of the loop, rounded or not."""
        return {}

    def has_known_places(self, schedule: ProductSchedule) -> bool:
        """Whether the compiler knows the places of a window's elements relative to its start."""
        return schedule.order == "flat" and self.counts.are_few and not self.phased

    def accumulate(self, schedule: ProductSchedule) -> list[str]:
        """Lines that leave the sum, (BLOCK_M, BLOCK_N) in fp32, in `acc`."""
        steps = _Steps(self, schedule.order)
        walk = Walk(self, self.view(), steps.over, is_rounded=schedule.precision == ROUNDED)
        image, weights = walk.image(), walk.weights()
        factors = [image, weights] if self.pixels == "m" else [weights, image]
        # Slices take turns step by step, so their lengths differ by one step at most.
        first, step = ("tl.program_id(1)", ", SPLIT_K") if schedule.split_k > 1 else ("0", "")
        inner = [*steps.lines(), *walk.place(), *image.lines, *weights.lines]
        return [
            *walk.head(self.position(schedule)),
            self.wide("offs_k", "tl.arange(0, BLOCK_K)"),
            *image.before,
            *weights.before,
            "acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)",
            *steps.counts,
            _COMMENTS[schedule.order],
            f"for step in range({first}, {steps.number}{step}):",
            *(f"    {line}" for line in inner),
            f"    {self.dot(schedule, *(operand.name for operand in factors))}",
        ]


class _Steps:
    """The steps of the loop in one order: their number, and the channels and tap of a step."""

    def __init__(self, product: ImplicitGemm, order: str) -> None:
        self.order = order
        self.moving = [sweep for sweep in product.sweeps if sweep.is_moving]
        row, column = "[:, None]", "[None, :]"
        places = (column, row) if product.pixels == "m" else (row, column)
        self.over = self._flat(product, *places) if order == "flat" else self._blocks(*places)

    def _blocks(self, image: str, weights: str) -> SummedAxes:
        """The summed axes where a step takes one tap and a block of channels.

        Args:
            image: index suffix of the summed dimension in the image's tile; `weights` likewise.
        """
        taps = {f"k{sweep.at}": AxisText(sweep.weight(sweep.tap)) for sweep in self.moving}
        return SummedAxes(
            image={"c": AxisText("cs", image, "C")},
            weights={"c": AxisText("cs", weights, "C")} | taps,
            taps={sweep.at: sweep.tap for sweep in self.moving},
            dims={},
            is_narrow=True,
        )

    def _flat(self, product: ImplicitGemm, image: str, weights: str) -> SummedAxes:
        """The summed axes where channels and taps are one dimension, cut into blocks."""
        # The order of channels and taps is that of the weights' memory: loads are contiguous there.
        slices = [(f"k{sweep.at}", f"K{sweep.symbol}", sweep.kernel) for sweep in self.moving]
        is_last = product.program.type_of(product.weights.value).layout is Layout.CHANNELS_LAST
        slices.insert(len(slices) if is_last else 0, ("c", "C", product.counts.taken))
        axes, symbols, lengths = zip(*slices, strict=True)
        dims = dict(zip(axes, flat_axis("k", symbols, lengths), strict=True))
        size = times("C", *self._num_taps)
        in_image = {"k": AxisText("ks", image, size)}
        return SummedAxes(
            image=in_image,
            weights={"k": AxisText("ks", weights, size)},
            taps={s.at: position(dims[f"k{s.at}"][0], in_image) for s in self.moving},
            dims=dims,
            is_narrow=True,
        )

    @property
    def _num_taps(self) -> list[str]:
        return [sweep.num_taps for sweep in self.moving]

    @property
    def _divisors(self) -> list[str]:
        return [sweep.divisor for sweep in self.moving]

    @property
    def counts(self) -> list[str]:
        """Lines before the loop that count its steps."""
        if self.order == "flat":
            return []
        counts = ["num_c = tl.cdiv(C, BLOCK_K)"]
        if self.moving:
            counts.append(f"num_spots = {' * '.join(self._num_taps)}")
        return counts

    @property
    def number(self) -> str:
        """Text of the number of steps."""
        if self.order == "flat":
            return f"tl.cdiv({self.over.image['k'].bound}, BLOCK_K)"
        return "num_spots * num_c" if self.moving else "num_c"

    def lines(self) -> list[str]:
        """Lines that compute a step's channels and tap."""
        slices = dict.fromkeys([*parts(self.over.image), *parts(self.over.weights)])
        return [*self._positions(), *slices]

    def _positions(self) -> list[str]:
        if self.order == "flat":
            return ["ks = step * BLOCK_K + offs_k"]
        if not self.moving:
            return ["cs = step * BLOCK_K + offs_k"]
        # The step's number is a scalar: the divisions cost once a step, not once a lane.
        if self.order == "taps":
            spot, block = "step // num_c", "step % num_c"
        else:
            is_safe = self._divisors == self._num_taps
            num_spots = "num_spots" if is_safe else "tl.maximum(num_spots, 1)"
            spot, block = f"step % {num_spots}", f"step // {num_spots}"
        channels = f"cs = {block} * BLOCK_K + offs_k"
        if len(self.moving) == 1:
            return [f"{self.moving[0].tap} = {spot}", channels]
        return [f"spot = {spot}", *self._taps_of_spot(), channels]

    def _taps_of_spot(self) -> list[str]:
        """Lines that take a spot, the number of a tap, apart into its position in the kernel."""
        lines = []
        for i, sweep in enumerate(self.moving):
            inner = self._divisors[i + 1 :]
            text = "spot"
            if inner:
                text += f" // {factor(' * '.join(inner))}"
            lines.append(f"{sweep.tap} = {text}" + (f" % {sweep.divisor}" if i else ""))
        return lines

"""How a pool's window moves along one dimension, as text of kernels and wrappers."""

from dataclasses import dataclass

from kernelwright.ops.traits import Trait
from kernelwright.ops.windows import spread
from kernelwright.programs.program import Call
from kernelwright.teacher.tile.index import AxisText, shifted

POOLS = {
    f"{prefix}{kind}_pool{spatial}d": (kind, spatial)
    for prefix in ("", "adaptive_")
    for kind in ("avg", "max")
    for spatial in (1, 2, 3)
}
"""Operator -> (kind, number of spatial dimensions)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowSide:
    """A window along one spatial dimension of the input."""

    symbol: str
    """The symbol of the input's size: "H". The output's is "OH", a convolution kernel's "KH"."""
    kernel: int
    """Elements of the window; of an adaptive pool, the most it has in the program at hand."""
    stride: int = 1
    padding: int = 0
    """Before the first element."""

    @property
    def at(self) -> str:
        """Variable of the position in the input: "h"."""
        return self.symbol.lower()

    def begin(self, out: str) -> str:
        """Text of the input position where the window of the output at `out` starts."""
        return shifted(out if self.stride == 1 else f"{out} * {self.stride}", -self.padding)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slide(WindowSide):
    """The window of a pool along one spatial dimension."""

    dilation: int | None = None
    """None where the call has no such attribute."""
    ceil_mode: bool = False
    adaptive: int = 0
    """Output size of an adaptive pool, 0 for others."""

    @property
    def out_size(self) -> str:
        """The wrapper's expression for the output's size.

        It is PyTorch's formula with the attributes of the call, so its writer need not compute.
        """
        if self.adaptive:
            return str(self.adaptive)
        reach = str(self.kernel)
        if self.dilation is not None:
            reach = f"{self.dilation} * ({self.kernel} - 1) - 1"
        # `reach` follows a minus sign in this text, so its "- 1" is subtracted as well.
        room = f"{self.symbol} + 2 * {self.padding} - {reach}"
        if not self.ceil_mode:
            return f"({room}) // {self.stride} + 1"
        # The last window must start inside the input or its left padding.
        last = f"{self.symbol} + {self.padding} - 1"
        return f"min({room} + {self.stride} - 1, {last}) // {self.stride} + 1"

    @property
    def length(self) -> str:
        """The window's length as a kernel writes it: a number, or a symbol for an adaptive pool."""
        return f"K{self.symbol}" if self.adaptive else str(self.kernel)

    @property
    def constants(self) -> dict[str, str]:
        """Constexpr arguments that the wrapper computes."""
        if not self.adaptive:
            return {}
        # `_longest` as text, because the wrapper may meet other sizes of the input.
        uneven = f"({self.symbol} % {self.adaptive} > 0)"
        return {self.length: f"-(-{self.symbol} // {self.adaptive}) + {uneven}"}

    def start(self, out: str) -> list[str]:
        """Lines that compute the window's start, and the end of an adaptive window.

        Args:
            out: text of the output's position.
        """
        if self.adaptive:
            # PyTorch's adaptive window: the start is rounded down and the end is rounded up.
            end = f"(({out} + 1) * {self.symbol} + {self.adaptive} - 1) // {self.adaptive}"
            return [
                f"{self.at}_start = {out} * {self.symbol} // {self.adaptive}",
                f"{self.at}_end = {end}",
            ]
        return [f"{self.at}_start = {self.begin(out)}"]

    def loop(self, is_unrolled: bool) -> tuple[str, str]:
        """(loop header or "", line inside the loop that computes the position)."""
        if self.kernel == 1 and not self.adaptive:
            return "", f"{self.at} = {self.at}_start"
        # The length of an adaptive window depends on the input's size, so it is not unrolled.
        step = f"d{self.at}"
        walk = "tl.static_range" if is_unrolled and not self.adaptive else "range"
        moved = step if self.dilation in (None, 1) else f"{step} * {self.dilation}"
        return f"for {step} in {walk}({self.length}):", f"{self.at} = {self.at}_start + {moved}"

    @property
    def axis(self) -> AxisText:
        """The position as an axis; masked where the window may leave the input."""
        if self.adaptive:
            return AxisText(self.at, "", f"{self.at}_end")
        # Without these two, the output size counts only windows that lie inside the input.
        can_leave = self.padding > 0 or self.ceil_mode
        return AxisText(self.at, "", self.symbol if can_leave else "", self.padding > 0)

    def count(self, includes_padding: bool) -> str:
        """Text of the number of positions that the average counts along this dimension."""
        if self.adaptive:
            return f"({self.at}_end - {self.at}_start)"
        end = shifted(f"{self.at}_start", self.kernel)
        if not includes_padding and self.axis.bound:
            last = f"tl.minimum({end}, {self.symbol})"
            return f"({last} - tl.maximum({self.at}_start, 0))"
        if self.ceil_mode:
            # PyTorch counts positions in the padding, but no positions beyond the padding.
            limit = shifted(self.symbol, self.padding)
            return f"(tl.minimum({end}, {limit}) - {self.at}_start)"
        return str(self.kernel)


def slides(call: Call, sizes: tuple[int, ...]) -> list[Slide]:
    """The window of a pool along each spatial dimension.

    Args:
        sizes: sizes of the input's spatial dimensions.
    """
    spatial = len(sizes)
    symbols = ("D", "H", "W")[3 - spatial :]
    if call.has(Trait.ADAPTIVE):
        wanted = spread(call.arg("output_size"), spatial)
        return [
            Slide(
                symbol=s, adaptive=n if w is None else w, kernel=_longest(n, n if w is None else w)
            )
            for s, n, w in zip(symbols, sizes, wanted, strict=True)
        ]
    names = ["kernel_size", "stride", "padding"]
    kernel, stride, padding = (spread(call.arg(name), spatial) for name in names)
    dilation = (
        spread(call.arg("dilation"), spatial)
        if call.has(Trait.LARGEST_OF_WINDOWS)
        else (None,) * spatial
    )
    return [
        Slide(
            symbol=symbols[i],
            kernel=kernel[i],
            stride=stride[i],
            padding=padding[i],
            dilation=dilation[i],
            ceil_mode=call.arg("ceil_mode"),
        )
        for i in range(spatial)
    ]


def _longest(size: int, wanted: int) -> int:
    """Length of the longest window of an adaptive pool from `size` inputs to `wanted` outputs."""
    # Where sizes do not divide, a window may gain an element at both ends by rounding outwards.
    return -(-size // wanted) + (size % wanted > 0)

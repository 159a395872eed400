"""How a convolution's kernel moves along one dimension of its input, as text.

Output `o` reads the input at o * stride - padding + k * dilation for every tap `k`. A transposed
convolution gathers too: output `o` reads for every tap `k` the input at
(o + padding - k * dilation) / stride, if this is a whole number. Outputs of one phase share these
taps; the phase is `o % stride`. So a program owns outputs of one phase, and visits only its taps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any

from kernelwright.ops.traits import Trait
from kernelwright.ops.windows import full
from kernelwright.programs.program import Call
from kernelwright.teacher.tile.index import shifted, times
from kernelwright.teacher.window.slide import WindowSide


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep(WindowSide):
    """A convolution's kernel along one spatial dimension; its size has a symbol of its own."""

    dilation: int
    keeps_size: bool = False
    """Padding "same": the output is as large as the input."""

    @property
    def num_phases(self) -> int:
        """Number of groups of outputs that share taps: 1, unless a stride is transposed."""
        return 1

    @property
    def out(self) -> str:
        """Symbol of the output's size."""
        return f"O{self.symbol}"

    @property
    def pixels(self) -> str:
        """Symbol of the number of outputs of one phase."""
        return self.out

    @property
    def is_moving(self) -> bool:
        """Whether there is more than one tap to visit."""
        return self.kernel > 1

    @property
    def can_leave(self) -> bool:
        """Whether some windows hang over an edge of the input."""
        return self.padding > 0 or self.keeps_size

    @property
    def tap(self) -> str:
        """Variable that counts the taps visited."""
        return f"k{self.at}"

    @property
    def num_taps(self) -> str:
        """Text of the number of taps that are visited."""
        return f"K{self.symbol}"

    @property
    def divisor(self) -> str:
        """Text of the number of taps as a divisor: 1 where no tap is visited."""
        return self.num_taps

    @property
    def out_size(self) -> str:
        """The wrapper's text of the output's size.

        It is PyTorch's formula with the attributes of the call, so its writer need not compute.
        """
        if self.keeps_size:
            return self.symbol
        reach = f"{self.dilation} * (K{self.symbol} - 1)"
        return f"({self.symbol} + 2 * {self.padding} - {reach} - 1) // {self.stride} + 1"

    def phase_lines(self) -> list[str]:
        """Lines that compute, once a program, which taps its outputs share."""
        return []

    def move(self, tap: str) -> str:
        """Text of the distance of a tap from the window's start."""
        return tap if self.dilation == 1 else f"{tap} * {self.dilation}"

    def weight(self, tap: str) -> str:
        """Text of a visited tap's index in the kernel."""
        return tap


@dataclass(frozen=True, kw_only=True, slots=True)
class TransposedSweep(Sweep):
    """A transposed convolution's kernel along one dimension: each output gathers its terms."""

    output_padding: int

    @property
    def num_phases(self) -> int:
        return self.stride

    @property
    def pixels(self) -> str:
        return f"Q{self.symbol}" if self.stride > 1 else self.out

    @property
    def is_moving(self) -> bool:
        # With a stride, a kernel of one element has no tap for the outputs of some phases.
        return self.kernel > 1 or self.stride > 1

    @property
    def can_leave(self) -> bool:
        # A gathered position may lie before the start or behind the end, whatever the padding is.
        return True

    @property
    def tap(self) -> str:
        return f"j{self.at}" if self.stride > 1 else f"k{self.at}"

    @property
    def num_taps(self) -> str:
        return f"num_{self.at}" if self.stride > 1 else f"K{self.symbol}"

    @property
    def divisor(self) -> str:
        # A pipelined loop computes its first step before it tests whether there is one. A division
        # by zero there lets the compiler leave out the test (an illegal access on an H200).
        has_empty_phases = gcd(self.stride, self.dilation) > 1 or self.kernel < self._step
        return f"tl.maximum({self.num_taps}, 1)" if has_empty_phases else self.num_taps

    @property
    def out_size(self) -> str:
        reach = f"{self.dilation} * (K{self.symbol} - 1)"
        start = f"({self.symbol} - 1) * {self.stride} - 2 * {self.padding}"
        return f"{start} + {reach} + {self.output_padding} + 1"

    @property
    def _step(self) -> int:
        """Distance in the kernel from one tap of a phase to the next."""
        return self.stride // gcd(self.stride, self.dilation)

    def phase_lines(self) -> list[str]:
        if self.stride == 1:
            return []
        # Tap k meets an input if stride divides phase + padding - k * dilation. With g, the gcd of
        # stride and dilation, g must divide phase + padding. Then the first such k is
        # (phase + padding) / g * inverse(dilation / g) modulo stride / g, and others follow.
        lines, shared = [], gcd(self.stride, self.dilation)
        aim = shifted(f"{self.at}_phase", self.padding)
        aim = f"({aim})" if " " in aim else aim
        first = aim if shared == 1 else f"{aim} // {shared}"
        inverse = pow(self.dilation // shared, -1, self._step)
        if inverse > 1:
            first += f" * {inverse}"
        lines.append(f"{self.at}_first = {first} % {self._step}")
        taps = f"tl.cdiv(K{self.symbol} - {self.at}_first, {self._step})"
        if shared > 1:
            taps = f"tl.where({aim} % {shared} == 0, {taps}, 0)"
        return [*lines, f"{self.num_taps} = {taps}"]

    def begin(self, out: str) -> str:
        if self.stride == 1:
            return shifted(out, self.padding)
        # The division has no rest: `phase_lines` chose the first tap so, or there is no tap.
        first = times(f"{self.at}_first", str(self.dilation))
        aim = shifted(f"{self.at}_phase", self.padding)
        return f"{out} + ({aim} - {first}) // {self.stride}"

    def move(self, tap: str) -> str:
        return f"-{tap}" if self._reach == 1 else f"-{tap} * {self._reach}"

    @property
    def _reach(self) -> int:
        """Distance that the input position moves back from one visited tap to the next."""
        return self.dilation // gcd(self.stride, self.dilation)

    def weight(self, tap: str) -> str:
        if self.stride == 1:
            return tap
        return f"{self.at}_first + {times(tap, str(self._step))}"


def sweeps(call: Call, kernel: tuple[int, ...]) -> tuple[Sweep, ...]:
    """The sweeps of a convolution along each spatial dimension.

    Args:
        kernel: sizes of the weights' spatial dimensions.
    """
    spatial = len(kernel)
    symbols = ("D", "H", "W")[3 - spatial :]
    stride = full("stride", call.arg("stride"), spatial, 1)
    dilation = full("dilation", call.arg("dilation"), spatial, 1)
    keeps_size = call.arg("padding") == "same"
    if keeps_size:
        # Of an odd total PyTorch puts the extra element after the input, so this one rounds down.
        padding = tuple(d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True))
    else:
        padding = full("padding", call.arg("padding"), spatial, 0)
    form: Callable[..., Sweep] = Sweep
    further: list[dict[str, Any]] = [{"keeps_size": keeps_size}] * spatial
    if call.has(Trait.TRANSPOSED):
        form = TransposedSweep
        added = full("output_padding", call.arg("output_padding"), spatial, 0)
        further = [{"output_padding": size} for size in added]
    return tuple(
        form(
            symbol=symbols[i],
            kernel=kernel[i],
            stride=stride[i],
            padding=padding[i],
            dilation=dilation[i],
            **further[i],
        )
        for i in range(spatial)
    )

"""The one convolution of a program, read into indices and sizes."""

from collections.abc import Iterable
from math import prod
from typing import TypeVar

from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.movement.rules import COPIES
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.value_sizes import measure
from kernelwright.teacher.tile.index import Index, Term, axes_of, flat_axis, times
from kernelwright.teacher.tile.program import the_only
from kernelwright.teacher.tile.views import Side, is_view
from kernelwright.teacher.window.conv import (
    ChannelCounts,
    Channels,
    Convolution,
    other_axis,
    phase_axis,
)
from kernelwright.teacher.window.sweep import Sweep, sweeps

Form = TypeVar("Form", bound=Convolution)


def find(program: Program, form: type[Form], pixels: str) -> Form:
    """The program's one convolution, as a product of the class `form`.

    Args:
        form: ImplicitGemm or Direct.
        pixels: the tile's axis of pixels, "m" or "n".

    Raises:
        NotWritable: the program has no convolution or several; the image is neither fp32, fp16 nor
            bf16; or a call in front is too dear to be computed for every tap.
    """
    call = the_only(program, is_convolution, "convolutions")
    image, weights = (program.type_of(call.arg(name).name) for name in ("input", "weight"))
    if image.dtype not in ("float32", "float16", "bfloat16"):
        raise NotWritable(f"a convolution of {image.dtype}")
    window = sweeps(call, weights.shape[2:])
    # With one tap no element is read by several taps, so calls in front may be dear.
    if prod(sweep.kernel for sweep in window) > 1:
        _check_cheap(program, call)
    return _ConvolutionReading(program, call, window).product(form, pixels)


def is_convolution(call: Call) -> bool:
    """Whether the call is a convolution."""
    return not call.is_extern and call.operator.family == "convolution"


def _check_cheap(program: Program, call: Call) -> None:
    """Raise NotWritable if what the call reads is dear to compute more than once."""
    producer = program.producer()
    pending = list(call.refs())
    while pending:
        name = pending.pop()
        if name not in producer:
            continue
        before = program.calls[producer[name]]
        if not is_view(before) and not (before.has(Trait.CHEAP) or before.op in COPIES):
            raise NotWritable(f"{before.op} would be computed again for every tap")
        pending += before.refs()


class _ConvolutionReading:
    """A convolution's shapes, read into sizes, channel counts and indices."""

    def __init__(self, program: Program, call: Call, window: tuple[Sweep, ...]) -> None:
        self.program, self.call, self.window = program, call, window
        self.is_transposed = call.has(Trait.TRANSPOSED)
        self.image, self.weights = (call.arg(name).name for name in ("input", "weight"))
        self.image_shape = program.type_of(self.image).shape
        self.out_shape = call.types[0].shape
        self.batch = self.out_shape[: -len(window) - 1]
        self.samples = ["B"] if self.batch else []
        self.num_phases = prod(sweep.num_phases for sweep in window)

    def size(self, symbol: str) -> str:
        """The wrapper's expression for a size symbol of the image or the weights."""
        names = [*self.samples, "CIN", *(s.symbol for s in self.window)]
        weight_names = ["W0", "W1", *(f"K{s.symbol}" for s in self.window)]
        sides = [
            self._side(self.image, names),
            self._side(self.weights, weight_names),
        ]
        return measure(self.program, symbol, sides)

    def _side(self, value: str, symbols: list[str]) -> Side:
        """A value whose dimensions are axes of their own."""
        shape = self.program.type_of(value).shape
        dims = zip(symbols, shape, strict=True)
        return Side(value, tuple((Term(symbol, symbol, size),) for symbol, size in dims))

    def counts(self) -> ChannelCounts:
        """The numbers of groups and channels, with their wrapper texts."""
        groups = self.call.arg("groups")
        place = -len(self.window) - 1
        taken = self.image_shape[place] // groups
        # Depthwise, there are as many groups as channels, whatever number the program has.
        groups_text = self.size("CIN") if taken == 1 else str(groups)
        total = self.size("CIN" if self.is_transposed else "W0")
        share = total if groups == 1 else f"{total} // {groups_text}"
        # Weights are (out, in / groups, ...), and (in, out / groups, ...) if the convolution is
        # transposed.
        if self.is_transposed:
            made_text, taken_text = self.size("W1"), share
            total = made_text if groups == 1 else f"{groups_text} * {made_text}"
        else:
            made_text, taken_text = share, self.size("W1")
        return ChannelCounts(
            groups=groups,
            taken=taken,
            made=self.out_shape[place] // groups,
            groups_text=groups_text,
            taken_text=taken_text,
            made_text=made_text,
            total_text=total,
        )

    def product(self, form: type[Form], pixels: str) -> Form:
        """The convolution in this form, with all its indices and sizes."""
        counts = self.counts()
        channels, channel_sizes = form.split(counts, other_axis(pixels))
        pixel_index = self.pixel_index(pixels)
        index = self.out_index(pixel_index, channels)
        apart = counts.groups if "b" in axes_of(index) else 1
        batch_size, batch_position = _batch(apart, self.num_phases)
        # Outputs of one phase meet every num_phases-th tap, so their sums are that much shorter.
        lengths = {
            pixels: prod(term.length for dim in pixel_index for term in dim),
            other_axis(pixels): counts.made * counts.groups // apart,
            "k": max(1, counts.taken * prod(s.kernel for s in self.window) // self.num_phases),
        }
        sizes = self.sizes(channel_sizes)
        sizes[pixels.upper()] = times(*(term.size for dim in pixel_index for term in dim))
        if apart * self.num_phases > 1:
            lengths["b"] = apart * self.num_phases
            parts = [apart, *(sweep.num_phases for sweep in self.window)]
            sizes[batch_size] = " * ".join(str(count) for count in parts if count > 1)
        return form(
            program=self.program,
            call=self.call,
            index=index,
            sizes=sizes,
            lengths=lengths,
            batch_size=batch_size,
            batch_position=batch_position,
            constants={name: name for name in self.constants(sizes, pixels, batch_size)},
            image=Side(self.image, self.image_index(pixel_index, channels)),
            weights=Side(self.weights, self.weight_index(channels)),
            sweeps=self.window,
            pixels=pixels,
            counts=counts,
            pixel_index=pixel_index,
        )

    def constants(self, sizes: Iterable[str], pixels: str, batch_size: str) -> list[str]:
        """Symbols of sizes that kernels have as constants: taps, channels, sides of image and
        output. The compiler unrolls loops over taps, and knows how loads are aligned.

        The number of samples stays an argument, and so do numbers that depend on it. The number of
        output channels stays an argument too, if the weights do not lie along them: as a constant,
        it cost registers (152 bytes of spills at 8 channels, 32 x 128).
        """
        arguments = {*self.samples, pixels.upper(), batch_size}
        if not self.is_transposed:
            arguments.add(other_axis(pixels).upper())
        return [symbol for symbol in sizes if symbol not in arguments]

    def pixel_index(self, pixels: str) -> Index:
        """Index of a pixel of one phase: (sample, *positions), along the axis `pixels`."""
        lengths = [
            # Rounded up: the last phases have one output less, and masks leave out the rest.
            -(-n // sweep.num_phases)
            for n, sweep in zip(self.out_shape[-len(self.window) :], self.window, strict=True)
        ]
        symbols = [*self.samples, *(sweep.pixels for sweep in self.window)]
        return flat_axis(pixels, symbols, (*self.batch, *lengths))

    def out_index(self, pixel_index: Index, channels: Channels) -> Index:
        """Index of the output. A dimension with phases has an axis of its own."""
        at = len(self.batch)
        places = [
            (Term(phase_axis(sweep), sweep.out, size),) if sweep.num_phases > 1 else place
            for sweep, size, place in zip(
                self.window, self.out_shape[at + 1 :], pixel_index[at:], strict=True
            )
        ]
        return (*pixel_index[:at], channels.group + channels.made, *places)

    def image_index(self, pixel_index: Index, channels: Channels) -> Index:
        """Index of the image. Its spatial dimensions walk axes "d", "h" and "w"."""
        at = len(self.batch)
        places = [
            (Term(sweep.at, sweep.symbol, size),)
            for sweep, size in zip(self.window, self.image_shape[at + 1 :], strict=True)
        ]
        return (*pixel_index[:at], channels.group + channels.taken, *places)

    def weight_index(self, channels: Channels) -> Index:
        """Index of the weights. A transposed convolution has the input's channels first."""
        taps = [
            (Term(f"k{sweep.at}", f"K{sweep.symbol}", sweep.kernel),) if sweep.is_moving else ()
            for sweep in self.window
        ]
        if self.is_transposed:
            return (channels.group + channels.taken, channels.made, *taps)
        return (channels.group + channels.made, channels.taken, *taps)

    def sizes(self, channel_sizes: dict[str, str]) -> dict[str, str]:
        """Size symbols -> wrapper text, in an order that can be executed."""
        kernel = [f"K{sweep.symbol}" for sweep in self.window]
        read = [*self.samples, *(sweep.symbol for sweep in self.window), *kernel]
        phases = {
            sweep.pixels: f"triton.cdiv({sweep.out}, {sweep.num_phases})"
            for sweep in self.window
            if sweep.num_phases > 1
        }
        return (
            {symbol: self.size(symbol) for symbol in read}
            | channel_sizes
            | {sweep.out: sweep.out_size for sweep in self.window}
            | phases
        )


def _batch(groups: int, phases: int) -> tuple[str, str]:
    """Symbol of the number of independent products, and the variable of one of them."""
    if groups > 1 and phases > 1:
        return "PARTS", "part"
    return ("PHASES", "phase") if phases > 1 else ("G", "group")

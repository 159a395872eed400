"""A program whose kernels own tiles: bodies, kernels with their arguments, and the wrapper."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType

from kernelwright.core.candidate import PRECISION, Candidate, KernelPlan
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.movement.rules import RULES
from kernelwright.teacher.source import (
    Buffer,
    Kernel,
    WrapperPart,
    assemble,
    guard,
    kernel_name,
    pointers_in,
    used_in,
)
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import AxisText, Dim, Index, View, size_of, times


@dataclass(frozen=True, kw_only=True, slots=True)
class TileChoice:
    """The choices of a kernel that its plan shows."""

    tiles: dict[str, int]
    """Tile sizes by their names in the kernel, num_warps and num_stages."""
    why: str
    precision: str = PRECISION


class TileProgram:
    """A program whose kernels own tiles of its values."""

    program: Program
    call: Call
    """The call that the kernels are made for, with what is fused around it."""

    @cached_property
    def texts(self) -> ValueSizes:
        """Sizes of all values."""
        return ValueSizes(self.program)

    @cached_property
    def is_wide(self) -> bool:
        """Whether some value has 2**31 elements or more, so that offsets need 64 bits."""
        values = [value.type for value in self.program.inputs]
        values += [result for call in self.program.calls for result in call.types]
        return any(value.numel >= 2**31 for value in values)

    def body(
        self,
        view: View,
        *,
        inside: str = "",
        loop: Collection[str] = (),
        tag: str = "",
        widens: bool = True,
    ) -> TileBody:
        """A body over axes of the kernel; `TileBody` explains the arguments."""
        return TileBody(
            self.program, view, self.texts, RULES,
            is_wide=self.is_wide, inside=inside, loop=loop, tag=tag, widens=widens,
        )  # fmt: skip

    def after(self) -> tuple[Call, ...]:
        """The calls that follow `call` in the program."""
        return self.program.calls[self.program.calls.index(self.call) + 1 :]

    def kernel(
        self,
        choice: TileChoice,
        loop: str,
        calls: Iterable[Call],
        lines: Sequence[str],
        grid: str,
        *,
        suffix: str = "",
        values: Sequence[str] = (),
        counted: Mapping[str, str] = MappingProxyType({}),
        computed: Mapping[str, str] = MappingProxyType({}),
    ) -> Kernel:
        """A kernel with the arguments that its lines name.

        Args:
            loop: the plan's name of the loop.
            calls: the calls that the kernel computes, in program order.
            lines: each `<name>_ptr` in them becomes a tensor argument, each size an argument.
            grid: text over sizes and over names of tiles (BLOCK_M), which become numbers.
            suffix: part of the kernel's name, to tell kernels of one candidate apart.
            values: the values that the kernel is named after, if not after the program's outputs.
            counted: further size symbols -> their wrapper text.
            computed: further constexpr arguments -> their wrapper text, passed if they are named.
        """
        words = set(re.findall(r"\w+", "\n".join(lines)))
        # num_warps and num_stages are options of the launch, not arguments of the kernel.
        tiles = {k: str(v) for k, v in choice.tiles.items() if not k.startswith("num_")}
        constants = {name: value for name, value in computed.items() if name in words}
        sizes = used_in(lines, self.texts.symbols | dict(counted))
        return Kernel(
            plan=KernelPlan(
                kernel=kernel_name(self.program, suffix, values),
                fuses=tuple(call.op for call in calls),
                loop=loop,
                tiles=choice.tiles,
                precision=choice.precision,
                why=choice.why,
            ),
            pointers=pointers_in(lines),
            sizes=tuple(symbol for symbol in sizes if symbol not in constants),
            body=tuple(lines),
            # Names of tiles are two words in capitals with a "_" between them; no size symbol is.
            grid=re.sub(r"\b[A-Z]+_[A-Z]+\b", lambda name: tiles[name[0]], grid),
            constants=tiles | constants,
        )

    def assembled(
        self,
        kernels: Sequence[Kernel],
        buffers: Sequence[Buffer],
        *,
        counted: Mapping[str, str] = MappingProxyType({}),
        extra: str = "",
    ) -> Candidate:
        """The candidate: a wrapper reads sizes, allocates, and launches the kernels in order.

        Args:
            buffers: tensors to allocate, outputs included.
            counted: further size symbols -> their wrapper text over the symbols of `texts`.
            extra: text of `@triton.jit` functions that the kernels call.
        """
        # Only finished kernels tell which size symbols are needed: arguments, grids and buffers.
        named = [text for one in kernels for text in (*one.sizes, one.grid)]
        named += [text for one in kernels for text in one.constants.values()]
        named += [size for buffer in buffers for size in buffer.sizes]
        read = {name for kernel in kernels for name in kernel.pointers}
        inputs = [value.name for value in self.program.inputs]
        reads = [name for name in inputs if name in read] or inputs[:1]
        guarded = guard([*reads, *(buffer.name for buffer in buffers)])
        part = WrapperPart(
            kernels=kernels,
            sizes=self.texts.needed([*named, *counted.values()]) | dict(counted),
            reads=reads,
            buffers=buffers,
            # Other sizes may come later: 32-bit offsets must not meet longer tensors then.
            guard=() if self.is_wide else (guarded,),
            extra=[extra] if extra else [],
        )
        return assemble(self.program, [part])


def the_only(program: Program, is_wanted: Callable[[Call], bool], kind: str) -> Call:
    """The one call of a kind.

    Args:
        is_wanted: whether a call is of the kind.
        kind: name of the kind, in the plural.

    Raises:
        NotWritable: the program has no such call or several.
    """
    calls = [call for call in program.calls if is_wanted(call)]
    if len(calls) != 1:
        raise NotWritable(f"{len(calls)} {kind} where one is needed")
    return calls[0]


_PLACES = {"b": ("pid_b", ""), "m": ("offs_m", "[:, None]"), "n": ("offs_n", "[None, :]")}
"""Axis -> its variable, and its place in a tile."""


def tile_axes(
    sizes: ValueSizes, value: str, members: Mapping[str, Sequence[int]]
) -> tuple[Index, View, dict[str, int]]:
    """(index of a value, the kernel's axes, their lengths).

    Args:
        members: axis "b", "m" or "n" -> dimensions of the value that walk the axis together, the
            slowest first. An axis whose dimensions have one element is left out.
    """
    dims: dict[int, Dim] = {}
    view: dict[str, AxisText] = {}
    lengths: dict[str, int] = {}
    for axis, places in members.items():
        walked = sizes.walked(value, axis, places)
        if terms := [term for [term] in walked.values()]:
            dims |= walked
            bound = sizes.symbol(times(*(term.size for term in terms)), axis.upper())
            # A program's number is always inside its axis, so "b" needs no bound.
            view[axis] = AxisText(*_PLACES[axis], "" if axis == "b" else bound)
            lengths[axis] = prod(term.length for term in terms)
    rank = sizes.program.type_of(value).rank
    return tuple(dims.get(at, ()) for at in range(rank)), view, lengths


def finish(body: TileBody, names: tuple[str, ...], known: Sequence[str] = ()) -> list[str]:
    """The last lines of a kernel: slices of axes, the body's lines, and stores of these outputs.

    Args:
        names: the outputs.
        known: earlier lines of the kernel, which are not repeated.

    Raises:
        NotWritable: an output is not on the body's path.
    """
    for name in names:
        if name not in body.path:
            raise NotWritable(f"output {name} does not come from the tile")
    stored = [body.store(f"{name}_ptr", name) for name in dict.fromkeys(names)]
    slices = [line for line in body.slices() if line not in known]
    return [*slices, *body.lines, *stored]


def out_buffers(body: TileBody, names: tuple[str, ...]) -> list[Buffer]:
    """The buffers that the wrapper allocates for these outputs, each once."""
    return [
        Buffer(
            name=name,
            sizes=tuple(size_of(dim) for dim in body.path[name]),
            dtype=body.program.type_of(name).dtype,
            layout=body.program.type_of(name).layout,
        )
        for name in dict.fromkeys(names)
    ]

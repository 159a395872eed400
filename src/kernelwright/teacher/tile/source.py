"""Kernels of tiles put together: arguments found from their bodies, and the wrapper."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.programs.program import Call, Program
from kernelwright.teacher import source
from kernelwright.teacher.source import Buffer, Kernel, WrapperPart, guard, pointers_in, used_in
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import AxisText, Dim, Index, View, size_of, times


def is_wide(program: Program) -> bool:
    """Whether some value has 2**31 elements or more, so that offsets need 64 bits."""
    types = [*(i.type for i in program.inputs), *(t for c in program.calls for t in c.types)]
    return any(t.numel >= 2**31 for t in types)


def kernel(
    plan: KernelPlan,
    body: Sequence[str],
    grid: str,
    sizes: Mapping[str, str],
    computed: Mapping[str, str] | None = None,
) -> Kernel:
    """A kernel with the arguments that its body names.

    Args:
        body: lines. Each `<name>_ptr` in them becomes a tensor argument.
        grid: text over sizes and over names of tiles (BLOCK_M), which become numbers.
        sizes: size symbols of the wrapper -> text. Those that `used_in` finds are passed.
        computed: further constexpr arguments -> text of the value. Those in the body are passed.
    """
    words = set(re.findall(r"\w+", "\n".join(body)))
    tiles = {k: str(v) for k, v in plan.tiles.items() if not k.startswith("num_")}
    constants = {name: value for name, value in (computed or {}).items() if name in words}
    return Kernel(
        plan=plan,
        pointers=pointers_in(body),
        sizes=tuple(symbol for symbol in used_in(body, sizes) if symbol not in constants),
        body=tuple(body),
        grid=re.sub(r"\b[A-Z]+_[A-Z]+\b", lambda found: tiles[found[0]], grid),
        constants=tiles | constants,
    )


def assemble(
    texts: ValueSizes,
    buffers: Sequence[Buffer],
    kernels: Sequence[Kernel],
    *,
    is_wide: bool,
    counted: Mapping[str, str] = MappingProxyType({}),
    extra: str = "",
) -> Candidate:
    """The candidate: the kernels, and a wrapper that reads sizes, allocates and launches in order.

    Args:
        texts: sizes of the program's values; the wrapper computes those that are needed.
        buffers: tensors to allocate, outputs included.
        is_wide: whether offsets have 64 bits. If not, the wrapper asserts that 32 bits suffice.
        counted: further size symbols -> their wrapper text over the symbols of `texts`.
        extra: text of `@triton.jit` functions that the kernels call.
    """
    # Only finished kernels tell which size symbols are needed: arguments, grids and buffers.
    named = [text for one in kernels for text in (*one.sizes, one.grid, *one.constants.values())]
    named += [size for buffer in buffers for size in buffer.sizes]
    program, read = texts.program, {name for kernel in kernels for name in kernel.pointers}
    inputs = [value.name for value in program.inputs]
    reads = [name for name in inputs if name in read] or inputs[:1]
    part = WrapperPart(
        kernels=kernels,
        sizes=texts.needed([*named, *counted.values()]) | dict(counted),
        reads=reads,
        buffers=buffers,
        guard=() if is_wide else (guard([*reads, *(buffer.name for buffer in buffers)]),),
        extra=[extra] if extra else [],
    )
    return source.assemble(program, [part])


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


def after(program: Program, call: Call) -> tuple[Call, ...]:
    """The calls that follow a call in the program."""
    return program.calls[program.calls.index(call) + 1 :]


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

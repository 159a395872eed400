"""Text of candidates: plan comments, kernels, and the wrapper that launches them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.plan import plan_comment
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program

_DIM = re.compile(r"(\w+)\.shape\[(\d+)\]")
HEADER = """\
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice"""
"""The same above all candidates: a model that writes one need not know yet what it will call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One `@triton.jit` function and the call that launches it."""

    plan: KernelPlan
    pointers: tuple[str, ...]
    """Tensors in argument order; each becomes `<name>_ptr`."""
    sizes: tuple[str, ...]
    """Run-time integers, passed by their own names."""
    body: tuple[str, ...]
    """Lines, indented relative to the function's own level."""
    grid: str
    """Text of the launch grid, a tuple."""
    constants: Mapping[str, str] = field(default_factory=dict)
    """`tl.constexpr` parameter -> its text at the call."""
    is_cooperative: bool = False
    """Its programs wait for each other: the launch fails where they cannot all run at once."""


def row_tile(count: str, elements: int) -> dict[str, str]:
    """Wrapper variables BLOCK and ROWS of a tile of whole rows -> their texts.

    Args:
        count: text of the length of a row.
        elements: elements of the tile, about; a longer row is alone in its tile.
    """
    return {"BLOCK": f"triton.next_power_of_2({count})", "ROWS": f"max(1, {elements} // BLOCK)"}


def planned(constants: Mapping[str, str]) -> dict[str, int]:
    """The tile sizes of a plan: constants that the launch gives as numbers."""
    return {name: int(text) for name, text in constants.items() if text.isdigit()}


def used_in(lines: Sequence[str], sizes: Mapping[str, str]) -> tuple[str, ...]:
    """The sizes that a kernel takes as arguments, in the order of `sizes`.

    These are the sizes that its lines read. If the lines read one dimension of a tensor, the other
    dimensions of this tensor are arguments too.

    Args:
        sizes: size symbols -> their wrapper text.
    """
    # A model writes the arguments before the body. Only the last line shows which dimensions are
    # read, but that the tensor is read is known at once.
    words = set(re.findall(r"\w+", " ".join(lines)))
    read = {names_dim(name, symbol) for name, symbol in sizes.items() if name in words} - {""}
    return tuple(
        name for name, symbol in sizes.items() if name in words or names_dim(name, symbol) in read
    )


def names_dim(symbol: str, made: str) -> str:
    """The tensor x0 of a symbol X0D1 whose wrapper text is x0.shape[1]; "" for other symbols."""
    match = _DIM.fullmatch(made)
    return match[1] if match and symbol == f"{match[1]}D{match[2]}".upper() else ""


def size_lines(program: Program, sizes: Mapping[str, str]) -> list[str]:
    """Wrapper lines that set sizes: one line for each tensor's dimensions, then computed sizes.

    Args:
        sizes: size symbols -> text, in an order that can be executed.
    """
    ranks = {value.name: value.type.rank for value in program.inputs}
    dims: dict[str, dict[int, str]] = {}
    for symbol, text in sizes.items():
        if (match := _DIM.fullmatch(text)) and match[1] in ranks:
            dims.setdefault(match[1], {})[int(match[2])] = symbol
    lines = [_unpacked(name, ranks[name], read) for name, read in dims.items()]
    read = {symbol for dim in dims.values() for symbol in dim.values()}
    lines += [f"{symbol} = {text}" for symbol, text in sizes.items() if symbol not in read]
    return [f"    {line}" for line in lines]


def _unpacked(name: str, rank: int, symbols: Mapping[int, str]) -> str:
    """The line that reads dimensions of a tensor.

    Args:
        symbols: dimension -> the symbol to set. Other dimensions go to `_`.
    """
    if len(symbols) == 1:
        [(at, symbol)] = symbols.items()
        return f"{symbol} = {name}.shape[{at}]"
    return f"{', '.join(symbols.get(at, '_') for at in range(rank))} = {name}.shape"


def kernel_name(program: Program, suffix: str = "", values: Sequence[str] = ()) -> str:
    """The kernel's name, `lerp_t5_kernel`, after the last output or the last of `values`.

    Args:
        suffix: tells kernels apart that work for the same outputs.
    """
    title = program.title(values or program.outputs)
    return "_".join([title, *([suffix] if suffix else []), "kernel"])


def pointers_in(lines: Iterable[str]) -> tuple[str, ...]:
    """Names of the tensors whose pointers lines use: x0, x1 ..., then t0, t1 ..., then others.

    Buffers named after a value (`t3_parts`) stand beside that value.
    """
    names = dict.fromkeys(re.findall(r"\b(\w+)_ptr\b", "\n".join(lines)))
    return tuple(sorted(names, key=_place))


def _place(name: str) -> tuple[int, int]:
    """The sort key of a tensor name: (inputs, values or others; number)."""
    value = re.match(r"([xt])(\d+)", name)
    return ("xt".index(value[1]), int(value[2])) if value else (2, 0)


def kernel_text(kernel: Kernel) -> str:
    """The text of a kernel: its plan as a comment, then the `@triton.jit` function."""
    head = _grouped(
        f"def {kernel.plan.kernel}(",
        [f"{name}_ptr" for name in kernel.pointers],
        kernel.sizes,
        [f"{name}: tl.constexpr" for name in kernel.constants],
        "):",
    )
    body = [f"    {line}" for line in kernel.body]
    return "\n".join([*plan_comment(kernel.plan), "@triton.jit", *head, *body])


def launch_lines(kernel: Kernel) -> list[str]:
    """The call that launches a kernel, inside the wrapper."""
    keywords = dict(kernel.constants)
    keywords |= {
        k: str(v) for k, v in kernel.plan.tiles.items() if k in ("num_warps", "num_stages")
    }
    if kernel.is_cooperative:
        keywords["launch_cooperative_grid"] = "True"
    lines = _grouped(
        f"{kernel.plan.kernel}[{kernel.grid}](",
        kernel.pointers,
        kernel.sizes,
        [f"{name}={text}" for name, text in keywords.items()],
        ")",
    )
    return [f"    {line}" for line in lines]


def _grouped(
    head: str, pointers: Sequence[str], sizes: Sequence[str], rest: Sequence[str], tail: str
) -> list[str]:
    """Lines of a parameter or argument list: one line for each kind of argument."""
    # Lines are not broken by length, because a model that writes tokens cannot see lengths.
    kinds = (kind for kind in (pointers, sizes, rest) if kind)
    return [head, *(f"    {', '.join(kind)}," for kind in kinds), tail]


def normalise(name: str, made: TensorType) -> str:
    """Wrapper line that brings a tensor into the memory layout the kernels assume."""
    if made.layout is Layout.CONTIGUOUS:
        return f"{name} = {name}.contiguous()"
    return f"{name} = {name}.contiguous(memory_format={_memory_format(made.rank)})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Buffer:
    """A tensor that the wrapper allocates."""

    name: str
    sizes: tuple[str, ...]
    """Text of each dimension's size."""
    dtype: str = "float32"
    layout: Layout = Layout.CONTIGUOUS


def allocate(buffer: Buffer, like: str) -> str:
    """The wrapper's line that allocates a buffer on the device of the tensor `like`."""
    shape = f"({', '.join(buffer.sizes)}{',' if len(buffer.sizes) == 1 else ''})"
    items = [shape, f"device={like}.device", f"dtype=torch.{buffer.dtype}"]
    if buffer.layout is Layout.CHANNELS_LAST:
        items.append(f"memory_format={_memory_format(len(buffer.sizes))}")
    return f"    {buffer.name} = torch.empty({', '.join(items)})"


def _memory_format(rank: int) -> str:
    return "torch.channels_last" if rank == 4 else "torch.channels_last_3d"


def guard(names: Sequence[str], further: Sequence[str] = ()) -> str:
    """The wrapper's assertion that 32-bit offsets reach every element of these tensors.

    All tensors are named, so that a model which writes the line need not find the largest one.

    Args:
        further: texts of numbers of elements that no tensor has, such as those of pulled values.
    """
    counts = [*(f"{name}.numel()" for name in names), *further]
    return f'    assert max({", ".join(counts)}) < 2**31, "too many elements"'


def candidate(
    inputs: Sequence[str], wrapper: Sequence[str], kernels: Sequence[Kernel], extra: str = ""
) -> Candidate:
    """The candidate with this source: imports, `extra`, kernels, then `fused_operator`.

    Args:
        inputs: names of `fused_operator`'s parameters.
        wrapper: lines of `fused_operator`'s body, indented.
        extra: text of `@triton.jit` functions that the kernels call.
    """
    texts = [kernel_text(kernel) for kernel in kernels]
    body = "\n".join([f"def fused_operator({', '.join(inputs)}):", *wrapper])
    parts = [HEADER, *([extra] if extra else []), *texts, body]
    return Candidate(source="\n\n\n".join(parts) + "\n", plan=tuple(k.plan for k in kernels))


@dataclass(frozen=True, kw_only=True, slots=True)
class WrapperPart:
    """A part of `fused_operator`: sizes, allocations and launches of some kernels, in order."""

    kernels: Sequence[Kernel]
    sizes: Mapping[str, str]
    """Size argument or block variable -> its text in the wrapper, in order of use."""
    reads: Collection[str]
    """Tensors in memory that the kernels read."""
    buffers: Sequence[Buffer] = ()
    """Memory that the wrapper allocates: outputs, and what is passed between kernels."""
    guard: Sequence[str] = ()
    """The assertion that 32-bit offsets suffice, where offsets have 32 bits."""
    extra: Sequence[str] = ()
    """`@triton.jit` functions that the kernels call."""


def assemble(program: Program, parts: Sequence[WrapperPart]) -> Candidate:
    """The candidate of all parts, launched in order in one `fused_operator`.

    Each part sets its sizes anew, because parts may use one name for different sizes.
    """
    parameters = [value.name for value in program.inputs]
    read = {name for part in parts for name in part.reads}
    lines = [
        f"    {normalise(value.name, value.type)}" for value in program.inputs if value.name in read
    ]
    for part in parts:
        lines += size_lines(program, part.sizes)
        lines += [allocate(buffer, parameters[0]) for buffer in part.buffers]
        lines += part.guard
        for kernel in part.kernels:
            lines += launch_lines(kernel)
    lines.append(f"    return [{', '.join(program.outputs)}]")
    kernels = [kernel for part in parts for kernel in part.kernels]
    extra = dict.fromkeys(function for part in parts for function in part.extra)
    return candidate(parameters, lines, kernels, "\n\n\n".join(extra))

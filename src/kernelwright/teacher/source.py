"""Text of candidates: plan comments, kernels, and the wrapper that launches them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kernelwright.core.candidate import Candidate, KernelPlan
from kernelwright.core.plan import MAX_LINE, plan_comment
from kernelwright.ops.operator import Layout, TensorType
from kernelwright.programs.program import Program

MAX_INT32 = 2**31 - 1


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


def row_tile(count: str, elements: int) -> dict[str, str]:
    """Wrapper variables of a tile that holds whole rows of `count`, about `elements` in all."""
    return {"BLOCK": f"triton.next_power_of_2({count})", "ROWS": f"max(1, {elements} // BLOCK)"}


def used_in(lines: Sequence[str], sizes: Iterable[str]) -> tuple[str, ...]:
    """The sizes that a kernel's lines read; the others only its grid needs."""
    words = set(re.findall(r"\w+", " ".join(lines)))
    return tuple(name for name in sizes if name in words)


def kernel_name(program: Program, suffix: str = "", values: Sequence[str] = ()) -> str:
    """`lerp_t5_kernel`: after the last of the program's outputs, or of some values.

    Args:
        suffix: tells kernels apart that work for the same outputs.
    """
    title = program.title(values or program.outputs)
    return "_".join([title, *([suffix] if suffix else []), "kernel"])


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Tensors as kernels take them: the program's inputs, then other values, each followed by what
    is made on the way to it, then memory named after no value."""
    return tuple(sorted(names, key=_place))


def _place(name: str) -> tuple[int, int]:
    value = re.match(r"([xt])(\d+)", name)
    return ("xt".index(value[1]), int(value[2])) if value else (2, 0)


def kernel_text(kernel: Kernel) -> str:
    """Plan comment and function of a kernel."""
    parameters = [
        *(f"{name}_ptr" for name in kernel.pointers),
        *kernel.sizes,
        *(f"{name}: tl.constexpr" for name in kernel.constants),
    ]
    head = call_lines(f"def {kernel.plan.kernel}(", parameters, "):", "")
    body = [part for line in kernel.body for part in _wrapped(f"    {line}")]
    return "\n".join([*plan_comment(kernel.plan), "@triton.jit", *head, *body])


def _wrapped(line: str) -> list[str]:
    """A line of code; one too long has the arguments of its longest call on lines of their own."""
    calls = [] if len(line) <= MAX_LINE else _groups(line)
    if not calls:
        return [line]
    start, end = max(calls, key=lambda call: call[1] - call[0])
    commas = [i for i in range(start, end) if line[i] == "," and _depth(line[start:i]) == 1]
    ends = [start, *commas, end]
    items = [line[a + 1 : b].strip() for a, b in pairwise(ends)]
    code = line.lstrip()
    indent = line[: len(line) - len(code)]
    return call_lines(line[len(indent) : start + 1], items, line[end:], indent)


def _groups(line: str) -> list[tuple[int, int]]:
    """Where the calls of a line open and close that lie in no other parentheses."""
    found, start = [], 0
    for i, letter in enumerate(line):
        if letter == "(" and _depth(line[:i]) == 0:
            start = i
        elif letter == ")" and _depth(line[:i]) == 1 and line[start - 1].isalnum():
            found.append((start, i))
    return found


def _depth(text: str) -> int:
    """How many parentheses and brackets are open at the end of a text."""
    return sum(text.count(opening) for opening in "([") - sum(text.count(end) for end in ")]")


def launch_lines(kernel: Kernel) -> list[str]:
    """The call that launches a kernel, inside the wrapper."""
    options = {k: v for k, v in kernel.plan.tiles.items() if k in ("num_warps", "num_stages")}
    arguments = [
        *kernel.pointers,
        *kernel.sizes,
        *(f"{name}={text}" for name, text in kernel.constants.items()),
        *(f"{name}={value}" for name, value in options.items()),
    ]
    return call_lines(f"{kernel.plan.kernel}[{kernel.grid}](", arguments, ")", "    ")


def call_lines(head: str, items: Sequence[str], tail: str, indent: str) -> list[str]:
    """`head` items `tail`, on one line where it fits, else items in filled lines."""
    single = f"{indent}{head}{', '.join(items)}{tail}"
    if len(single) <= MAX_LINE:
        return [single]
    lines, line = [f"{indent}{head}"], ""
    for item in items:
        if line and len(indent) + 4 + len(line) + len(item) + 2 > MAX_LINE:
            lines.append(f"{indent}    {line.rstrip()}")
            line = ""
        line += f"{item}, "
    return [*lines, f"{indent}    {line.rstrip()}", f"{indent}{tail}"]


def normalise(name: str, made: TensorType) -> str:
    """Wrapper line that brings a tensor into the memory layout the kernels assume."""
    if made.layout is Layout.CONTIGUOUS:
        return f"{name} = {name}.contiguous()"
    return f"{name} = {name}.contiguous(memory_format={_memory_format(made)})"


def allocate(name: str, made: TensorType, shape: str, like: str) -> list[str]:
    """Wrapper lines that make an output; `like` is a tensor on its device."""
    items = [shape, f"device={like}.device", f"dtype=torch.{made.dtype}"]
    if made.layout is Layout.CHANNELS_LAST:
        items.append(f"memory_format={_memory_format(made)}")
    return call_lines(f"{name} = torch.empty(", items, ")", "    ")


def _memory_format(made: TensorType) -> str:
    return "torch.channels_last" if made.rank == 4 else "torch.channels_last_3d"


def candidate(
    inputs: Sequence[str], wrapper: Sequence[str], kernels: Sequence[Kernel], extra: str = ""
) -> Candidate:
    """A candidate from its parts.

    Args:
        wrapper: lines of `fused_operator`'s body, indented.
        extra: `@triton.jit` functions that the kernels call.
    """
    texts = [kernel_text(kernel) for kernel in kernels]
    body = "\n".join([f"def fused_operator({', '.join(inputs)}):", *wrapper])
    header = ["import torch", "import triton", "import triton.language as tl"]
    if any("libdevice." in text for text in (extra, *texts)):
        header.append("from triton.language.extra import libdevice")
    parts = ["\n".join(header), *([extra] if extra else []), *texts, body]
    return Candidate(source="\n\n\n".join(parts) + "\n", plan=tuple(k.plan for k in kernels))

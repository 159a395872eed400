"""The `fused_operator` around kernels: layouts in, sizes, outputs, launches, results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.graph import Stage, Tensor, is_huge
from kernelwright.teacher.source import (
    Kernel,
    allocate,
    candidate,
    in_order,
    launch_lines,
    normalise,
)
from kernelwright.teacher.space import shape_text, size_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """What one stage becomes."""

    stage: Stage
    kernels: Sequence[Kernel]
    sizes: Mapping[str, str]
    """Size argument or block variable -> its text in the wrapper, in order of use."""
    buffers: Sequence[str] = ()
    """Wrapper lines that make memory passed between the part's kernels."""
    extra: str = ""
    """`@triton.jit` functions that the kernels call."""


def assemble(program: Program, parts: Sequence[Part]) -> Candidate:
    """The candidate of all stages; sizes are set anew for each."""
    given = [value.name for value in program.inputs]
    read = [one for part in parts for t in part.stage.inputs for one in (t.reads or (t,))]
    types = {one.name: one.type for one in read if one.name in given}
    lines = [f"    {normalise(name, types[name])}" for name in in_order(types)]
    for part in parts:
        lines += [f"    {name} = {text}" for name, text in part.sizes.items()]
        lines += _limit(part.stage)
        for tensor in part.stage.outputs:
            lines += _allocate(part.stage, tensor)
        lines += [f"    {line}" for line in part.buffers]
        for kernel in part.kernels:
            lines += launch_lines(kernel)
    lines.append(f"    return [{', '.join(program.outputs)}]")
    kernels = [kernel for part in parts for kernel in part.kernels]
    extra = next((part.extra for part in parts if part.extra), "")
    return candidate(given, lines, kernels, extra)


def _allocate(stage: Stage, tensor: Tensor) -> list[str]:
    for given in stage.inputs:
        if (given.type, given.dims) == (tensor.type, tensor.dims) and not given.is_pulled:
            return [f"    {tensor.name} = torch.empty_like({given.name})"]
    return allocate(tensor.name, tensor.type, shape_text(stage, tensor), stage.like)


def _limit(stage: Stage) -> list[str]:
    """The check that int32 offsets reach; nothing where they are int64 anyway."""
    if is_huge(stage):
        return []
    largest = max((*stage.inputs, *stage.outputs), key=lambda t: t.type.numel)
    text = size_text(stage, largest.order)
    pulled = dict.fromkeys(f"{one.name}.numel()" for t in stage.inputs for one in t.reads)
    if pulled:
        text = f"max({', '.join((text, *pulled))})"
    return [
        f"    if {text} >= 2**31:",
        '        raise ValueError("too many elements for 32-bit offsets")',
    ]

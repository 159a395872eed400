"""The `fused_operator` around kernels: layouts in, sizes, outputs, launches, results."""

from collections.abc import Mapping, Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.graph import Stage, Tensor
from kernelwright.teacher.source import (
    MAX_INT32,
    Kernel,
    allocate,
    candidate,
    launch_lines,
    normalise,
)
from kernelwright.teacher.space import shape_text, size_text


def assemble(
    program: Program,
    stage: Stage,
    kernels: Sequence[Kernel],
    sizes: Mapping[str, str],
    buffers: Sequence[str] = (),
    extra: str = "",
) -> Candidate:
    """A candidate of kernels that share their sizes.

    Args:
        sizes: size argument or block variable -> its text, in order of use.
        buffers: wrapper lines that make memory passed between kernels.
    """
    like = stage.inputs[0].name
    lines = [f"    {normalise(tensor.name, tensor.type)}" for tensor in stage.inputs]
    lines += [f"    {name} = {text}" for name, text in sizes.items()]
    lines += _limit(stage)
    for tensor in stage.outputs:
        lines += _allocate(stage, tensor, like)
    lines += [f"    {line}" for line in buffers]
    for kernel in kernels:
        lines += launch_lines(kernel)
    lines.append(f"    return [{', '.join(program.outputs)}]")
    return candidate([given.name for given in program.inputs], lines, kernels, extra)


def is_huge(stage: Stage) -> bool:
    """Whether offsets need 64 bits at the program's own shapes."""
    return any(t.type.numel > MAX_INT32 for t in (*stage.inputs, *stage.outputs))


def _allocate(stage: Stage, tensor: Tensor, like: str) -> list[str]:
    for given in stage.inputs:
        if (given.type, given.dims) == (tensor.type, tensor.dims):
            return [f"    {tensor.name} = torch.empty_like({given.name})"]
    return allocate(tensor.name, tensor.type, shape_text(stage, tensor), like)


def _limit(stage: Stage) -> list[str]:
    """The check that int32 offsets reach; nothing where they are int64 anyway."""
    if is_huge(stage):
        return []
    largest = max((*stage.inputs, *stage.outputs), key=lambda t: t.type.numel)
    return [
        f"    if {size_text(stage, largest.order)} >= 2**31:",
        '        raise ValueError("too many elements for 32-bit offsets")',
    ]

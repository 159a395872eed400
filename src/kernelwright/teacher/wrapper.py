"""The `fused_operator` around kernels: layouts in, sizes, outputs, launches, results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.programs.program import Program
from kernelwright.teacher.movement.pulled import may_grow
from kernelwright.teacher.nodes.graph import KernelStage, Tensor, is_huge
from kernelwright.teacher.source import (
    Buffer,
    Kernel,
    allocate,
    candidate,
    guard,
    launch_lines,
    normalise,
    size_lines,
)
from kernelwright.teacher.text.space import shape_texts, size_text


@dataclass(frozen=True, kw_only=True, slots=True)
class WrapperPart:
    """The part of the wrapper that one stage becomes."""

    stage: KernelStage
    kernels: Sequence[Kernel]
    sizes: Mapping[str, str]
    """Size argument or block variable -> its text in the wrapper, in order of use."""
    buffers: Sequence[Buffer] = ()
    """Memory passed between the part's kernels."""
    extra: Sequence[str] = ()
    """`@triton.jit` functions that the kernels call."""


def assemble(program: Program, parts: Sequence[WrapperPart]) -> Candidate:
    """The candidate of all stages, launched in order in one `fused_operator`.

    Each part sets its sizes anew, because parts may use one name for different sizes.
    """
    parameters = [value.name for value in program.inputs]
    read = set[str]().union(*(_read(part.stage) for part in parts))
    lines = [
        f"    {normalise(value.name, value.type)}" for value in program.inputs if value.name in read
    ]
    for part in parts:
        lines += size_lines(program, part.sizes)
        buffers = [*(_buffer(part.stage, tensor) for tensor in part.stage.outputs), *part.buffers]
        lines += [allocate(buffer, parameters[0]) for buffer in buffers]
        if not is_huge(part.stage):
            lines.append(_guard(part.stage, buffers))
        for kernel in part.kernels:
            lines += launch_lines(kernel)
    lines.append(f"    return [{', '.join(program.outputs)}]")
    kernels = [kernel for part in parts for kernel in part.kernels]
    extra = dict.fromkeys(function for part in parts for function in part.extra)
    return candidate(parameters, lines, kernels, "\n\n\n".join(extra))


def _buffer(stage: KernelStage, tensor: Tensor) -> Buffer:
    """The buffer that the wrapper allocates for an output of a stage."""
    return Buffer(
        name=tensor.name,
        sizes=shape_texts(stage, tensor),
        dtype=tensor.type.dtype,
        layout=tensor.type.layout,
    )


def _read(stage: KernelStage) -> set[str]:
    """Names of the tensors in memory that a stage reads, those behind pulled values included."""
    return {one.name for t in stage.inputs for one in (t.reads if t.is_pulled else (t,))}


def _guard(stage: KernelStage, made: Sequence[Buffer]) -> str:
    """The assertion that 32-bit offsets reach all that a stage reads or makes."""
    # A kernel also counts the elements of pulled values, which may be more than those of inputs.
    program, read = stage.graph.program, _read(stage)
    parameters = [value.name for value in program.inputs]
    passed = [t.name for t in stage.inputs if t.name in read and t.name not in parameters]
    names = [*(name for name in parameters if name in read), *passed, *(one.name for one in made)]
    pulled = [t for t in stage.inputs if t.is_pulled and may_grow(program, t.name)]
    return guard(names, [size_text(stage, t.order) for t in pulled])

"""The part of `fused_operator` around the kernels of a stage: sizes, outputs, the guard."""

from collections.abc import Mapping, Sequence

from kernelwright.teacher.movement.pulled import may_grow
from kernelwright.teacher.nodes.graph import KernelStage, is_huge
from kernelwright.teacher.source import Buffer, Kernel, WrapperPart, guard
from kernelwright.teacher.text.space import shape_texts, size_text


def stage_part(
    stage: KernelStage,
    kernels: Sequence[Kernel],
    sizes: Mapping[str, str],
    buffers: Sequence[Buffer] = (),
    extra: Sequence[str] = (),
) -> WrapperPart:
    """The part of the wrapper that one stage becomes; its outputs are allocated first."""
    outputs = [
        Buffer(
            name=tensor.name,
            sizes=shape_texts(stage, tensor),
            dtype=tensor.type.dtype,
            layout=tensor.type.layout,
        )
        for tensor in stage.outputs
    ]
    # Names of the tensors in memory, those behind pulled values included.
    reads = {one.name for t in stage.inputs for one in (t.reads if t.is_pulled else (t,))}
    return WrapperPart(
        kernels=kernels,
        sizes=sizes,
        reads=reads,
        buffers=[*outputs, *buffers],
        guard=() if is_huge(stage) else (_guard(stage, reads, [*outputs, *buffers]),),
        extra=extra,
    )


def _guard(stage: KernelStage, reads: set[str], buffers: Sequence[Buffer]) -> str:
    """The assertion that 32-bit offsets reach all that a stage reads or makes."""
    # A kernel also counts the elements of pulled values, which may be more than those of inputs.
    program = stage.graph.program
    parameters = [value.name for value in program.inputs]
    passed = [t.name for t in stage.inputs if t.name in reads and t.name not in parameters]
    names = [name for name in parameters if name in reads] + passed
    pulled = [t for t in stage.inputs if t.is_pulled and may_grow(program, t.name)]
    further = [size_text(stage, t.order) for t in pulled]
    return guard([*names, *(buffer.name for buffer in buffers)], further)

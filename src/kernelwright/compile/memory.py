"""The memory of what graphs take and return: views, layouts, copies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.ops.operator import Layout
from kernelwright.programs import extern
from kernelwright.programs.fragment import RELABELLING
from kernelwright.programs.program import Call, Program
from kernelwright.programs.tensors import layout_of

VIEWS = RELABELLING | {"to_layout"}
"""Operators whose results may show the memory of their first operand."""
LAUNCH_BYTES = 1 << 23
"""Memory traffic that takes a GPU as long as the launch of a copy."""


class StaysWithInductor(Exception):
    """A graph has no program of ours; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor that a graph returns is in memory."""

    strides: tuple[int, ...]
    """As PyTorch lays the tensor out."""
    input: int | None
    """The position of the graph's input that the tensor is itself; None for a new tensor."""


def places(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> Iterator[Place]:
    """Where the tensors are that the graph returns, without running its kernels.

    Raises:
        StaysWithInductor: two of them, or one of them and an input, share memory.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(tensor) for tensor in inputs]
        returned = torch.utils._pytree.tree_leaves(graph(*fakes))
    taken = {tensor.untyped_storage()._cdata for tensor in fakes}
    for tensor in returned:
        if not isinstance(tensor, torch.Tensor):
            continue
        position = next((i for i, fake in enumerate(fakes) if fake is tensor), None)
        storage = tensor.untyped_storage()._cdata
        if position is None and storage in taken:
            raise StaysWithInductor("an output is a view of an input or of another output")
        taken.add(storage)
        yield Place(tensor.stride(), position)


def shared_outputs(program: Program) -> list[int]:
    """Positions of outputs that may share memory with an input, or with an output before them. The
    graph copies there: a program has no calls that only copy."""
    owners = {value.name for value in program.inputs}
    shared = []
    for position, name in enumerate(program.outputs):
        owner = _owner(program, name)
        if owner in owners:
            shared.append(position)
        owners.add(owner)
    return shared


def _owner(program: Program, name: str) -> str:
    """The value whose memory a value shows, through calls that may return views."""
    while (number := program.producer().get(name)) is not None:
        call = program.calls[number]
        if not _may_be_view(call):
            return name
        name = next(call.refs())
    return name


def _may_be_view(call: Call) -> bool:
    if not call.is_extern:
        return call.op in VIEWS
    return any(argument.alias_info is not None for argument in extern.schema_args(call.op))


def copied_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """What copies of the tensors cost, as memory traffic. A program changes no input in place, and
    kernels copy strided inputs; Inductor does without both copies."""
    return sum(LAUNCH_BYTES + tensor.numel() * tensor.element_size() for tensor in tensors)


def is_strided(tensor: torch.Tensor) -> bool:
    """Whether kernels would copy the tensor: its elements lie in no order that kernels read."""
    return layout_of(tensor) is Layout.CONTIGUOUS and not tensor.is_contiguous()


def share_memory(inputs: Sequence[torch.Tensor], changed: Sequence[int]) -> bool:
    """Whether an input that changes shares memory with another input.

    Args:
        changed: positions of inputs that change.
    """
    storages = [tensor.untyped_storage().data_ptr() for tensor in inputs]
    return any(storages.count(storages[position]) > 1 for position in changed)


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor as PyTorch would lay it out: Dynamo's later graphs rely on strides."""
    if tensor.stride() == strides:
        return tensor
    laid_out = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return laid_out.copy_(tensor)

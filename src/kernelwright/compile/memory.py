"""The memory of what graphs take and return: views, layouts, copies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.ops.operator import Layout
from kernelwright.programs.tensors import layout_of

LAUNCH_BYTES = 1 << 23
"""Memory traffic that takes a GPU as long as the launch of a copy."""


class StaysWithInductor(Exception):
    """A graph has no program of ours; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor that a graph returns is in memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """As PyTorch lays the tensor out."""
    input: int | None
    """The position of the graph's input that the tensor is itself; None for a new tensor."""

    @property
    def order(self) -> tuple[int, ...]:
        """Dimensions, those of the largest strides first."""
        return tuple(sorted(range(len(self.shape)), key=lambda dim: -self.strides[dim]))

    @property
    def is_dense(self) -> bool:
        """The strides follow from the shape and the order of the dimensions."""
        return self.strides == _dense_strides(self.shape, self.order)

    def strides_at(self, shape: Sequence[int]) -> tuple[int, ...]:
        """As PyTorch lays out a tensor of another shape."""
        return self.strides if shape == self.shape else _dense_strides(shape, self.order)


def _dense_strides(shape: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Strides of a tensor without gaps whose dimensions are in this order in memory."""
    strides, step = [0] * len(shape), 1
    for dim in reversed(order):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


def places(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Iterator[Place]:
    """Where the tensors are that the graph returns, without running its kernels.

    Raises:
        StaysWithInductor: two of them, or one of them and an input, share memory.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for v in inputs]
        returned = torch.utils._pytree.tree_leaves(graph(*fakes))
    given = [fake for fake in fakes if isinstance(fake, torch.Tensor)]
    taken = {tensor.untyped_storage()._cdata for tensor in given}
    for tensor in returned:
        if not isinstance(tensor, torch.Tensor):
            continue
        position = next((i for i, fake in enumerate(fakes) if fake is tensor), None)
        storage = tensor.untyped_storage()._cdata
        if position is None and storage in taken:
            raise StaysWithInductor("an output is a view of an input or of another output")
        taken.add(storage)
        yield Place(tuple(tensor.shape), tensor.stride(), position)


def copied_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """What copies of the tensors cost, as memory traffic. A program changes no input in place, and
    kernels copy strided inputs; Inductor does without both copies."""
    return sum(LAUNCH_BYTES + tensor.numel() * tensor.element_size() for tensor in tensors)


def is_strided(tensor: torch.Tensor) -> bool:
    """Whether kernels would copy the tensor: its elements lie in no order that kernels read."""
    return layout_of(tensor) is Layout.CONTIGUOUS and not tensor.is_contiguous()


def share_memory(inputs: Sequence[Any], changed: Sequence[int]) -> bool:
    """Whether an input that changes shares memory with another input.

    Args:
        changed: positions of inputs that change.
    """
    storages = [
        value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else None
        for value in inputs
    ]
    return any(storages.count(storages[position]) > 1 for position in changed)


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor as PyTorch would lay it out: Dynamo's later graphs rely on strides."""
    if tensor.stride() == strides:
        return tensor
    laid_out = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return laid_out.copy_(tensor)

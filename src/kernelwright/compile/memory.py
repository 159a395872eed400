"""The memory of inputs and outputs of graphs: views, layouts, copies."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.ops.operator import Layout as Order
from kernelwright.programs.tensors import layout_of

LAUNCH_BYTES = 1 << 23
"""Memory traffic that takes a GPU as long as the launch of a copy."""


class StaysWithInductor(Exception):
    """A graph has no program of ours; the message says why."""


@dataclass(frozen=True, slots=True)
class View:
    """The tensor that a view shows, and the first element."""

    input: int | None
    """The position of an input; None where the base is an output."""
    output: int | None
    """The position of an output."""
    offset: int
    """Elements between the beginnings of base and view."""


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """Where a tensor that a graph returns is in memory."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """The strides that PyTorch gives the tensor."""
    input: int | None = None
    """The position of the graph's input that the tensor is itself."""
    view: View | None = None
    """Where the tensor shows memory of an input or of an earlier output."""

    @property
    def is_new(self) -> bool:
        """Whether the tensor has memory of its own."""
        return self.input is None and self.view is None

    def shown(self, base: torch.Tensor) -> torch.Tensor:
        """The view of its base."""
        assert self.view is not None
        offset = base.storage_offset() + self.view.offset
        return torch.as_strided(base, self.shape, self.strides, offset)

    @property
    def order(self) -> tuple[int, ...]:
        """Dimensions, those of the largest strides first."""
        return tuple(sorted(range(len(self.shape)), key=lambda dim: -self.strides[dim]))

    @property
    def is_dense(self) -> bool:
        """Whether the tensor has no gaps: shape and order of dimensions determine the strides."""
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


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """The memory of all that a graph returns."""

    graph: torch.fx.GraphModule
    """The graph. Where outputs share memory and none of them is all of that memory, the graph
    returns a tensor more, which is."""
    places: tuple[MemoryPlace, ...]
    """One for each tensor that the graph returns, further tensors included."""
    num_outputs: int
    """The number of the graph's own outputs, without further tensors."""


class _TensorRecorder(torch.fx.Interpreter):
    """Runs a graph, and keeps all tensors that the graph makes."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__(graph)
        self.made: dict[torch.fx.Node, torch.Tensor] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        # A tensor inside of torch.vmap has no memory of its own.
        if isinstance(result, torch.Tensor) and not is_functorch_wrapped_tensor(result):
            self.made[n] = result
        return result


def layout(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> OutputLayout:
    """The memory of the tensors that a graph returns, found on fake tensors without a kernel.

    Raises:
        StaysWithInductor: outputs share memory, and no tensor of the graph covers all of it; or an
            output shows memory of another dtype.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fakes = [mode.from_tensor(v) if isinstance(v, torch.Tensor) else v for v in inputs]
        recorder = _TensorRecorder(graph)
        returned = pytree.tree_leaves(recorder.run(*fakes))
    num_outputs = len(returned)
    more = _wholes(returned, fakes, recorder.made)
    graph = _returning(graph, list(more))
    return OutputLayout(graph, tuple(_places([*returned, *more.values()], fakes)), num_outputs)


def _wholes(
    returned: Sequence[Any], inputs: Sequence[Any], made: Mapping[torch.fx.Node, torch.Tensor]
) -> dict[torch.fx.Node, torch.Tensor]:
    """For each memory of which only parts are returned: a node whose tensor covers all of it."""
    tensors = [value for value in returned if isinstance(value, torch.Tensor)]
    of_inputs = {_memory(value) for value in inputs if isinstance(value, torch.Tensor)}
    shared = Counter(map(_memory, tensors))
    by_memory: dict[int, tuple[torch.fx.Node, torch.Tensor]] = {}
    wholes = {_memory(tensor) for tensor in tensors if _is_whole(tensor)}
    for node, tensor in made.items():
        memory = _memory(tensor)
        if shared[memory] > 1 and memory not in of_inputs | wholes and _is_whole(tensor):
            by_memory.setdefault(memory, (node, tensor))
    return dict(by_memory.values())


def _returning(graph: torch.fx.GraphModule, nodes: Sequence[torch.fx.Node]) -> torch.fx.GraphModule:
    """The graph with more outputs."""
    if not nodes:
        return graph
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    other = torch.fx.Graph()
    result = other.graph_copy(graph.graph, copies)
    other.output((*pytree.tree_leaves(result), *(copies[node] for node in nodes)))
    return torch.fx.GraphModule(graph, other)


def _places(returned: Sequence[Any], inputs: Sequence[Any]) -> Iterator[MemoryPlace]:
    """
    Raises:
        StaysWithInductor: as of `layout`.
    """
    owners: dict[int, tuple[torch.Tensor, View]] = {}
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            owners.setdefault(_memory(value), (value, View(position, None, 0)))
    tensors = [(i, value) for i, value in enumerate(returned) if isinstance(value, torch.Tensor)]
    # The first tensor that is all of a memory owns the memory, else the first tensor there.
    for number, tensor in sorted(tensors, key=lambda item: not _is_whole(item[1])):
        owners.setdefault(_memory(tensor), (tensor, View(None, number, 0)))
    for number, tensor in tensors:
        own = next((i for i, value in enumerate(inputs) if value is tensor), None)
        place = MemoryPlace(tuple(tensor.shape), tensor.stride(), own)
        base, view = owners[_memory(tensor)]
        if own is None and view.output != number:
            if base.dtype != tensor.dtype:  # `shown` keeps the dtype of the base
                raise StaysWithInductor("an output shows memory of another dtype")
            if view.output is not None and not _is_whole(base):
                raise StaysWithInductor("outputs share memory")
            offset = int(tensor.storage_offset()) - int(base.storage_offset())
            place = replace(place, view=replace(view, offset=offset))
        yield place


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor is all of its memory, without gaps."""
    num_bytes = tensor.numel() * tensor.element_size()
    is_all = int(tensor.storage_offset()) == 0 and tensor.untyped_storage().nbytes() == num_bytes
    return is_all and MemoryPlace(tuple(tensor.shape), tensor.stride()).is_dense


def _memory(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def copied_bytes(tensors: Sequence[torch.Tensor]) -> int:
    """The cost of copies of the tensors, as bytes of memory traffic.

    A program changes no input in place, and kernels copy strided inputs. Inductor needs neither
    copy, so these count against our kernels.
    """
    return sum(LAUNCH_BYTES + tensor.numel() * tensor.element_size() for tensor in tensors)


def is_strided(tensor: torch.Tensor) -> bool:
    """Whether kernels would copy the tensor: its elements lie in no order that kernels read."""
    return layout_of(tensor) is Order.CONTIGUOUS and not tensor.is_contiguous()


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
    rows = tensor
    for dim, stride in enumerate(strides):
        if stride == 0 and tensor.shape[dim] > 1:  # expanded: one value for all indices
            rows = rows.narrow(dim, 0, 1)
    laid_out = torch.empty_strided(rows.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return laid_out.copy_(rows).as_strided(tensor.shape, strides)

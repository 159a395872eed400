"""Reads a graph of Dynamo as a program, and tells why some graphs stay with Inductor."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException

from kernelwright.compile.alone import exporting_alone
from kernelwright.compile.floats import NO_FLOATS, Floats, may_be_float, with_floats
from kernelwright.compile.memory import (
    MemoryPlace,
    StaysWithInductor,
    View,
    copied_bytes,
    is_strided,
    layout,
    share_memory,
    with_strides,
)
from kernelwright.compile.searching import Sought
from kernelwright.compile.sized import SizedGraph
from kernelwright.compile.sizes import LEAST_POINTS, GraphSizes
from kernelwright.compile.training import Strides, laid_out, reported_strides, with_reshapes
from kernelwright.core.errors import KernelwrightError
from kernelwright.programs.build import canonical, dead_code
from kernelwright.programs.capture.carriers import is_carried
from kernelwright.programs.lowering.lower import InputSource, Lowered, lower
from kernelwright.programs.program import Program
from kernelwright.search.module.importing import Compute

Outputs = list[torch.Tensor | int | float | bool | str | None]
COPIED_SHARE = 0.02
"""The most that copies around a program may cost, as a share of the program's least memory
traffic."""
OF_PYTORCH = ("aten.", "prims.")
"""The beginnings of the names of operators that exist in every process."""
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


class _Whole(torch.nn.Module):
    """A graph with one list of inputs: lowering allows in-place changes only inside of lists."""

    def __init__(self, graph: torch.fx.GraphModule) -> None:
        super().__init__()
        self.graph = graph

    def forward(self, inputs: list[Any]) -> Any:
        return self.graph(*inputs)


@dataclass(frozen=True, slots=True)
class GraphProgram:
    """A graph as a program, and the connection of the program to the graph's inputs and outputs."""

    lowered: Lowered
    constants: tuple[torch.Tensor | None, ...]
    """For each input of the program: a tensor that the graph holds, or None."""
    places: tuple[MemoryPlace, ...]
    """One for each tensor that the program's graph returns."""
    num_outputs: int
    """The outputs of the graph itself. Its program may return further tensors: outputs are views of
    them."""
    autocast: "Autocast"
    device: torch.device
    """The device of all inputs."""
    sized: SizedGraph | None = None
    """The program at several sizes, where sizes vary."""
    floats: Floats = NO_FLOATS
    """The floats that the program has as constants."""

    @property
    def program(self) -> Program:
        return self.lowered.program

    @property
    def sought(self) -> Sought:
        """The program that a search looks for kernels for."""
        return Sought(self.program) if self.sized is None else self.sized.sought

    @property
    def serves_all_calls(self) -> bool:
        """Whether every call that Dynamo's guards allow is one that the program computes."""
        return self.sized is None and not self.floats.values

    def serves(self, inputs: Sequence[Any]) -> bool:
        """Whether the program computes a call with these inputs."""
        is_in_range = self.sized is None or self.sized.serves(inputs)
        return is_in_range and self.floats.are_those_of(inputs)

    def caller(self, compute: Compute) -> Callable[..., Outputs]:
        """A function of the graph's inputs that returns the graph's outputs.

        Args:
            compute: a function of the program's inputs that returns the program's outputs.
        """
        lowered, surroundings = self.lowered, self.autocast.switched_off
        sources = [
            (source.position if constant is None else -1, constant)
            for source, constant in zip(lowered.sources, self.constants, strict=True)
        ]
        changed = [position for _, position in lowered.input_mutations]

        def call(*inputs: Any) -> Outputs:
            # A functional program computes all results before it changes an input. With shared
            # memory, PyTorch's own order of writes and reads would give other values.
            if changed and share_memory(inputs, changed):
                raise StaysWithInductor("an input that changes shares memory with another input")
            arguments = [inputs[at] if at >= 0 else constant for at, constant in sources]
            with surroundings():
                results = lowered.separated(compute(*arguments))
                for output, position in lowered.input_mutations:
                    inputs[position].copy_(results[output])
                return self._returned(results, inputs)

        def call_on_device(*inputs: Any) -> Outputs:
            with torch.cuda.device(_device(inputs)):  # Triton launches on the current device
                return call(*inputs)

        return call_on_device if torch.cuda.device_count() > 1 else call

    def _returned(self, results: Sequence[torch.Tensor], inputs: Sequence[Any]) -> Outputs:
        places = iter(self.places)
        outputs: Outputs = []
        views: list[tuple[int, MemoryPlace]] = []
        numbers = self.sized.numbers if self.sized is not None else repeat(None)
        for (kind, value), number in zip(self.lowered.user_outputs, numbers, strict=False):
            if kind == "value":
                outputs.append(number(inputs) if number is not None else value)
                continue
            place = next(places)
            if place.input is not None:
                outputs.append(inputs[place.input])
            elif place.view is not None:
                views.append((len(outputs), place))
                outputs.append(None)
            else:
                result = results[value]
                outputs.append(with_strides(result, place.strides_at(result.shape)))
        # A base may be an output that comes after its view, so views are made last.
        for at, place in views:
            assert place.view is not None
            outputs[at] = place.shown(_base(place.view, inputs, outputs))
        return outputs[: self.num_outputs]


def _base(view: View, inputs: Sequence[Any], outputs: Outputs) -> torch.Tensor:
    """The tensor that a view shows."""
    base = inputs[view.input] if view.input is not None else outputs[view.output or 0]
    assert isinstance(base, torch.Tensor)
    return base


def _without_views(lowered: Lowered, places: Sequence[MemoryPlace]) -> Lowered:
    """The program without outputs that are inputs or views: the caller makes these from a base."""
    left = iter(places)
    is_new = [kind == "value" or next(left).is_new for kind, _ in lowered.user_outputs]
    kept = {
        value
        for (kind, value), new in zip(lowered.user_outputs, is_new, strict=True)
        if kind == "output" and new
    }
    kept |= {position for position, _ in lowered.input_mutations}
    order = sorted(kept)
    at = {old: new for new, old in enumerate(order)}
    program = lowered.program
    outputs = tuple(program.outputs[position] for position in order)
    bare = dead_code(replace(program, outputs=outputs))
    used = {name for call in bare.calls for name in call.refs()} | set(bare.outputs)
    read = [i for i, value in enumerate(bare.inputs) if value.name in used]
    bare = canonical(replace(bare, inputs=tuple(bare.inputs[i] for i in read)))
    return replace(
        lowered,
        program=bare,
        sources=tuple(lowered.sources[i] for i in read),
        user_outputs=tuple(
            (kind, at.get(value, -1)) if kind == "output" else (kind, value)
            for kind, value in lowered.user_outputs
        ),
        input_mutations=tuple((at[old], leaf) for old, leaf in lowered.input_mutations),
        carried_outputs={at[i]: d for i, d in lowered.carried_outputs.items() if i in at},
        copied_outputs=frozenset(at[i] for i in lowered.copied_outputs if i in at),
        contiguous_outputs=frozenset(),  # `with_strides` gives each output its strides
    )


def read_graph(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], copied_share: float = COPIED_SHARE
) -> GraphProgram:
    """The program that a graph of Dynamo computes at the shapes of these inputs.

    The graph is read in a thread of its own: PyTorch keeps the state of the compilation that goes
    on by thread.

    Args:
        copied_share: as of COPIED_SHARE.

    Raises:
        StaysWithInductor: the graph has no such program.
    """
    # Inductor changes the graph that it compiles.
    graph = torch.fx.GraphModule(graph, deepcopy(graph.graph))
    graph, floats = with_floats(graph, inputs)
    device = _device(inputs)
    if any(value.device != device for value in _read_tensors(graph, inputs)):
        raise StaysWithInductor("its inputs are on several devices")
    autocast = Autocast.now(inputs)
    try:
        sizes = GraphSizes.of(graph)
    except ValueError as error:
        raise StaysWithInductor(str(error)) from error
    if sizes is not None:  # a symbol that is read as a number is one for Dynamo from then on
        inputs = sizes.inputs_at(inputs, sizes.hints)
    inputs = list(map(_outside_inference_mode, inputs))
    read = partial(_read, graph, autocast=autocast)
    with ThreadPoolExecutor(1) as thread:
        program = thread.submit(read, inputs).result()
        if sizes is not None:
            program = thread.submit(_at_sizes, program, sizes, inputs, read).result()
    _check_copies(program.lowered, inputs, copied_share)
    return replace(program, floats=floats)


def _read_tensors(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Iterator[torch.Tensor]:
    """The tensors among the inputs that the graph uses."""
    placeholders = (node for node in graph.graph.nodes if node.op == "placeholder")
    for node, value in zip(placeholders, inputs, strict=True):
        if node.users and isinstance(value, torch.Tensor):
            yield value


def read_part(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], copied_share: float, *, is_backward: bool
) -> GraphProgram:
    """The program that a forward or a backward graph of AOTAutograd computes.

    Args:
        inputs: fake tensors.
        copied_share: as of COPIED_SHARE.

    Raises:
        StaysWithInductor: the graph has no such program.
    """
    if not all(isinstance(value, torch.Tensor) for value in inputs):
        raise StaysWithInductor("sizes or numbers among its inputs vary from call to call")
    strides = reported_strides(is_backward)  # which PyTorch keeps by thread
    read = partial(_read, autocast=Autocast.ended(inputs), strides=strides)
    with ThreadPoolExecutor(1) as thread:
        program = thread.submit(read, with_reshapes(graph), inputs).result()
    _check_copies(program.lowered, inputs, copied_share)
    return program


def _at_sizes(
    program: GraphProgram,
    sizes: GraphSizes,
    inputs: Sequence[Any],
    read: Callable[[Sequence[Any]], GraphProgram],
) -> GraphProgram:
    """The program with the same graph's programs at other sizes.

    Raises:
        StaysWithInductor: one program cannot serve all sizes.
    """
    points = sizes.points()
    if len(points) < LEAST_POINTS:
        raise StaysWithInductor("Dynamo's guards allow too few sizes")
    others = [read(sizes.inputs_at(inputs, point)) for point in points[1:]]
    for other in others:
        for one, another in zip(program.places, other.places, strict=True):
            is_alike = (one.input, one.order) == (another.input, another.order)
            has_views = one.view is not None or another.view is not None
            if has_views or not (is_alike and one.is_dense and another.is_dense):
                raise StaysWithInductor("the strides of an output differ by size")
    try:
        sized = SizedGraph.of(program.lowered, [traced.lowered for traced in others], points, sizes)
    except ValueError as error:
        raise StaysWithInductor(f"one program cannot serve all sizes: {error}") from error
    return replace(program, sized=sized)


def _read(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    autocast: "Autocast",
    strides: Strides = (),
) -> GraphProgram:
    """The program of a graph.

    Args:
        strides: the strides that outputs must have, if not those of PyTorch.

    Raises:
        StaysWithInductor: the graph has no program of ours.
    """
    try:
        with autocast.as_there(), torch.no_grad(), exporting_alone():
            outputs = laid_out(layout(graph, inputs), strides)
            module = _Whole(outputs.graph)
            lowered = lower(module, (list(inputs),))
    except KernelwrightError as error:
        raise StaysWithInductor(str(error)) from error
    except StaysWithInductor:
        raise
    except DataDependentOutputException as error:  # Dynamo makes a float a tensor, and reads that
        raise StaysWithInductor("a number that varies from call to call is read") from error
    except Exception as error:  # a graph may hold anything, and PyTorch raises anything
        raise StaysWithInductor(f"{type(error).__name__}: {error}") from error
    lowered = replace(lowered, plain_inputs=())  # sizes, which the tensors have too
    if lowered.changed_parts or lowered.mutations:
        raise StaysWithInductor("the graph changes tensors that it holds itself")
    carried = [source.dtype for source in lowered.sources if is_carried(source.dtype)]
    if carried or lowered.carried_outputs:
        raise StaysWithInductor("inputs or outputs are complex or of another dtype without kernels")
    externs = [call.op for call in lowered.program.calls if call.is_extern]
    custom = [op for op in externs if not op.startswith(OF_PYTORCH)]
    if custom:
        raise StaysWithInductor(f"the graph calls the custom operator {custom[0]}")
    lowered = _without_views(lowered, outputs.places)
    if not lowered.program.calls:
        raise StaysWithInductor("the graph computes nothing")
    lowered = lowered.on(_device(inputs))
    constants = tuple(_constant(module, source) for source in lowered.sources)
    return GraphProgram(
        lowered=lowered,
        constants=constants,
        places=outputs.places,
        num_outputs=outputs.num_outputs,
        autocast=autocast,
        device=_device(inputs),
    )


def _check_copies(lowered: Lowered, inputs: Sequence[Any], copied_share: float) -> None:
    """
    Raises:
        StaysWithInductor: copies would take longer than kernels save.
    """
    changed = [inputs[position] for _, position in lowered.input_mutations]
    read = [inputs[source.position] for source in lowered.sources if source.kind == "user"]
    strided = [tensor for tensor in read if is_strided(tensor)]
    if copied_bytes([*changed, *strided]) > copied_share * lowered.program.bytes_fused():
        how = "changes inputs in place" if changed else "reads strided inputs"
        raise StaysWithInductor(f"the graph {how}: copies would take longer than kernels save")


def _constant(module: _Whole, source: InputSource) -> torch.Tensor | None:
    if source.kind == "user" or source.tensor is not None:
        return source.tensor
    is_parameter = source.kind == "parameter"
    return module.get_parameter(source.name) if is_parameter else module.get_buffer(source.name)


def why_not(inputs: Sequence[Any], device_types: Sequence[str]) -> str:
    """Why the graph of these inputs stays with Inductor; "" if kernels are possible.

    Args:
        device_types: devices that kernels run on.
    """
    if any(not isinstance(value, torch.Tensor | torch.SymInt | int) for value in inputs):
        return "numbers among its inputs vary from call to call"
    if are_wanted_gradients(inputs) and any(isinstance(v, torch.SymInt | int) for v in inputs):
        return "gradients are wanted, and sizes vary"
    inputs = [value for value in inputs if isinstance(value, torch.Tensor)]
    if any(type(value) not in PLAIN_TENSORS for value in inputs):
        return "an input is of a subclass of torch.Tensor"
    if torch.are_deterministic_algorithms_enabled():
        return "deterministic algorithms are wanted, and kernels may add in any order"
    devices = {value.device for value in inputs if not may_be_float(value)}
    if len(devices) > 1 or not inputs:
        return "its inputs are on several devices" if devices else "it has no inputs"
    if _device(inputs).type not in device_types:
        return "Triton kernels need a GPU"
    return ""


def are_wanted_gradients(inputs: Sequence[Any]) -> bool:
    """Whether a backward graph is needed."""
    tensors = (value for value in inputs if isinstance(value, torch.Tensor))
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _device(inputs: Sequence[Any]) -> torch.device:
    """The device of the tensors among the inputs of a graph."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    return min(tensors, key=may_be_float).device


def _outside_inference_mode(tensor: Any) -> Any:
    """A tensor on the same memory that a capture may change: captures leave inference mode. Sizes
    are as given."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_inference():
        return tensor
    with torch.inference_mode(False):
        ordinary = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        storage, offset = tensor.untyped_storage(), tensor.storage_offset()
        return ordinary.set_(storage, offset, tensor.shape, tensor.stride())


@dataclass(frozen=True, slots=True)
class Autocast:
    """The autocast around a compilation. Dynamo compiles anew where that changes."""

    device: str
    dtype: torch.dtype | None
    """The dtype of autocast; None: autocast is off."""
    may_change: bool = False
    """A call may come under another autocast."""

    @classmethod
    def now(cls, inputs: Sequence[Any]) -> "Autocast":
        device = _device(inputs).type
        is_on = torch.is_autocast_enabled(device)
        return cls(device, torch.get_autocast_dtype(device) if is_on else None)

    @classmethod
    def ended(cls, inputs: Sequence[Any]) -> "Autocast":
        """That of a graph of AOTAutograd, which has all casts itself."""
        return cls(_device(inputs).type, None, may_change=True)

    def as_there(self) -> AbstractContextManager[object]:
        """The autocast of the compilation, in another thread."""
        return torch.autocast(self.device, self.dtype, enabled=self.dtype is not None)

    def switched_off(self) -> AbstractContextManager[object]:
        """The program has all casts itself."""
        if self.dtype is None and not self.may_change:
            return nullcontext()
        return torch.autocast(self.device, enabled=False)

"""A program as primitive nodes over axes: loads, maps and reductions.

Composite operators (softmax, layer_norm ...) are taken apart into these by `decompose`; kernels are
emitted from them, whatever operators they came from.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelwright.ops.operator import TensorType
from kernelwright.ops.rules import is_float
from kernelwright.programs.program import Call, Input, Program
from kernelwright.teacher.nodes.axes import AxisTable, Dims
from kernelwright.teacher.text.divisions import rounded_values
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.tile.index import memory_order

MAX_INT32 = 2**31 - 1

COUNT = "__count__"
"""In a node's text: the number of reduced elements, named when the kernel is written."""
POSITION = "__position__"
"""In a node's text: the position along the reduced axes."""

LARGEST = "3.4028234e38"
"""Rounds to the largest number of fp32; Triton takes a literal beyond that number for fp64."""


def count(axes: Sequence[int]) -> str:
    """Text of the number of elements that a reduction over these axes reduces."""
    return COUNT if axes else "1"


@dataclass(frozen=True, slots=True)
class ReductionPair:
    """Two reductions of one value that a loop can run together."""

    kind: str
    """"softmax": max and sum of exp(value - max); "logsumexp": the same with a finite max;
    "moments": mean and sum of squared deviations."""
    value: str
    first: str
    """The reduction that a plain form needs before the second: max, mean."""


@dataclass(frozen=True, slots=True)
class Node:
    """One assignment of a kernel."""

    name: str
    op: str
    """Operator it belongs to; empty for loads."""
    text: str
    """Expression over the names in `args`; empty for loads and reductions."""
    args: tuple[str, ...]
    dtype: str
    reduce: str = ""
    """"sum", "mean", "max", "min", "amax", "amin", "prod", "argmax" or "argmin" of the one
    argument; "amax" and "amin" pass NaN on, as PyTorch's do."""
    pair: ReductionPair | None = None
    compared: str = "float32"
    """The type in which "argmax" and "argmin" compare the elements of the argument."""
    axes: frozenset[int] = frozenset()
    """Axes the value varies over; set when the graph is finished."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Memory that a kernel reads or writes."""

    name: str
    """The argument: an input, an output of the program, or a buffer between kernels."""
    node: str
    """The node that is loaded or stored."""
    type: TensorType
    dims: Dims
    """Axes of each dimension, resolved."""
    sizes: tuple[str, ...] = ()
    """Wrapper texts of its sizes where the value is pulled (`teacher.movement.pulled`)."""
    reads: tuple[Input, ...] = ()
    """The program's inputs from which a pulled value is computed; none for positions (`arange`)."""
    is_pulled: bool = False
    """Computed where it is read, not loaded."""

    def size(self, at: int) -> str:
        """Wrapper text of the size of a dimension, as a factor."""
        if not self.is_pulled:
            return f"{self.name}.shape[{at}]"
        return f"({self.sizes[at]})" if " " in self.sizes[at] else self.sizes[at]

    @property
    def order(self) -> tuple[int, ...]:
        """All axes of the tensor in memory order, slowest first."""
        return tuple(axis for dim in memory_order(self.dims, self.type.layout) for axis in dim)


@dataclass(frozen=True, slots=True)
class NodeValue:
    """A program's value: a node seen with a shape."""

    node: str
    dims: Dims
    type: TensorType

    @property
    def is_float(self) -> bool:
        return is_float(self.type.dtype)


def nodes_behind(
    nodes: Mapping[str, Node],
    wanted: Iterable[str],
    known: Container[str] = (),
    *,
    passes_reductions: bool = True,
) -> set[str]:
    """Names of the nodes that `wanted` depends on, with `wanted` itself.

    Args:
        known: nodes that are left out, with all that only they depend on.
        passes_reductions: False if the search stops at reductions, which are in the result.
    """
    live: set[str] = set()
    stack = list(wanted)
    while stack:
        name = stack.pop()
        if name not in live and name not in known:
            live.add(name)
            stack += nodes[name].args if passes_reductions or not nodes[name].reduce else ()
    return live


class NodeGraph:
    """Nodes and axes of a program, while the rules of its operators add to them."""

    def __init__(self, program: Program) -> None:
        """A graph with the program's inputs as loads.

        Raises:
            NotWritable: an input is float64.
        """
        self.program = program
        self.rounded = rounded_values(program)
        """Quotients and roots that have to be the nearest floats."""
        self.axes = AxisTable()
        self.nodes: dict[str, Node] = {}
        self.values: dict[str, NodeValue] = {}
        self.reduced_by: dict[str, tuple[int, ...]] = {}
        """Reduction -> its axes when its rule ran; `AxisTable.resolve` gives the present axes."""
        self.constants: dict[int, int] = {}
        """Axes whose size an attribute fixes: groups."""
        self.makers: dict[str, Call] = {}
        """Node -> the call whose rule added the node."""
        self.pulled: list[str] = []
        """Values that are read as if they were in memory."""
        for value in program.inputs:
            # Kernels accumulate in float32, so a float64 result would be less exact than PyTorch's.
            if value.type.dtype == "float64":
                raise NotWritable("float64 is left to PyTorch")
            dims = tuple(self.axes.new(size) for size in value.type.shape)
            self.nodes[value.name] = Node(value.name, "", "", (), value.type.dtype)
            self.values[value.name] = NodeValue(value.name, dims, value.type)

    def pull(self, call: Call) -> None:
        """Add a call that moves elements: each result is a node without arguments, like a load.

        Raises:
            NotWritable: the call moves the result of a reduction.
        """
        # Lines that pull a value load inputs again, and a reduction's result is in no memory yet.
        operands = nodes_behind(self.nodes, [self.values[name].node for name in call.refs()])
        if any(self.nodes[name].reduce for name in operands):
            raise NotWritable(f"{call.op} of what a reduction has made")
        for name, result_type in zip(call.outputs, call.types, strict=True):
            dims = tuple(self.axes.new(size) for size in result_type.shape)
            self.nodes[name] = Node(name, "", "", (), result_type.dtype)
            self.values[name] = NodeValue(name, dims, result_type)
            self.pulled.append(name)

    def settled(self, inputs: Sequence[Tensor]) -> dict[str, Node]:
        """Every node with its axes, once no rule changes axes any more.

        Args:
            inputs: the tensors that nodes load, pulled ones included.

        Raises:
            NotWritable: a value meets its own transpose, or is reduced over axes that it does not
                vary along.
        """
        # One axis twice in one value is a diagonal, which a walk over axes cannot reach.
        for value in self.values.values():
            flat = [axis for dim in value.dims for axis in self.axes.resolve(dim)]
            if len(flat) != len(set(flat)):
                raise NotWritable("a value meets its own transpose")
        axes_of = {i.name: frozenset(i.order) for i in inputs}
        for name, node in self.nodes.items():
            if name not in axes_of:
                over = frozenset().union(*(axes_of[arg] for arg in node.args))
                axes_of[name] = over - set(self.axes.resolve(self.reduced_by.get(name, ())))
                # Such a sum would have to count equal elements, but no loop walks an axis that the
                # value lacks.
                if node.reduce and not over > axes_of[name]:
                    raise NotWritable("a reduction over broadcast dimensions only")
        return {name: replace(node, axes=axes_of[name]) for name, node in self.nodes.items()}


@dataclass(frozen=True, slots=True)
class KernelStage:
    """The computation of one kernel, or of one group of kernels over the same domain."""

    nodes: dict[str, Node]
    """In execution order."""
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    reduced: frozenset[int]
    """Axes that all its reductions run over; none in a pointwise stage."""
    graph: NodeGraph

    def is_loaded(self, node: str) -> bool:
        """Whether the node is a load from memory, not a pulled or a computed value."""
        return any(t.node == node and not t.is_pulled for t in self.inputs)

    def is_full(self, node: str) -> bool:
        """Whether the node varies along reduced axes, so that it is no row value."""
        return bool(self.nodes[node].axes & self.reduced)


def is_huge(stage: KernelStage) -> bool:
    """Whether a tensor of the stage needs 64-bit offsets at the program's own shapes."""
    types = [tensor.type for tensor in (*stage.inputs, *stage.outputs)]
    types += [read.type for tensor in stage.inputs for read in tensor.reads]
    return any(result_type.numel > MAX_INT32 for result_type in types)

"""Shape operators inside a fragment: the same node under other dimensions."""

from kernelwright.ops.rules import dim_index
from kernelwright.programs.fragments.fragment import RESHAPING
from kernelwright.programs.program import Call
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.decompose import Rule, operand
from kernelwright.teacher.nodes.graph import NodeGraph, NodeValue
from kernelwright.teacher.text.expressions import NotWritable


def _relabel(graph: NodeGraph, call: Call, dims: Dims) -> None:
    """Gives the call's result the node of its input, under other dimensions."""
    [name], [result_type] = call.outputs, call.types
    graph.values[name] = NodeValue(operand(graph, call).node, dims, result_type)


def _regroup(graph: NodeGraph, call: Call) -> None:
    """The rule of reshape, flatten, squeeze, unsqueeze: the shape of the result decides."""
    value = operand(graph, call)
    _relabel(graph, call, graph.axes.regroup(value.dims, call.types[0].shape))


def _permute(graph: NodeGraph, call: Call) -> None:
    value = operand(graph, call)
    order = [dim_index(d, value.type.rank) for d in call.arg("dims")]
    _relabel(graph, call, tuple(value.dims[d] for d in order))


def _transpose(graph: NodeGraph, call: Call) -> None:
    value = operand(graph, call)
    dims = list(value.dims)
    a, b = (dim_index(call.arg(p), value.type.rank) for p in ("dim0", "dim1"))
    dims[a], dims[b] = dims[b], dims[a]
    _relabel(graph, call, tuple(dims))


def _t(graph: NodeGraph, call: Call) -> None:
    _relabel(graph, call, operand(graph, call).dims[::-1])


def _expand(graph: NodeGraph, call: Call) -> None:
    """Dimensions of size 1 become fresh axes, which later operands may share."""
    value, shape = operand(graph, call), call.types[0].shape
    old = ((),) * (len(shape) - value.type.rank) + value.dims
    dims = tuple(dim or graph.axes.new(size) for dim, size in zip(old, shape, strict=True))
    _relabel(graph, call, dims)


def _identity(graph: NodeGraph, call: Call) -> None:
    _relabel(graph, call, operand(graph, call).dims)


def _dropout(graph: NodeGraph, call: Call) -> None:
    if call.arg("training"):
        raise NotWritable("dropout draws from the device's generator")
    _identity(graph, call)


VIEWS: dict[str, Rule] = {
    **dict.fromkeys(RESHAPING, _regroup),
    "permute": _permute,
    "transpose": _transpose,
    "t": _t,
    "broadcast_to": _expand,
    "to_layout": _identity,
    "dropout": _dropout,
}
"""Shape operators that cost nothing -> rule."""

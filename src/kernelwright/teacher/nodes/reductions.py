"""Rules that take reductions and the softmax family apart into primitive nodes."""

from collections.abc import Sequence

from kernelwright.ops.rules import dim_indices, is_float
from kernelwright.programs.program import Call
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.decompose import Rule, operand
from kernelwright.teacher.nodes.graph import (
    LARGEST,
    NodeGraph,
    NodeValue,
    ReductionPair,
    count,
)
from kernelwright.teacher.text.dtypes import triton_dtype
from kernelwright.teacher.text.expressions import NotWritable, literal
from kernelwright.teacher.window.slide import POOLS


def over(value: NodeValue, dims: Sequence[int]) -> tuple[int, ...]:
    """Axes of some dimensions of a value; an empty tuple if all of them have size 1."""
    return tuple(axis for i in dims for axis in value.dims[i])


def without(value: NodeValue, dims: Sequence[int], keepdim: bool) -> Dims:
    """Axes of each dimension of a value after a reduction over the dimensions `dims`."""
    if keepdim:
        return tuple(() if i in dims else dim for i, dim in enumerate(value.dims))
    return tuple(dim for i, dim in enumerate(value.dims) if i not in dims)


def widened(graph: NodeGraph, value: NodeValue, op: str) -> str:
    """Name of a node that holds the value in fp32; integers and bool get a further node."""
    if value.is_float:
        return value.node
    name = f"{value.node}_float"
    return graph.map(name, op, f"{value.node}.to(tl.float32)", [value.node], "float32")


def moments(
    graph: NodeGraph, op: str, stem: str, value: str, axes: Sequence[int]
) -> tuple[str, str, str]:
    """Adds nodes of the mean and of the sum of squared deviations over axes.

    Args:
        stem: start of the nodes' names.
        value: node that is reduced.

    Returns:
        Names of the nodes (mean, value - mean, sum of squared deviations).
    """
    # Two passes: the mean of squares minus the square of the mean cancels for large means.
    mean = graph.reduce(f"{stem}_mean", op, "mean", value, axes)
    centered = graph.map(f"{stem}_centered", op, f"{value} - {mean}", [value, mean], "float32")
    square = graph.map(f"{stem}_square", op, f"{centered} * {centered}", [centered], "float32")
    pair = ReductionPair("moments", value, mean)
    return mean, centered, graph.reduce(f"{stem}_m2", op, "sum", square, axes, pair=pair)


def exponentials(
    graph: NodeGraph, op: str, stem: str, value: str, axes: Sequence[int], *, is_log: bool = False
) -> tuple[str, str, str]:
    """Adds nodes of the maximum and of the sum of exponentials over axes.

    Args:
        stem: start of the nodes' names.
        value: node that is reduced, in fp32.
        is_log: whether only max + log(sum) is asked for. Then the maximum is finite, and infinite
            elements are in the sum. Without, infinite maxima make the sum NaN, as in a softmax.

    Returns:
        Names of the nodes (max, exp(value - max), sum of exp(value - max)).
    """
    # The largest exponent is 0, so no exponential overflows.
    first = top = graph.reduce(f"{stem}_max", op, "max", value, axes)
    if is_log:
        # PyTorch's logsumexp of infinities is infinite; inf - inf would be NaN.
        text = f"tl.minimum(tl.maximum({top}, -{LARGEST}), {LARGEST})"
        top = graph.map(f"{stem}_top", op, text, [top], "float32")
    exp = graph.map(f"{stem}_exp", op, f"tl.exp({value} - {top})", [value, top], "float32")
    pair = ReductionPair("logsumexp" if is_log else "softmax", value, first)
    return top, exp, graph.reduce(f"{stem}_sum", op, "sum", exp, axes, pair=pair)


def _reduced(graph: NodeGraph, call: Call) -> tuple[NodeValue, tuple[int, ...], Dims]:
    """(operand, axes that the call reduces, dimensions of its result)."""
    value = operand(graph, call)
    names = {param.name for param in call.operator.params}
    dim = call.arg("dim") if "dim" in names else None
    dims = dim_indices(dim, value.type.rank)
    keepdim = bool(call.arg("keepdim")) if "keepdim" in names else False
    return value, over(value, dims), without(value, dims, keepdim)


def _passing(kind: str, dtype: str) -> str:
    """The kind of a reduction, "amax" or "amin" if it is an extremum of floats.

    Sums and products pass NaN on by themselves, and integers have none.
    """
    return f"a{kind}" if kind in ("max", "min") and is_float(dtype) else kind


def _plain(kind: str) -> Rule:
    """The rule of a reduction of the value itself: sum, mean, prod, amax and amin."""

    def rule(graph: NodeGraph, call: Call) -> None:
        value, axes, dims = _reduced(graph, call)
        name, result_type = call.outputs[0], call.types[0]
        node, dtype = value.node, result_type.dtype
        # PyTorch sums integers in the dtype of the result: a sum of int8 is one of int64.
        if is_float(dtype):
            node = widened(graph, value, call.op)
        elif value.type.dtype != dtype:
            text = f"{node}.to({triton_dtype(dtype)})"
            node = graph.map(f"{name}_wide", call.op, text, [node], dtype)
        graph.reduce(name, call.op, _passing(kind, dtype), node, axes, dtype)
        graph.values[name] = NodeValue(name, dims, result_type)

    return rule


def _arg(kind: str) -> Rule:
    """The rule of argmax or argmin."""

    def rule(graph: NodeGraph, call: Call) -> None:
        value, axes, dims = _reduced(graph, call)
        # The kernel would count positions in memory order, PyTorch counts them by dimensions.
        if call.arg("dim") is None and value.type.layout != "contiguous":
            raise NotWritable("a flat position in a channels-last tensor")
        _position(graph, call, kind, value, axes, dims)

    return rule


def _position(
    graph: NodeGraph, call: Call, kind: str, value: NodeValue, axes: Sequence[int], dims: Dims
) -> None:
    if not value.is_float:
        raise NotWritable("the position of an integer")
    name, result_type = call.outputs[-1], call.types[-1]
    graph.reduce(name, call.op, kind, value.node, axes, result_type.dtype)
    graph.values[name] = NodeValue(name, dims, result_type)


def _with_position(kind: str) -> Rule:
    """The rule of torch.max(x, dim) or torch.min(x, dim): values and indices."""

    def rule(graph: NodeGraph, call: Call) -> None:
        value, axes, dims = _reduced(graph, call)
        name, result_type = call.outputs[0], call.types[0]
        reduced = _passing(kind, result_type.dtype)
        graph.reduce(name, call.op, reduced, value.node, axes, result_type.dtype)
        graph.values[name] = NodeValue(name, dims, result_type)
        _position(graph, call, f"arg{kind}", value, axes, dims)

    return rule


def _truth(kind: str) -> Rule:
    """The rule of any ("max") or all ("min"): the maximum or the minimum of (x != 0)."""

    def rule(graph: NodeGraph, call: Call) -> None:
        value, axes, dims = _reduced(graph, call)
        [name], [result_type] = call.outputs, call.types
        text = f"({value.node} != 0).to(tl.int32)"
        truth = graph.map(f"{name}_true", call.op, text, [value.node], "int32")
        reduced = graph.reduce(f"{name}_{kind}", call.op, kind, truth, axes, "int32")
        graph.map(name, call.op, f"{reduced} != 0", [reduced], result_type.dtype)
        graph.values[name] = NodeValue(name, dims, result_type)

    return rule


def _moment(template: str) -> Rule:
    """The rule of var or std; `template` makes the result of the variance."""

    def rule(graph: NodeGraph, call: Call) -> None:
        value, axes, dims = _reduced(graph, call)
        [name], [result_type] = call.outputs, call.types
        _, _, squares = moments(graph, call.op, name, value.node, axes)
        correction = call.arg("correction")
        correction = 1 if correction is None else int(correction)
        number = count(axes)
        divisor = f"({number} - {correction})" if correction else number
        # PyTorch divides by 0, not by a negative number. No row is shorter than 1.
        if correction > 1:
            divisor = f"tl.maximum({divisor}, 0)" if axes else "0"
        graph.map(
            name, call.op, template.format(f"{squares} / {divisor}"), [squares], result_type.dtype
        )
        graph.values[name] = NodeValue(name, dims, result_type)

    return rule


def _pooled(kind: str) -> Rule:
    """The rule of an adaptive pool to one element: a reduction over all spatial dimensions."""

    def rule(graph: NodeGraph, call: Call) -> None:
        value, [name], [result_type] = operand(graph, call), call.outputs, call.types
        _, spatial = POOLS[call.op]
        dims = range(result_type.rank - spatial, result_type.rank)
        if any(result_type.shape[dim] != 1 for dim in dims):
            raise NotWritable("a window that moves")
        dtype = result_type.dtype
        graph.reduce(name, call.op, _passing(kind, dtype), value.node, over(value, dims), dtype)
        graph.values[name] = NodeValue(name, without(value, dims, keepdim=True), result_type)

    return rule


_NORMS = {
    1: ("tl.abs({0})", "sum", "{0}"),
    2: ("{0} * {0}", "sum", "tl.sqrt({0})"),
    float("inf"): ("tl.abs({0})", "amax", "{0}"),
    float("-inf"): ("tl.abs({0})", "amin", "{0}"),
    0: ("({0} != 0).to(tl.float32)", "sum", "{0}"),
}
"""Order of a vector norm -> (of an element, reduction, of the reduced)."""


def _norm(graph: NodeGraph, call: Call) -> None:
    value, axes, dims = _reduced(graph, call)
    [name], [result_type] = call.outputs, call.types
    order = call.arg("ord")
    power = literal(order)
    general = (
        f"libdevice.pow(tl.abs({{0}}), {power})",
        "sum",
        f"libdevice.pow({{0}}, 1 / {power})",
    )
    inner, kind, outer = _NORMS.get(order, general)
    part = graph.map(f"{name}_part", call.op, inner.format(value.node), [value.node], "float32")
    whole = graph.reduce(f"{name}_{kind}", call.op, kind, part, axes)
    graph.map(name, call.op, outer.format(whole), [whole], result_type.dtype)
    graph.values[name] = NodeValue(name, dims, result_type)


def _logsumexp(graph: NodeGraph, call: Call) -> None:
    value, axes, dims = _reduced(graph, call)
    [name], [result_type] = call.outputs, call.types
    node = widened(graph, value, call.op)
    top, _, total = exponentials(graph, call.op, name, node, axes, is_log=True)
    graph.map(name, call.op, f"{top} + tl.log({total})", [top, total], result_type.dtype)
    graph.values[name] = NodeValue(name, dims, result_type)


def _softmax(graph: NodeGraph, call: Call) -> None:
    value = operand(graph, call)
    [name], [result_type] = call.outputs, call.types
    axes = over(value, dim_indices(call.arg("dim"), value.type.rank))
    node = widened(graph, value, call.op)
    top, exp, total = exponentials(graph, call.op, name, node, axes)
    if call.op == "softmax":
        graph.map(name, call.op, f"{exp} / {total}", [exp, total], result_type.dtype)
    else:
        text = f"{node} - {top} - tl.log({total})"
        graph.map(name, call.op, text, [node, top, total], result_type.dtype)
    graph.values[name] = NodeValue(name, value.dims, result_type)


def _dot(graph: NodeGraph, call: Call) -> None:
    """The rule of a product of two vectors: a sum of products.

    Raises:
        NotWritable: an operand is a matrix (the family of matrix products), or holds integers.
    """
    first, second = (graph.values[name] for name in call.refs())
    if (first.type.rank, second.type.rank) != (1, 1):
        raise NotWritable("a matrix product")
    dims = graph.axes.broadcast([first.dims, second.dims])
    [name], [result_type] = call.outputs, call.types
    if not is_float(result_type.dtype):
        raise NotWritable("a product of integers")
    nodes = [first.node, second.node]
    product = graph.map(f"{name}_product", call.op, " * ".join(nodes), nodes, "float32")
    graph.reduce(name, call.op, "sum", product, dims[0])
    graph.values[name] = NodeValue(name, (), result_type)


REDUCTIONS: dict[str, Rule] = {
    **{kind: _plain(kind) for kind in ("sum", "mean", "prod")},
    **{f"adaptive_avg_pool{spatial}d": _pooled("mean") for spatial in (1, 2, 3)},
    **{f"adaptive_max_pool{spatial}d": _pooled("max") for spatial in (1, 2, 3)},
    "amax": _plain("max"),
    "amin": _plain("min"),
    "max_all": _plain("max"),
    "min_all": _plain("min"),
    "max": _with_position("max"),
    "min": _with_position("min"),
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    "any": _truth("max"),
    "all": _truth("min"),
    "var": _moment("{}"),
    "std": _moment("tl.sqrt({})"),
    "norm": _norm,
    "logsumexp": _logsumexp,
    **dict.fromkeys(("dot", "matmul"), _dot),
    "softmax": _softmax,
    "log_softmax": _softmax,
}

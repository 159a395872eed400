"""Rules that take normalizations apart: statistics, then scale and shift."""

from collections.abc import Sequence

from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.nodes.decompose import Rule, operand
from kernelwright.teacher.nodes.graph import NodeGraph, NodeValue, count
from kernelwright.teacher.nodes.reductions import moments, over
from kernelwright.teacher.text.expressions import literal

_EPSILON = 1.1920928955078125e-07
"""The number that rms_norm adds without an eps: that of float32, in which 16-bit types are
computed."""


def _given(graph: NodeGraph, call: Call, parameter: str) -> NodeValue | None:
    return operand(graph, call, parameter) if isinstance(call.arg(parameter), Ref) else None


def _aligned(graph: NodeGraph, call: Call, value: NodeValue, dims: Sequence[int]) -> dict[str, str]:
    """Nodes of the weights and statistics that a call is given.

    Args:
        dims: dimensions of `value` along which these tensors lie. Their axes are united.

    Returns:
        Parameter -> node, for "weight", "bias", "running_mean" and "running_var".
    """
    names = {param.name for param in call.operator.params}
    nodes = {}
    for parameter in ("weight", "bias", "running_mean", "running_var"):
        node = _given(graph, call, parameter) if parameter in names else None
        if node:
            nodes[parameter] = node.node
            # Shared axes give the parameter its place in every tile of the value.
            for mine, theirs in zip(node.dims, dims, strict=True):
                graph.axes.unite(mine, value.dims[theirs])
    return nodes


def _scaled(
    graph: NodeGraph,
    call: Call,
    value: NodeValue,
    centered: str,
    inverse: str,
    given: dict[str, str],
) -> None:
    """Adds the call's first output: centered * inverse, then weight and bias as far as given."""
    text, args = f"{centered} * {inverse}", [centered, inverse]
    if "weight" in given:
        text, args = f"{text} * {given['weight']}", [*args, given["weight"]]
    if "bias" in given:
        text, args = f"{text} + {given['bias']}", [*args, given["bias"]]
    name, result_type = call.outputs[0], call.types[0]
    graph.map(name, call.op, text, args, result_type.dtype)
    graph.values[name] = NodeValue(name, value.dims, result_type)


def _inverse(graph: NodeGraph, call: Call, variance: str, args: Sequence[str]) -> str:
    """Adds the node 1 / sqrt(variance + eps), where `variance` is a text over `args`."""
    text = f"tl.rsqrt({variance} + {literal(call.arg('eps'))})"
    return graph.map(f"{call.outputs[0]}_rstd", call.op, text, args, "float32")


def _own_statistics(
    graph: NodeGraph, call: Call, value: NodeValue, axes: Sequence[int], given: dict[str, str]
) -> tuple[str, str, str]:
    """Adds a normalization by the value's own mean and variance over axes.

    Returns:
        Names of the nodes (mean, 1 / deviation, sum of squared deviations).
    """
    mean, centered, squares = moments(graph, call.op, call.outputs[0], value.node, axes)
    inverse = _inverse(graph, call, f"{squares} / {count(axes)}", [squares])
    _scaled(graph, call, value, centered, inverse, given)
    return mean, inverse, squares


def _trailing(call: Call, value: NodeValue) -> range:
    """Dimensions that `normalized_shape` names."""
    shape = call.arg("normalized_shape")
    length = len(shape) if isinstance(shape, tuple) else 1
    return range(value.type.rank - length, value.type.rank)


def _layer_norm(graph: NodeGraph, call: Call) -> None:
    value = operand(graph, call)
    dims = _trailing(call, value)
    affine = _aligned(graph, call, value, dims)
    _own_statistics(graph, call, value, over(value, dims), affine)


def _rms_norm(graph: NodeGraph, call: Call) -> None:
    value = operand(graph, call)
    dims = _trailing(call, value)
    affine = _aligned(graph, call, value, dims)
    [name], node = call.outputs, value.node
    square = graph.map(f"{name}_square", call.op, f"{node} * {node}", [node], "float32")
    mean = graph.reduce(f"{name}_mean", call.op, "mean", square, over(value, dims))
    eps = call.arg("eps")
    eps = _EPSILON if eps is None else eps
    text = f"tl.rsqrt({mean} + {literal(eps)})"
    inverse = graph.map(f"{name}_rrms", call.op, text, [mean], "float32")
    _scaled(graph, call, value, node, inverse, affine)


def _group_norm(graph: NodeGraph, call: Call) -> None:
    value, groups = operand(graph, call), call.arg("num_groups")
    outer, inner = graph.axes.new(groups), graph.axes.new(value.type.shape[1] // groups)
    graph.axes.unite(value.dims[1], (*outer, *inner))
    # The number of groups is an attribute: the shape of no input tells it.
    graph.constants |= dict.fromkeys(outer, groups)
    affine = _aligned(graph, call, value, [1])
    axes = (*inner, *(axis for dim in value.dims[2:] for axis in dim))
    _own_statistics(graph, call, value, axes, affine)


def _running(graph: NodeGraph, call: Call, value: NodeValue, given: dict[str, str]) -> None:
    """Adds a normalization by running statistics, as in inference."""
    name, mean, variance = call.outputs[0], given["running_mean"], given["running_var"]
    text = f"{value.node} - {mean}"
    centered = graph.map(f"{name}_centered", call.op, text, [value.node, mean], "float32")
    inverse = _inverse(graph, call, variance, [variance])
    _scaled(graph, call, value, centered, inverse, given)


def _instance_norm(graph: NodeGraph, call: Call) -> None:
    value = operand(graph, call)
    affine = _aligned(graph, call, value, [1])
    if not call.arg("use_input_stats"):
        _running(graph, call, value, affine)
        return
    axes = over(value, range(2, value.type.rank))
    _own_statistics(graph, call, value, axes, affine)


def _batch_norm(graph: NodeGraph, call: Call) -> None:
    value = operand(graph, call)
    affine = _aligned(graph, call, value, [1])
    if not call.arg("training"):
        _running(graph, call, value, affine)
        return
    axes = over(value, [0, *range(2, value.type.rank)])
    _own_statistics(graph, call, value, axes, affine)


def _batch_norm_train(graph: NodeGraph, call: Call) -> None:
    """The outputs of a training batch norm.

    They are: the normalized value, the mean, 1 / deviation, and both running statistics after a
    step towards this batch.
    """
    value = operand(graph, call)
    affine = _aligned(graph, call, value, [1])
    axes = over(value, [0, *range(2, value.type.rank)])
    mean, inverse, squares = _own_statistics(graph, call, value, axes, affine)
    # PyTorch normalizes by the biased variance and keeps the unbiased one.
    unbiased = graph.map(
        f"{call.outputs[0]}_var", call.op, f"{squares} / ({count(axes)} - 1)", [squares], "float32"
    )
    momentum = call.arg("momentum")
    moved = "{0} + {m} * ({1} - {0})"
    for output, result_type, old, new in zip(
        call.outputs[1:], call.types[1:],
        ("", "", affine["running_mean"], affine["running_var"]),
        (mean, inverse, mean, unbiased), strict=True,
    ):  # fmt: skip
        node = new
        if old:
            text = moved.format(old, new, m=literal(momentum))
            node = graph.map(output, call.op, text, [old, new], result_type.dtype)
        graph.values[output] = NodeValue(node, (value.dims[1],), result_type)


NORMS: dict[str, Rule] = {
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "batch_norm": _batch_norm,
    "batch_norm_train": _batch_norm_train,
}

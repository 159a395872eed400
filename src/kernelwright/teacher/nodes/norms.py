"""Rules that take normalizations apart: statistics, then scale and shift."""

from collections.abc import Sequence
from functools import partial

from kernelwright.programs.program import Ref
from kernelwright.teacher.nodes.graph import NodeValue, count
from kernelwright.teacher.nodes.reductions import moments, over
from kernelwright.teacher.nodes.rule_writer import Rule, RuleWriter
from kernelwright.teacher.text.expressions import literal

_EPSILON = 1.1920928955078125e-07
"""The number that rms_norm adds without an eps: that of float32, in which 16-bit types are
computed."""


def _aligned(writer: RuleWriter, value: NodeValue, dims: Sequence[int]) -> dict[str, str]:
    """Nodes of the weights and statistics that a call is given.

    Args:
        dims: dimensions of `value` along which these tensors lie. Their axes are united.

    Returns:
        Parameter -> node, for "weight", "bias", "running_mean" and "running_var".
    """
    names = {param.name for param in writer.call.operator.params}
    nodes: dict[str, str] = {}
    for parameter in ("weight", "bias", "running_mean", "running_var"):
        if parameter in names and isinstance(writer.arg(parameter), Ref):
            operand = writer.operand(parameter)
            nodes[parameter] = operand.node
            # Shared axes give the parameter its place in every tile of the value.
            for mine, theirs in zip(operand.dims, dims, strict=True):
                writer.graph.axes.unite(mine, value.dims[theirs])
    return nodes


def _scaled(
    writer: RuleWriter, value: NodeValue, centered: str, inverse: str, affine: dict[str, str]
) -> None:
    """Adds the call's first output: centered * inverse, then weight and bias, if there are any."""
    text, args = f"{centered} * {inverse}", [centered, inverse]
    for parameter, sign in (("weight", "*"), ("bias", "+")):
        if parameter in affine:
            text, args = f"{text} {sign} {affine[parameter]}", [*args, affine[parameter]]
    writer.end(text, args, value.dims)


def _inverse(writer: RuleWriter, variance: str, args: Sequence[str]) -> str:
    """Adds the node 1 / sqrt(variance + eps), where `variance` is a text over `args`."""
    return writer.node("rstd", f"tl.rsqrt({variance} + {literal(writer.arg('eps'))})", args)


def _own_statistics(
    writer: RuleWriter, value: NodeValue, axes: Sequence[int], affine: dict[str, str]
) -> tuple[str, str, str]:
    """Adds a normalization by the value's own mean and variance over axes.

    Returns:
        Names of the nodes (mean, 1 / deviation, sum of squared deviations).
    """
    mean, centered, squares = moments(writer, value.node, axes)
    inverse = _inverse(writer, f"{squares} / {count(axes)}", [squares])
    _scaled(writer, value, centered, inverse, affine)
    return mean, inverse, squares


def _trailing(writer: RuleWriter, value: NodeValue) -> range:
    """Dimensions that `normalized_shape` names."""
    shape = writer.arg("normalized_shape")
    length = len(shape) if isinstance(shape, tuple) else 1
    return range(value.type.rank - length, value.type.rank)


def _layer_norm(writer: RuleWriter) -> None:
    value = writer.operand()
    dims = _trailing(writer, value)
    _own_statistics(writer, value, over(value, dims), _aligned(writer, value, dims))


def _rms_norm(writer: RuleWriter) -> None:
    value = writer.operand()
    dims, node = _trailing(writer, value), value.node
    affine = _aligned(writer, value, dims)
    square = writer.node("square", f"{node} * {node}", [node])
    mean = writer.reduce("mean", square, over(value, dims), "mean")
    eps = writer.arg("eps")
    text = f"tl.rsqrt({mean} + {literal(_EPSILON if eps is None else eps)})"
    _scaled(writer, value, node, writer.node("rrms", text, [mean]), affine)


def _group_norm(writer: RuleWriter) -> None:
    value, groups, new = writer.operand(), writer.arg("num_groups"), writer.graph.axes.new
    outer, inner = new(groups), new(value.type.shape[1] // groups)
    writer.graph.axes.unite(value.dims[1], (*outer, *inner))
    # The number of groups is an attribute: the shape of no input tells it.
    writer.graph.constants |= dict.fromkeys(outer, groups)
    axes = (*inner, *(axis for dim in value.dims[2:] for axis in dim))
    _own_statistics(writer, value, axes, _aligned(writer, value, [1]))


def _by_channel(over_batch: bool, own: str, writer: RuleWriter) -> None:
    """The rule of batch_norm and instance_norm: by own statistics, or by running ones.

    Args:
        over_batch: whether statistics run over the samples too.
        own: attribute that says whether statistics are those of the value.
    """
    value = writer.operand()
    affine = _aligned(writer, value, [1])
    if writer.arg(own):
        dims = [*([0] if over_batch else []), *range(2, value.type.rank)]
        _own_statistics(writer, value, over(value, dims), affine)
        return
    mean, variance = affine["running_mean"], affine["running_var"]
    centered = writer.node("centered", f"{value.node} - {mean}", [value.node, mean])
    _scaled(writer, value, centered, _inverse(writer, variance, [variance]), affine)


def _batch_norm_train(writer: RuleWriter) -> None:
    """The outputs of a training batch norm.

    They are: the normalized value, the mean, 1 / deviation, and both running statistics after a
    step towards this batch.
    """
    value = writer.operand()
    affine = _aligned(writer, value, [1])
    axes = over(value, [0, *range(2, value.type.rank)])
    mean, inverse, squares = _own_statistics(writer, value, axes, affine)
    # PyTorch normalizes by the biased variance and keeps the unbiased one.
    unbiased = writer.node("var", f"{squares} / ({count(axes)} - 1)", [squares])
    dims, momentum = (value.dims[1],), literal(writer.arg("momentum"))
    writer.show(mean, dims, 1)
    writer.show(inverse, dims, 2)
    for at, name, new in ((3, "running_mean", mean), (4, "running_var", unbiased)):
        old = affine[name]
        writer.end(f"{old} + {momentum} * ({new} - {old})", [old, new], dims, at)


NORMS: dict[str, Rule] = {
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "instance_norm": partial(_by_channel, False, "use_input_stats"),
    "batch_norm": partial(_by_channel, True, "training"),
    "batch_norm_train": _batch_norm_train,
}

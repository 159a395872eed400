"""Rules that take reductions and the softmax family apart into primitive nodes."""

from collections.abc import Sequence
from functools import partial

from kernelwright.ops.rules import dim_indices, is_float, is_int
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.graph import LARGEST, NodeValue, ReductionPair, count
from kernelwright.teacher.nodes.rule_writer import Rule, RuleWriter
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


def moments(writer: RuleWriter, value: str, axes: Sequence[int]) -> tuple[str, str, str]:
    """Adds nodes of the mean and of the sum of squared deviations over axes.

    Args:
        value: node that is reduced.

    Returns:
        Names of the nodes (mean, value - mean, sum of squared deviations).
    """
    # Two passes: the mean of squares minus the square of the mean cancels for large means.
    mean = writer.reduce("mean", value, axes, "mean")
    centered = writer.node("centered", f"{value} - {mean}", [value, mean])
    square = writer.node("square", f"{centered} * {centered}", [centered])
    pair = ReductionPair("moments", value, mean)
    return mean, centered, writer.reduce("m2", square, axes, pair=pair)


def exponentials(
    writer: RuleWriter, value: str, axes: Sequence[int], *, is_log: bool = False
) -> tuple[str, str, str]:
    """Adds nodes of the maximum and of the sum of exponentials over axes.

    Args:
        value: node that is reduced, in fp32.
        is_log: whether only max + log(sum) is asked for. Then the maximum is finite, and infinite
            elements are in the sum. Without, infinite maxima make the sum NaN, as in a softmax.

    Returns:
        Names of the nodes (max, exp(value - max), sum of exp(value - max)).
    """
    # The largest exponent is 0, so no exponential overflows.
    first = top = writer.reduce("max", value, axes, "max")
    if is_log:
        # PyTorch's logsumexp of infinities is infinite; inf - inf would be NaN.
        top = writer.node("top", f"tl.minimum(tl.maximum({top}, -{LARGEST}), {LARGEST})", [top])
    exp = writer.node("exp", f"tl.exp({value} - {top})", [value, top])
    pair = ReductionPair("logsumexp" if is_log else "softmax", value, first)
    return top, exp, writer.reduce("sum", exp, axes, pair=pair)


def _reduced(writer: RuleWriter) -> tuple[NodeValue, tuple[int, ...], Dims]:
    """(operand, axes that the call reduces, dimensions of its result)."""
    value = writer.operand()
    names = {param.name for param in writer.call.operator.params}
    dims = dim_indices(writer.arg("dim") if "dim" in names else None, value.type.rank)
    keepdim = "keepdim" in names and bool(writer.arg("keepdim"))
    return value, over(value, dims), without(value, dims, keepdim)


def _passing(kind: str, dtype: str) -> str:
    """The kind of a reduction, "amax" or "amin" if it is an extremum of floats.

    Sums and products pass NaN on by themselves, and integers have none.
    """
    return f"a{kind}" if kind in ("max", "min") and is_float(dtype) else kind


def _plain(kind: str, writer: RuleWriter) -> None:
    """The rule of a reduction of the value itself: sum, mean, prod, amax and amin."""
    value, axes, dims = _reduced(writer)
    node, dtype = value.node, writer.call.types[0].dtype
    # PyTorch sums integers in the dtype of the result: a sum of int8 is one of int64.
    if is_float(dtype):
        node = writer.widened(value)
    elif value.type.dtype != dtype:
        node = writer.node("wide", f"{node}.to({triton_dtype(dtype)})", [node], dtype)
    writer.end_reduced(_passing(kind, dtype), node, axes, dims)


def _arg(kind: str, writer: RuleWriter) -> None:
    """The rule of argmax or argmin."""
    value, axes, dims = _reduced(writer)
    # The kernel would count positions in memory order, PyTorch counts them by dimensions.
    if writer.arg("dim") is None and value.type.layout != "contiguous":
        raise NotWritable("a flat position in a channels-last tensor")
    _position(writer, kind, value, axes, dims)


def _position(
    writer: RuleWriter, kind: str, value: NodeValue, axes: Sequence[int], dims: Dims
) -> None:
    element = value.node
    if is_int(value.type.dtype):
        # Narrow integers are widened: their least value, the neutral element, is a common element.
        wide = "int64" if value.type.dtype == "int64" else "int32"
        ranked = writer.node("ranked", f"{element}.to({triton_dtype(wide)})", [element], wide)
        writer.end_reduced(kind, ranked, axes, dims, output=-1, compared=wide)
        return
    if not value.is_float:
        raise NotWritable("the position of a truth value")
    # PyTorch ranks NaN before infinity, and comparisons drop NaN. So NaN becomes infinity, and
    # infinity the largest number.
    if kind == "argmax":
        bounded, first = f"tl.minimum({element}, {LARGEST})", "float('inf')"
    else:
        bounded, first = f"tl.maximum({element}, -{LARGEST})", "-float('inf')"
    text = f"tl.where({element} == {element}, {bounded}, {first})"
    ranked = writer.node("ranked", text, [element])
    # argmax has one result; of max with `dim`, the position is the second result.
    writer.end_reduced(kind, ranked, axes, dims, output=-1)


def _with_position(kind: str, writer: RuleWriter) -> None:
    """The rule of torch.max(x, dim) or torch.min(x, dim): values and indices."""
    value, axes, dims = _reduced(writer)
    reduced = _passing(kind, writer.call.types[0].dtype)
    writer.end_reduced(reduced, value.node, axes, dims)
    _position(writer, f"arg{kind}", value, axes, dims)


def _truth(kind: str, writer: RuleWriter) -> None:
    """The rule of any ("max") or all ("min"): the maximum or the minimum of (x != 0)."""
    value, axes, dims = _reduced(writer)
    truth = writer.node("true", f"({value.node} != 0).to(tl.int32)", [value.node], "int32")
    reduced = writer.reduce(kind, truth, axes, kind, "int32")
    writer.end(f"{reduced} != 0", [reduced], dims)


def _moment(template: str, writer: RuleWriter) -> None:
    """The rule of var or std; `template` makes the result of the variance."""
    value, axes, dims = _reduced(writer)
    _, _, squares = moments(writer, value.node, axes)
    correction = writer.arg("correction")
    correction = 1 if correction is None else int(correction)
    number = count(axes)
    divisor = f"({number} - {correction})" if correction else number
    # PyTorch divides by 0, not by a negative number. No row is shorter than 1.
    if correction > 1:
        divisor = f"tl.maximum({divisor}, 0)" if axes else "0"
    writer.end(template.format(f"{squares} / {divisor}"), [squares], dims)


def _pooled(kind: str, writer: RuleWriter) -> None:
    """The rule of an adaptive pool to one element: a reduction over all spatial dimensions."""
    value, [result_type] = writer.operand(), writer.call.types
    _, spatial = POOLS[writer.call.op]
    dims = range(result_type.rank - spatial, result_type.rank)
    # Windows that move are written by `window.pool`.
    if any(result_type.shape[dim] != 1 for dim in dims):
        raise NotWritable("a window that moves")
    reduced = _passing(kind, result_type.dtype)
    writer.end_reduced(reduced, value.node, over(value, dims), without(value, dims, keepdim=True))


_NORMS = {
    1: ("tl.abs({0})", "sum", "{0}"),
    2: ("{0} * {0}", "sum", "tl.sqrt({0})"),
    float("inf"): ("tl.abs({0})", "amax", "{0}"),
    float("-inf"): ("tl.abs({0})", "amin", "{0}"),
    0: ("({0} != 0).to(tl.float32)", "sum", "{0}"),
}
"""Order of a vector norm -> (text of an element's part, reduction, text of the result)."""


def _norm(writer: RuleWriter) -> None:
    value, axes, dims = _reduced(writer)
    power = literal(writer.arg("ord"))
    general = (
        f"libdevice.pow(tl.abs({{0}}), {power})",
        "sum",
        f"libdevice.pow({{0}}, 1 / {power})",
    )
    inner, kind, outer = _NORMS.get(writer.arg("ord"), general)
    part = writer.node("part", inner.format(value.node), [value.node])
    whole = writer.reduce(kind, part, axes, kind)
    writer.end(outer.format(whole), [whole], dims)


def _logsumexp(writer: RuleWriter) -> None:
    value, axes, dims = _reduced(writer)
    top, _, total = exponentials(writer, writer.widened(value), axes, is_log=True)
    writer.end(f"{top} + tl.log({total})", [top, total], dims)


def _softmax(writer: RuleWriter) -> None:
    value = writer.operand()
    axes = over(value, dim_indices(writer.arg("dim"), value.type.rank))
    node = writer.widened(value)
    top, exp, total = exponentials(writer, node, axes)
    if writer.call.op == "softmax":
        writer.end(f"{exp} / {total}", [exp, total], value.dims)
    else:
        writer.end(f"{node} - {top} - tl.log({total})", [node, top, total], value.dims)


def _dot(writer: RuleWriter) -> None:
    """The rule of a product of two vectors: a sum of products.

    Raises:
        NotWritable: an operand is a matrix (the family of matrix products), or holds integers.
    """
    first, second = (writer.graph.values[name] for name in writer.call.refs())
    if (first.type.rank, second.type.rank) != (1, 1):
        raise NotWritable("a matrix product")
    dims = writer.graph.axes.broadcast([first.dims, second.dims])
    if not is_float(writer.call.types[0].dtype):
        raise NotWritable("a product of integers")
    nodes = [first.node, second.node]
    product = writer.node("product", " * ".join(nodes), nodes)
    writer.end_reduced("sum", product, dims[0], ())


REDUCTIONS: dict[str, Rule] = {
    **{kind: partial(_plain, kind) for kind in ("sum", "mean", "prod")},
    **{f"adaptive_avg_pool{spatial}d": partial(_pooled, "mean") for spatial in (1, 2, 3)},
    **{f"adaptive_max_pool{spatial}d": partial(_pooled, "max") for spatial in (1, 2, 3)},
    "amax": partial(_plain, "max"),
    "amin": partial(_plain, "min"),
    "max_all": partial(_plain, "max"),
    "min_all": partial(_plain, "min"),
    "max": partial(_with_position, "max"),
    "min": partial(_with_position, "min"),
    "argmax": partial(_arg, "argmax"),
    "argmin": partial(_arg, "argmin"),
    "any": partial(_truth, "max"),
    "all": partial(_truth, "min"),
    "var": partial(_moment, "{}"),
    "std": partial(_moment, "tl.sqrt({})"),
    "norm": _norm,
    "logsumexp": _logsumexp,
    **dict.fromkeys(("dot", "matmul"), _dot),
    "softmax": _softmax,
    "log_softmax": _softmax,
}

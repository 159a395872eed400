"""Rules that take losses and similarities apart: an element's or a sample's loss, then its mean."""

from collections.abc import Sequence

from kernelwright.ops.rules import dim_index, is_float
from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.decompose import Rule, operand
from kernelwright.teacher.nodes.graph import POSITION, NodeGraph, NodeValue, count
from kernelwright.teacher.nodes.reductions import exponentials, over, without
from kernelwright.teacher.text.expressions import NotWritable, literal


def _node(graph: NodeGraph, call: Call, part: str, text: str, args: Sequence[str]) -> str:
    """A map of the call's, named after its result."""
    return graph.map(f"{call.outputs[0]}_{part}", call.op, text, args, "float32")


def _reduce(graph: NodeGraph, call: Call, part: str, of: str, axes: Sequence[int]) -> str:
    """Adds a sum over axes, named after the call's result."""
    return graph.reduce(f"{call.outputs[0]}_{part}", call.op, "sum", of, axes)


def _finish(
    graph: NodeGraph, call: Call, loss: str, dims: Dims, weight: str = "", how: str = ""
) -> None:
    """Adds the call's result, made of the loss of each element or sample.

    Args:
        loss: node of the losses.
        dims: dimensions of the losses.
        weight: node of the weights by which a mean is divided; "" for a plain mean.
        how: "none", "sum" or "mean"; "" for the call's own `reduction`.
    """
    [name], [result_type] = call.outputs, call.types
    axes = tuple(axis for dim in dims for axis in dim)
    how = how or call.arg("reduction")
    if how == "none":
        graph.map(name, call.op, loss, [loss], result_type.dtype)
        graph.values[name] = NodeValue(name, dims, result_type)
        return
    # A single sample has no axis: its loss is the total.
    total = _reduce(graph, call, "total", loss, axes) if axes else loss
    text, args = total, [total]
    if how == "mean" and weight:
        # An ignored sample weighs 0, and PyTorch's mean over ignored samples alone is 0 / 0.
        shares = _reduce(graph, call, "shares", weight, axes) if axes else weight
        text, args = f"{total} / {shares}", [total, shares]
    elif how == "mean":
        text = f"{total} / {count(axes)}" if axes else total
    graph.map(name, call.op, text, args, result_type.dtype)
    graph.values[name] = NodeValue(name, (), result_type)


def _operands(graph: NodeGraph, call: Call, *names: str) -> tuple[dict[str, str], Dims]:
    """(parameter -> node in fp32, dimensions) of the named operands that are tensors.

    The dimensions are those to which all these operands broadcast.
    """
    values = {n: operand(graph, call, n) for n in names if isinstance(call.arg(n), Ref)}
    dims = graph.axes.broadcast([value.dims for value in values.values()])
    nodes = {}
    for name, value in values.items():
        nodes[name] = value.node
        if not value.is_float:
            nodes[name] = _node(graph, call, name, f"{value.node}.to(tl.float32)", [value.node])
    return nodes, dims


_NAN = "propagate_nan=tl.PropagateNan.ALL"
"""`tl.maximum` and `tl.minimum` drop NaN without this argument; PyTorch's losses pass NaN on."""

_ELEMENTS = {
    "mse_loss": "({input} - {target}) * ({input} - {target})",
    "l1_loss": "tl.abs({input} - {target})",
    "hinge_embedding_loss": "tl.where({target} == 1, {input}, "
    f"tl.maximum({{margin}} - {{input}}, 0.0, {_NAN}))",
    "soft_margin_loss": "tl.maximum(-{target} * {input}, 0.0)"
    " + libdevice.log1p(tl.exp(-tl.abs({target} * {input})))",
    "margin_ranking_loss": "tl.maximum(-{target} * ({input1} - {input2}) + {margin}, "
    f"0.0, {_NAN})",
    "binary_cross_entropy": "-({target} * tl.maximum(tl.log({input}), -100.0)"
    " + (1 - {target}) * tl.maximum(libdevice.log1p(-{input}), -100.0))",
    "binary_cross_entropy_with_logits": "tl.maximum({input}, 0.0) - {input} * {target}"
    " + libdevice.log1p(tl.exp(-tl.abs({input})))",
}
"""Loss of one element, where attributes do not change the formula."""
_HUBER = (
    "tl.where(tl.abs({input} - {target}) < {delta}, "
    "0.5 * ({input} - {target}) * ({input} - {target}), "
    "{delta} * (tl.abs({input} - {target}) - 0.5 * {delta}))"
)
_WEIGHTED_LOGITS = (
    "(1 - {target}) * {input} + (1 + ({pos_weight} - 1) * {target}) * "
    "(tl.maximum(-{input}, 0.0) + libdevice.log1p(tl.exp(-tl.abs({input}))))"
)
_SMOOTH_L1 = (
    "tl.where(tl.abs({input} - {target}) < {beta}, "
    "0.5 * ({input} - {target}) * ({input} - {target}) / {beta}, "
    "tl.abs({input} - {target}) - 0.5 * {beta})"
)


def _template(call: Call) -> str:
    """The formula of one element's loss, with the call's parameters as fields."""
    if call.op == "huber_loss":
        return _HUBER
    if call.op == "smooth_l1_loss":
        return _SMOOTH_L1 if call.arg("beta") > 0 else _ELEMENTS["l1_loss"]
    if call.op == "kl_div":
        if call.arg("log_target"):
            return "libdevice.exp({target}) * ({target} - {input})"
        return "tl.where({target} > 0, {target} * (tl.log({target}) - {input}), 0.0)"
    if call.op == "binary_cross_entropy_with_logits" and isinstance(call.arg("pos_weight"), Ref):
        return _WEIGHTED_LOGITS
    return _ELEMENTS[call.op]


def _elementwise(graph: NodeGraph, call: Call) -> None:
    """The rule of losses that are computed element by element and then reduced."""
    params = call.operator.params
    names = [p.name for p in params if isinstance(call.arg(p.name), Ref)]
    nodes, dims = _operands(graph, call, *names)
    settings = {p.name: call.arg(p.name) for p in params if p.name not in nodes}
    numbers = {k: literal(v) for k, v in settings.items() if isinstance(v, int | float)}
    loss = _node(graph, call, "loss", _template(call).format(**nodes, **numbers), [*nodes.values()])
    if "weight" in nodes:
        text = f"{loss} * {nodes['weight']}"
        loss = _node(graph, call, "weighted", text, [loss, nodes["weight"]])
    if call.arg("reduction") == "batchmean":
        _batch_mean(graph, call, loss, dims)
        return
    _finish(graph, call, loss, dims)


def _batch_mean(graph: NodeGraph, call: Call, loss: str, dims: Dims) -> None:
    """Adds the sum of the losses divided by the batch size, the call's result."""
    # COUNT is the number of elements that a reduction reduces. Samples are summed first, so that
    # the last reduction runs over the batch and COUNT is its size.
    rows = over(operand(graph, call), [0])
    rest = tuple(axis for dim in dims[1:] for axis in dim)
    row_loss = _reduce(graph, call, "each", loss, rest) if rest else loss
    total = _reduce(graph, call, "total", row_loss, rows)
    [name], [result_type] = call.outputs, call.types
    graph.map(name, call.op, f"{total} / {count(rows)}", [total], result_type.dtype)
    graph.values[name] = NodeValue(name, (), result_type)


# Classes


def _classes(graph: NodeGraph, call: Call) -> tuple[NodeValue, NodeValue, Dims]:
    """(scores, target, dimensions of a sample's loss); axes that are the same are united.

    Shapes: scores (N, C, *rest), target (N, *rest) of classes or (N, C, *rest) of probabilities.

    Raises:
        NotWritable: scores are of a single sample without a batch, or of a single class.
    """
    scores, target = operand(graph, call), operand(graph, call, "target")
    if scores.type.rank < 2:
        raise NotWritable("a single sample")
    # A dimension of size 1 has no axis, along which POSITION could count classes.
    if scores.type.shape[1] == 1:
        raise NotWritable("a single class")
    dims = without(scores, [1], keepdim=False)
    if is_float(target.type.dtype):
        for mine, theirs in zip(target.dims, scores.dims, strict=True):
            graph.axes.unite(theirs, mine)
    else:
        graph.axes.broadcast([dims, target.dims])
    if isinstance(call.arg("weight"), Ref):
        graph.axes.unite(scores.dims[1], operand(graph, call, "weight").dims[0])
    return scores, target, dims


def _chosen(
    graph: NodeGraph, call: Call, part: str, of: str, target: NodeValue, axes: Sequence[int]
) -> str:
    """Adds the element of `of` at the target's class."""
    # A graph of loads, maps and reductions has no gather: a sum with one term takes its place.
    text = f"tl.where({POSITION} == {target.node}, {of}, 0.0)"
    masked = _node(graph, call, f"{part}_at", text, [of, target.node])
    return _reduce(graph, call, part, masked, axes)


def _share(graph: NodeGraph, call: Call, target: NodeValue, axes: Sequence[int]) -> str:
    """Adds the weight of a sample: that of its class, or 1, and 0 if the target is ignored."""
    text, args = f"({target.node} != {call.arg('ignore_index')})", [target.node]
    if isinstance(call.arg("weight"), Ref):
        weights = operand(graph, call, "weight").node
        weight = _chosen(graph, call, "weight", weights, target, axes)
        return _node(graph, call, "share", f"tl.where({text}, {weight}, 0.0)", [*args, weight])
    return _node(graph, call, "share", f"{text}.to(tl.float32)", args)


def _nll(graph: NodeGraph, call: Call) -> None:
    scores, target, dims = _classes(graph, call)
    axes = over(scores, [1])
    picked = _chosen(graph, call, "picked", scores.node, target, axes)
    share = _share(graph, call, target, axes)
    loss = _node(graph, call, "loss", f"-{picked} * {share}", [picked, share])
    _finish(graph, call, loss, dims, share)


def _cross_entropy(graph: NodeGraph, call: Call) -> None:
    """The rule of cross_entropy, with targets of classes or of probabilities."""
    scores, target, dims = _classes(graph, call)
    axes, smoothing = over(scores, [1]), call.arg("label_smoothing")
    top, _, total = exponentials(graph, call.op, call.outputs[0], scores.node, axes)
    norm = _node(graph, call, "norm", f"{top} + tl.log({total})", [top, total])
    surprise = _node(graph, call, "surprise", f"{norm} - {scores.node}", [norm, scores.node])
    if isinstance(call.arg("weight"), Ref):
        weight = operand(graph, call, "weight").node
        surprise = _node(graph, call, "weighted", f"{surprise} * {weight}", [surprise, weight])
    if target.is_float:
        part = _node(graph, call, "part", f"{target.node} * {surprise}", [target.node, surprise])
        loss = _smoothed(graph, call, _reduce(graph, call, "hard", part, axes), surprise, axes)
        _finish(graph, call, loss, dims)
        return
    share = _share(graph, call, target, axes)
    picked = _chosen(graph, call, "picked", scores.node, target, axes)
    text, args = f"({norm} - {picked}) * {share}", [norm, picked, share]
    loss = _node(graph, call, "hard" if smoothing else "loss", text, args)
    loss = _smoothed(graph, call, loss, surprise, axes)
    if smoothing:  # nothing of samples that are ignored
        text = f"tl.where({target.node} != {call.arg('ignore_index')}, {loss}, 0.0)"
        loss = _node(graph, call, "counted", text, [target.node, loss])
    _finish(graph, call, loss, dims, share)


def _smoothed(graph: NodeGraph, call: Call, loss: str, surprise: str, axes: Sequence[int]) -> str:
    """Adds a sample's loss under label smoothing: (1 - s) * loss + s * mean over all classes.

    Args:
        loss: node of the loss of each sample.
        surprise: node of -log(probability), weighted, of each class.
        axes: axes of the classes.
    """
    smoothing = call.arg("label_smoothing")
    if not smoothing:
        return loss
    even = graph.reduce(f"{call.outputs[0]}_even", call.op, "mean", surprise, axes)
    text = f"{literal(1 - smoothing)} * {loss} + {literal(smoothing)} * {even}"
    return _node(graph, call, "smoothed", text, [loss, even])


# Distances


def _distance(
    graph: NodeGraph, call: Call, part: str, first: str, second: str, axes: Sequence[int]
) -> str:
    """Adds the norm of first - second + eps over axes.

    Raises:
        NotWritable: the order of the norm is neither 1 nor 2.
    """
    power, eps = call.arg("p"), literal(call.arg("eps"))
    difference = f"({first} - {second} + {eps})"
    gap = _node(graph, call, f"{part}_gap", difference, [first, second])
    if power == 2:
        square = _node(graph, call, f"{part}_square", f"{gap} * {gap}", [gap])
        whole = _reduce(graph, call, f"{part}_sum", square, axes)
        return _node(graph, call, part, f"tl.sqrt({whole})", [whole])
    if power == 1:
        size = _node(graph, call, f"{part}_size", f"tl.abs({gap})", [gap])
        return _reduce(graph, call, part, size, axes)
    raise NotWritable(f"distance of order {power}")


def _triplet(graph: NodeGraph, call: Call) -> None:
    nodes, dims = _operands(graph, call, "anchor", "positive", "negative")
    anchor, positive, negative = nodes.values()
    axes = dims[-1]
    near = _distance(graph, call, "near", anchor, positive, axes)
    far = _distance(graph, call, "far", anchor, negative, axes)
    if call.arg("swap"):
        other = _distance(graph, call, "other", positive, negative, axes)
        far = _node(graph, call, "farthest", f"tl.minimum({far}, {other}, {_NAN})", [far, other])
    text = f"tl.maximum({near} - {far} + {literal(call.arg('margin'))}, 0.0, {_NAN})"
    _finish(graph, call, _node(graph, call, "loss", text, [near, far]), dims[:-1])


def _pairwise_distance(graph: NodeGraph, call: Call) -> None:
    nodes, dims = _operands(graph, call, "x1", "x2")
    distance = _distance(graph, call, "distance", nodes["x1"], nodes["x2"], dims[-1])
    kept = (*dims[:-1], ()) if call.arg("keepdim") else dims[:-1]
    _finish(graph, call, distance, kept, how="none")


def _products(
    graph: NodeGraph, call: Call, first: str, second: str, axes: Sequence[int]
) -> tuple[str, str, str]:
    """Adds three inner products over axes: (first . second, first . first, second . second)."""
    pairs = {"dot": (first, second), "own": (first, first), "others": (second, second)}
    dots = []
    for part, (a, b) in pairs.items():
        product = _node(graph, call, f"{part}_product", f"{a} * {b}", [a, b])
        dots.append(_reduce(graph, call, part, product, axes))
    dot, own, others = dots
    return dot, own, others


def _cosine_similarity(graph: NodeGraph, call: Call) -> None:
    nodes, dims = _operands(graph, call, "x1", "x2")
    at, eps = dim_index(call.arg("dim"), len(dims)), literal(call.arg("eps"))
    dot, own, others = _products(graph, call, nodes["x1"], nodes["x2"], dims[at])
    norms = f"(tl.maximum(tl.sqrt({own}), {eps}) * tl.maximum(tl.sqrt({others}), {eps}))"
    cosine = _node(graph, call, "cosine", f"{dot} / {norms}", [dot, own, others])
    _finish(graph, call, cosine, (*dims[:at], *dims[at + 1 :]), how="none")


def _cosine_embedding(graph: NodeGraph, call: Call) -> None:
    nodes, dims = _operands(graph, call, "input1", "input2")
    target = operand(graph, call, "target")
    dot, own, others = _products(graph, call, nodes["input1"], nodes["input2"], dims[-1])
    text = f"{dot} * tl.rsqrt(({own} + 1e-12) * ({others} + 1e-12))"
    cosine = _node(graph, call, "cosine", text, [dot, own, others])
    margin = literal(call.arg("margin"))
    apart = f"tl.maximum({cosine} - {margin}, 0.0, {_NAN})"
    text = f"tl.where({target.node} == 1, 1 - {cosine}, {apart})"
    loss = _node(graph, call, "loss", text, [target.node, cosine])
    _finish(graph, call, loss, graph.axes.broadcast([dims[:-1], target.dims]))


LOSSES: dict[str, Rule] = {
    **dict.fromkeys((*_ELEMENTS, "huber_loss", "smooth_l1_loss", "kl_div"), _elementwise),
    "nll_loss": _nll,
    "cross_entropy": _cross_entropy,
    "triplet_margin_loss": _triplet,
    "pairwise_distance": _pairwise_distance,
    "cosine_similarity": _cosine_similarity,
    "cosine_embedding_loss": _cosine_embedding,
}

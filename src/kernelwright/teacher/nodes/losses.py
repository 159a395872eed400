"""Rules that take losses and similarities apart: an element's or a sample's loss, then its mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelwright.ops.rules import dim_index, is_float
from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.decompose import Rule, operand
from kernelwright.teacher.nodes.graph import POSITION, NodeGraph, NodeValue, count
from kernelwright.teacher.nodes.reductions import exponentials, over, without
from kernelwright.teacher.text.expressions import NotWritable, literal


@dataclass(frozen=True, slots=True)
class LossWriter:
    """Adds the nodes of one call to the graph, each named after the call's result."""

    graph: NodeGraph
    call: Call

    def operand(self, name: str = "input") -> NodeValue:
        return operand(self.graph, self.call, name)

    def node(self, part: str, text: str, args: Sequence[str]) -> str:
        """Adds a map."""
        name = f"{self.call.outputs[0]}_{part}"
        return self.graph.map(name, self.call.op, text, args, "float32")

    def reduce(self, part: str, of: str, axes: Sequence[int], kind: str = "sum") -> str:
        """Adds a sum or a mean over axes."""
        return self.graph.reduce(f"{self.call.outputs[0]}_{part}", self.call.op, kind, of, axes)

    def end(self, text: str, args: Sequence[str], dims: Dims) -> None:
        """Adds the call's result."""
        [name], [result_type] = self.call.outputs, self.call.types
        self.graph.map(name, self.call.op, text, args, result_type.dtype)
        self.graph.values[name] = NodeValue(name, dims, result_type)

    def finish(self, loss: str, dims: Dims, weight: str = "", how: str = "") -> None:
        """Adds the call's result, made of the loss of each element or sample.

        Args:
            loss: node of the losses.
            dims: dimensions of the losses.
            weight: node of the weights by which a mean is divided; "" for a plain mean.
            how: "none", "sum" or "mean"; "" for the call's own `reduction`.
        """
        axes = tuple(axis for dim in dims for axis in dim)
        how = how or self.call.arg("reduction")
        if how == "none":
            self.end(loss, [loss], dims)
            return
        # A single sample has no axis: its loss is the total.
        total = self.reduce("total", loss, axes) if axes else loss
        text, args = total, [total]
        if how == "mean" and weight:
            # An ignored sample weighs 0, and PyTorch's mean over ignored samples alone is 0 / 0.
            shares = self.reduce("shares", weight, axes) if axes else weight
            text, args = f"{total} / {shares}", [total, shares]
        elif how == "mean":
            text = f"{total} / {count(axes)}" if axes else total
        self.end(text, args, ())

    def operands(self, *names: str) -> tuple[dict[str, str], Dims]:
        """(parameter -> node in fp32, dimensions) of the named operands that are tensors.

        The dimensions are those to which all these operands broadcast.
        """
        values = {n: self.operand(n) for n in names if isinstance(self.call.arg(n), Ref)}
        dims = self.graph.axes.broadcast([value.dims for value in values.values()])
        nodes = {}
        for name, value in values.items():
            nodes[name] = value.node
            if not value.is_float:
                nodes[name] = self.node(name, f"{value.node}.to(tl.float32)", [value.node])
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


def _elementwise(writer: LossWriter) -> None:
    """The rule of losses that are computed element by element and then reduced."""
    params = writer.call.operator.params
    names = [p.name for p in params if isinstance(writer.call.arg(p.name), Ref)]
    nodes, dims = writer.operands(*names)
    settings = {p.name: writer.call.arg(p.name) for p in params if p.name not in nodes}
    numbers = {k: literal(v) for k, v in settings.items() if isinstance(v, int | float)}
    loss = writer.node("loss", _template(writer.call).format(**nodes, **numbers), [*nodes.values()])
    if "weight" in nodes:
        text = f"{loss} * {nodes['weight']}"
        loss = writer.node("weighted", text, [loss, nodes["weight"]])
    if writer.call.arg("reduction") == "batchmean":
        _batch_mean(writer, loss, dims)
        return
    writer.finish(loss, dims)


def _batch_mean(writer: LossWriter, loss: str, dims: Dims) -> None:
    """Adds the sum of the losses divided by the batch size, the call's result."""
    # COUNT is the number of elements that a reduction reduces. Samples are summed first, so that
    # the last reduction runs over the batch and COUNT is its size.
    rows = over(writer.operand(), [0])
    rest = tuple(axis for dim in dims[1:] for axis in dim)
    row_loss = writer.reduce("each", loss, rest) if rest else loss
    total = writer.reduce("total", row_loss, rows)
    writer.end(f"{total} / {count(rows)}", [total], ())


# Classes


def _classes(writer: LossWriter) -> tuple[NodeValue, NodeValue, Dims]:
    """(scores, target, dimensions of a sample's loss); axes that are the same are united.

    Shapes: scores (N, C, *rest), target (N, *rest) of classes or (N, C, *rest) of probabilities.

    Raises:
        NotWritable: scores are of a single sample without a batch, or of a single class.
    """
    scores, target = writer.operand(), writer.operand("target")
    if scores.type.rank < 2:
        raise NotWritable("a single sample")
    # A dimension of size 1 has no axis, along which POSITION could count classes.
    if scores.type.shape[1] == 1:
        raise NotWritable("a single class")
    dims = without(scores, [1], keepdim=False)
    if is_float(target.type.dtype):
        for mine, theirs in zip(target.dims, scores.dims, strict=True):
            writer.graph.axes.unite(theirs, mine)
    else:
        writer.graph.axes.broadcast([dims, target.dims])
    if isinstance(writer.call.arg("weight"), Ref):
        writer.graph.axes.unite(scores.dims[1], writer.operand("weight").dims[0])
    return scores, target, dims


def _chosen(writer: LossWriter, part: str, of: str, target: NodeValue, axes: Sequence[int]) -> str:
    """Adds the element of `of` at the target's class."""
    # A graph of loads, maps and reductions has no gather: a sum with one term takes its place.
    text = f"tl.where({POSITION} == {target.node}, {of}, 0.0)"
    masked = writer.node(f"{part}_at", text, [of, target.node])
    return writer.reduce(part, masked, axes)


def _share(writer: LossWriter, target: NodeValue, axes: Sequence[int]) -> str:
    """Adds the weight of a sample: that of its class, or 1, and 0 if the target is ignored."""
    text, args = f"({target.node} != {writer.call.arg('ignore_index')})", [target.node]
    if isinstance(writer.call.arg("weight"), Ref):
        weights = writer.operand("weight").node
        weight = _chosen(writer, "weight", weights, target, axes)
        return writer.node("share", f"tl.where({text}, {weight}, 0.0)", [*args, weight])
    return writer.node("share", f"{text}.to(tl.float32)", args)


def _nll(writer: LossWriter) -> None:
    scores, target, dims = _classes(writer)
    axes = over(scores, [1])
    picked = _chosen(writer, "picked", scores.node, target, axes)
    share = _share(writer, target, axes)
    loss = writer.node("loss", f"-{picked} * {share}", [picked, share])
    writer.finish(loss, dims, share)


def _cross_entropy(writer: LossWriter) -> None:
    """The rule of cross_entropy, with targets of classes or of probabilities."""
    scores, target, dims = _classes(writer)
    axes, smoothing = over(scores, [1]), writer.call.arg("label_smoothing")
    top, _, total = exponentials(
        writer.graph, writer.call.op, writer.call.outputs[0], scores.node, axes
    )
    norm = writer.node("norm", f"{top} + tl.log({total})", [top, total])
    surprise = writer.node("surprise", f"{norm} - {scores.node}", [norm, scores.node])
    if isinstance(writer.call.arg("weight"), Ref):
        weight = writer.operand("weight").node
        surprise = writer.node("weighted", f"{surprise} * {weight}", [surprise, weight])
    if target.is_float:
        part = writer.node("part", f"{target.node} * {surprise}", [target.node, surprise])
        loss = _smoothed(writer, writer.reduce("hard", part, axes), surprise, axes)
        writer.finish(loss, dims)
        return
    share = _share(writer, target, axes)
    picked = _chosen(writer, "picked", scores.node, target, axes)
    text, args = f"({norm} - {picked}) * {share}", [norm, picked, share]
    loss = writer.node("hard" if smoothing else "loss", text, args)
    loss = _smoothed(writer, loss, surprise, axes)
    if smoothing:  # nothing of samples that are ignored
        text = f"tl.where({target.node} != {writer.call.arg('ignore_index')}, {loss}, 0.0)"
        loss = writer.node("counted", text, [target.node, loss])
    writer.finish(loss, dims, share)


def _smoothed(writer: LossWriter, loss: str, surprise: str, axes: Sequence[int]) -> str:
    """Adds a sample's loss under label smoothing: (1 - s) * loss + s * mean over all classes.

    Args:
        loss: node of the loss of each sample.
        surprise: node of -log(probability), weighted, of each class.
        axes: axes of the classes.
    """
    smoothing = writer.call.arg("label_smoothing")
    if not smoothing:
        return loss
    even = writer.reduce("even", surprise, axes, "mean")
    text = f"{literal(1 - smoothing)} * {loss} + {literal(smoothing)} * {even}"
    return writer.node("smoothed", text, [loss, even])


# Distances


def _distance(writer: LossWriter, part: str, first: str, second: str, axes: Sequence[int]) -> str:
    """Adds the norm of first - second + eps over axes.

    Raises:
        NotWritable: the order of the norm is neither 1 nor 2.
    """
    power, eps = writer.call.arg("p"), literal(writer.call.arg("eps"))
    difference = f"({first} - {second} + {eps})"
    gap = writer.node(f"{part}_gap", difference, [first, second])
    if power == 2:
        square = writer.node(f"{part}_square", f"{gap} * {gap}", [gap])
        whole = writer.reduce(f"{part}_sum", square, axes)
        return writer.node(part, f"tl.sqrt({whole})", [whole])
    if power == 1:
        size = writer.node(f"{part}_size", f"tl.abs({gap})", [gap])
        return writer.reduce(part, size, axes)
    raise NotWritable(f"distance of order {power}")


def _triplet(writer: LossWriter) -> None:
    nodes, dims = writer.operands("anchor", "positive", "negative")
    anchor, positive, negative = nodes.values()
    axes = dims[-1]
    near = _distance(writer, "near", anchor, positive, axes)
    far = _distance(writer, "far", anchor, negative, axes)
    if writer.call.arg("swap"):
        other = _distance(writer, "other", positive, negative, axes)
        far = writer.node("farthest", f"tl.minimum({far}, {other}, {_NAN})", [far, other])
    text = f"tl.maximum({near} - {far} + {literal(writer.call.arg('margin'))}, 0.0, {_NAN})"
    writer.finish(writer.node("loss", text, [near, far]), dims[:-1])


def _pairwise_distance(writer: LossWriter) -> None:
    nodes, dims = writer.operands("x1", "x2")
    distance = _distance(writer, "distance", nodes["x1"], nodes["x2"], dims[-1])
    kept = (*dims[:-1], ()) if writer.call.arg("keepdim") else dims[:-1]
    writer.finish(distance, kept, how="none")


def _products(
    writer: LossWriter, first: str, second: str, axes: Sequence[int]
) -> tuple[str, str, str]:
    """Adds three inner products over axes: (first . second, first . first, second . second)."""
    pairs = {"dot": (first, second), "own": (first, first), "others": (second, second)}
    dots = []
    for part, (a, b) in pairs.items():
        product = writer.node(f"{part}_product", f"{a} * {b}", [a, b])
        dots.append(writer.reduce(part, product, axes))
    dot, own, others = dots
    return dot, own, others


def _cosine_similarity(writer: LossWriter) -> None:
    nodes, dims = writer.operands("x1", "x2")
    at, eps = dim_index(writer.call.arg("dim"), len(dims)), literal(writer.call.arg("eps"))
    dot, own, others = _products(writer, nodes["x1"], nodes["x2"], dims[at])
    norms = f"(tl.maximum(tl.sqrt({own}), {eps}) * tl.maximum(tl.sqrt({others}), {eps}))"
    cosine = writer.node("cosine", f"{dot} / {norms}", [dot, own, others])
    writer.finish(cosine, (*dims[:at], *dims[at + 1 :]), how="none")


def _cosine_embedding(writer: LossWriter) -> None:
    nodes, dims = writer.operands("input1", "input2")
    target = writer.operand("target")
    dot, own, others = _products(writer, nodes["input1"], nodes["input2"], dims[-1])
    text = f"{dot} * tl.rsqrt(({own} + 1e-12) * ({others} + 1e-12))"
    cosine = writer.node("cosine", text, [dot, own, others])
    margin = literal(writer.call.arg("margin"))
    apart = f"tl.maximum({cosine} - {margin}, 0.0, {_NAN})"
    text = f"tl.where({target.node} == 1, 1 - {cosine}, {apart})"
    loss = writer.node("loss", text, [target.node, cosine])
    writer.finish(loss, writer.graph.axes.broadcast([dims[:-1], target.dims]))


def _rule(write: Callable[[LossWriter], None]) -> Rule:
    """The rule that writes the nodes of a call."""
    return lambda graph, call: write(LossWriter(graph, call))


LOSSES: dict[str, Rule] = {
    **dict.fromkeys((*_ELEMENTS, "huber_loss", "smooth_l1_loss", "kl_div"), _rule(_elementwise)),
    "nll_loss": _rule(_nll),
    "cross_entropy": _rule(_cross_entropy),
    "triplet_margin_loss": _rule(_triplet),
    "pairwise_distance": _rule(_pairwise_distance),
    "cosine_similarity": _rule(_cosine_similarity),
    "cosine_embedding_loss": _rule(_cosine_embedding),
}

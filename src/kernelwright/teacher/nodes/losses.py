"""Rules that take losses apart: the loss of an element or a sample, then the mean of the losses."""

from collections.abc import Sequence

from kernelwright.ops.rules import is_float
from kernelwright.programs.program import Call, Ref
from kernelwright.teacher.nodes.axes import Dims
from kernelwright.teacher.nodes.distances import DISTANCES
from kernelwright.teacher.nodes.graph import POSITION, NodeValue, count
from kernelwright.teacher.nodes.reductions import exponentials, over, without
from kernelwright.teacher.nodes.rule_writer import KEEP_NAN, Rule, RuleWriter
from kernelwright.teacher.text.expressions import NotWritable, literal

_ELEMENTS = {
    "mse_loss": "({input} - {target}) * ({input} - {target})",
    "l1_loss": "tl.abs({input} - {target})",
    # As in PyTorch, targets other than 1 and -1 get both parts.
    "hinge_embedding_loss": "tl.where({target} != -1, {input}, 0.0)"
    f" + tl.where({{target}} != 1, tl.maximum({{margin}} - {{input}}, 0.0, {KEEP_NAN}), 0.0)",
    # log(1 + exp(x)) as max(x, 0) + log1p(exp(-abs(x))) cannot overflow; the second term keeps NaN.
    "soft_margin_loss": "tl.maximum(-{target} * {input}, 0.0)"
    " + libdevice.log1p(tl.exp(-tl.abs({target} * {input})))",
    "margin_ranking_loss": "tl.maximum(-{target} * ({input1} - {input2}) + {margin}, "
    f"0.0, {KEEP_NAN})",
    # PyTorch bounds both logarithms at -100, so a certain but wrong input has a finite loss.
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
        # PyTorch defines beta 0 as l1_loss; the formula would divide by 0.
        return _SMOOTH_L1 if call.arg("beta") > 0 else _ELEMENTS["l1_loss"]
    if call.op == "kl_div":
        if call.arg("log_target"):
            return "libdevice.exp({target}) * ({target} - {input})"
        # PyTorch's xlogy is 0 for a target of 0, and NaN for negative targets.
        log = "tl.where({target} == 0, 0.0, tl.log({target}))"
        return f"{{target}} * ({log} - {{input}})"
    if call.op == "binary_cross_entropy_with_logits" and isinstance(call.arg("pos_weight"), Ref):
        return _WEIGHTED_LOGITS
    return _ELEMENTS[call.op]


def _elementwise(writer: RuleWriter) -> None:
    """The rule of losses that are computed element by element and then reduced."""
    params = writer.call.operator.params
    names = [p.name for p in params if isinstance(writer.arg(p.name), Ref)]
    nodes, dims = writer.operands(*names)
    settings = {p.name: writer.arg(p.name) for p in params if p.name not in nodes}
    numbers = {k: literal(v) for k, v in settings.items() if isinstance(v, int | float)}
    loss = writer.node("loss", _template(writer.call).format(**nodes, **numbers), [*nodes.values()])
    if "weight" in nodes:
        text = f"{loss} * {nodes['weight']}"
        loss = writer.node("weighted", text, [loss, nodes["weight"]])
    if writer.arg("reduction") == "batchmean":
        _batch_mean(writer, loss, dims)
        return
    writer.finish(loss, dims)


def _batch_mean(writer: RuleWriter, loss: str, dims: Dims) -> None:
    """Adds the sum of the losses divided by the batch size, the call's result."""
    # COUNT is the number of elements that a reduction reduces. Samples are summed first, so that
    # the last reduction runs over the batch and COUNT is its size.
    rows = over(writer.operand(), [0])
    rest = tuple(axis for dim in dims[1:] for axis in dim)
    row_loss = writer.reduce("each", loss, rest) if rest else loss
    total = writer.reduce("total", row_loss, rows)
    writer.end(f"{total} / {count(rows)}", [total], ())


# Classes


def _classes(writer: RuleWriter) -> tuple[NodeValue, NodeValue, Dims]:
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
        # United axes let a class index meet the scores of its own sample.
        writer.graph.axes.broadcast([dims, target.dims])
    if isinstance(writer.arg("weight"), Ref):
        writer.graph.axes.unite(scores.dims[1], writer.operand("weight").dims[0])
    return scores, target, dims


def _chosen(writer: RuleWriter, part: str, of: str, target: NodeValue, axes: Sequence[int]) -> str:
    """Adds the element of `of` at the target's class."""
    # A graph of loads, maps and reductions has no gather: a sum with one term takes its place.
    text = f"tl.where({POSITION} == {target.node}, {of}, 0.0)"
    masked = writer.node(f"{part}_at", text, [of, target.node])
    return writer.reduce(part, masked, axes)


def _share(writer: RuleWriter, target: NodeValue, axes: Sequence[int]) -> str:
    """Adds the weight of a sample: that of its class, or 1, and 0 if the target is ignored."""
    text, args = f"({target.node} != {writer.arg('ignore_index')})", [target.node]
    if isinstance(writer.arg("weight"), Ref):
        weights = writer.operand("weight").node
        weight = _chosen(writer, "weight", weights, target, axes)
        return writer.node("share", f"tl.where({text}, {weight}, 0.0)", [*args, weight])
    return writer.node("share", f"{text}.to(tl.float32)", args)


def _nll(writer: RuleWriter) -> None:
    scores, target, dims = _classes(writer)
    axes = over(scores, [1])
    picked = _chosen(writer, "picked", scores.node, target, axes)
    share = _share(writer, target, axes)
    loss = writer.node("loss", f"-{picked} * {share}", [picked, share])
    writer.finish(loss, dims, share)


def _cross_entropy(writer: RuleWriter) -> None:
    """The rule of cross_entropy, with targets of classes or of probabilities."""
    scores, target, dims = _classes(writer)
    axes, smoothing = over(scores, [1]), writer.arg("label_smoothing")
    top, _, total = exponentials(writer, scores.node, axes)
    norm = writer.node("norm", f"{top} + tl.log({total})", [top, total])
    surprise = writer.node("surprise", f"{norm} - {scores.node}", [norm, scores.node])
    if isinstance(writer.arg("weight"), Ref):
        weight = writer.operand("weight").node
        # Smoothing counts every class, so the weight belongs to the class and not to the sample.
        surprise = writer.node("weighted", f"{surprise} * {weight}", [surprise, weight])
    if target.is_float:
        part = writer.node("part", f"{target.node} * {surprise}", [target.node, surprise])
        loss = _smoothed(writer, writer.reduce("hard", part, axes), surprise, axes)
        # With probabilities, PyTorch divides a mean by the number of samples, not by weights.
        writer.finish(loss, dims)
        return
    share = _share(writer, target, axes)
    picked = _chosen(writer, "picked", scores.node, target, axes)
    text, args = f"({norm} - {picked}) * {share}", [norm, picked, share]
    loss = writer.node("hard" if smoothing else "loss", text, args)
    loss = _smoothed(writer, loss, surprise, axes)
    if smoothing:  # nothing of samples that are ignored
        text = f"tl.where({target.node} != {writer.arg('ignore_index')}, {loss}, 0.0)"
        loss = writer.node("counted", text, [target.node, loss])
    writer.finish(loss, dims, share)


def _smoothed(writer: RuleWriter, loss: str, surprise: str, axes: Sequence[int]) -> str:
    """Adds a sample's loss under label smoothing: (1 - s) * loss + s * mean over all classes.

    Args:
        loss: node of the loss of each sample.
        surprise: node of -log(probability), weighted, of each class.
        axes: axes of the classes.
    """
    smoothing = writer.arg("label_smoothing")
    if not smoothing:
        return loss
    even = writer.reduce("even", surprise, axes, "mean")
    text = f"{literal(1 - smoothing)} * {loss} + {literal(smoothing)} * {even}"
    return writer.node("smoothed", text, [loss, even])


LOSSES: dict[str, Rule] = {
    **dict.fromkeys((*_ELEMENTS, "huber_loss", "smooth_l1_loss", "kl_div"), _elementwise),
    "nll_loss": _nll,
    "cross_entropy": _cross_entropy,
    **DISTANCES,
}

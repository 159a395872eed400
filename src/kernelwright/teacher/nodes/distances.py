"""Rules that take distances, similarities and losses of distances apart: a norm or an inner
product of two vectors, then the function of this number."""

from collections.abc import Sequence

from kernelwright.ops.rules import dim_index
from kernelwright.teacher.nodes.rule_writer import KEEP_NAN, Rule, RuleWriter
from kernelwright.teacher.text.expressions import NotWritable, literal


def _distance(writer: RuleWriter, part: str, first: str, second: str, axes: Sequence[int]) -> str:
    """Adds the norm of first - second + eps over axes.

    Raises:
        NotWritable: the order of the norm is neither 1 nor 2.
    """
    power, eps = writer.arg("p"), literal(writer.arg("eps"))
    # PyTorch adds eps to each difference, inside of the norm.
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


def _triplet(writer: RuleWriter) -> None:
    nodes, dims = writer.operands("anchor", "positive", "negative")
    anchor, positive, negative = nodes.values()
    axes = dims[-1]
    near = _distance(writer, "near", anchor, positive, axes)
    far = _distance(writer, "far", anchor, negative, axes)
    # With `swap`, the negative sample may be near either of the other two: the nearer one counts.
    if writer.arg("swap"):
        swapped = _distance(writer, "other", positive, negative, axes)
        far = writer.node("farthest", f"tl.minimum({far}, {swapped}, {KEEP_NAN})", [far, swapped])
    text = f"tl.maximum({near} - {far} + {literal(writer.arg('margin'))}, 0.0, {KEEP_NAN})"
    writer.finish(writer.node("loss", text, [near, far]), dims[:-1])


def _pairwise_distance(writer: RuleWriter) -> None:
    nodes, dims = writer.operands("x1", "x2")
    distance = _distance(writer, "distance", nodes["x1"], nodes["x2"], dims[-1])
    kept = (*dims[:-1], ()) if writer.arg("keepdim") else dims[:-1]
    writer.finish(distance, kept, how="none")


def _products(
    writer: RuleWriter, first: str, second: str, axes: Sequence[int]
) -> tuple[str, str, str]:
    """Adds three inner products over axes: (first . second, first . first, second . second)."""
    pairs = {"dot": (first, second), "own": (first, first), "others": (second, second)}
    dots = []
    for part, (a, b) in pairs.items():
        product = writer.node(f"{part}_product", f"{a} * {b}", [a, b])
        dots.append(writer.reduce(part, product, axes))
    dot, square_1, square_2 = dots
    return dot, square_1, square_2


def _cosine_similarity(writer: RuleWriter) -> None:
    nodes, dims = writer.operands("x1", "x2")
    at, eps = dim_index(writer.arg("dim"), len(dims)), literal(writer.arg("eps"))
    dot, square_1, square_2 = _products(writer, nodes["x1"], nodes["x2"], dims[at])
    # PyTorch bounds each norm by eps, not the product of both.
    norms = f"(tl.maximum(tl.sqrt({square_1}), {eps}) * tl.maximum(tl.sqrt({square_2}), {eps}))"
    cosine = writer.node("cosine", f"{dot} / {norms}", [dot, square_1, square_2])
    writer.finish(cosine, (*dims[:at], *dims[at + 1 :]), how="none")


def _cosine_embedding(writer: RuleWriter) -> None:
    nodes, dims = writer.operands("input1", "input2")
    target = writer.operand("target")
    dot, square_1, square_2 = _products(writer, nodes["input1"], nodes["input2"], dims[-1])
    # PyTorch adds this number to both squares, so that a vector of zeros does not divide by zero.
    text = f"{dot} * tl.rsqrt(({square_1} + 1e-12) * ({square_2} + 1e-12))"
    cosine = writer.node("cosine", text, [dot, square_1, square_2])
    margin = literal(writer.arg("margin"))
    apart = f"tl.maximum({cosine} - {margin}, 0.0, {KEEP_NAN})"
    # As in PyTorch, targets other than 1 and -1 have no loss.
    apart = f"tl.where({target.node} == -1, {apart}, 0.0)"
    text = f"tl.where({target.node} == 1, 1 - {cosine}, {apart})"
    loss = writer.node("loss", text, [target.node, cosine])
    writer.finish(loss, writer.graph.axes.broadcast([dims[:-1], target.dims]))


DISTANCES: dict[str, Rule] = {
    "triplet_margin_loss": _triplet,
    "pairwise_distance": _pairwise_distance,
    "cosine_similarity": _cosine_similarity,
    "cosine_embedding_loss": _cosine_embedding,
}

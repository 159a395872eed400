"""Shape operators inside a fragment: the same node under other dimensions."""

from kernelwright.programs.dataflow import permutation
from kernelwright.programs.fragments.fragment import PERMUTING, RESHAPING
from kernelwright.teacher.nodes.rule_writer import Rule, RuleWriter
from kernelwright.teacher.text.expressions import NotWritable


def _regroup(writer: RuleWriter) -> None:
    """The rule of reshape, flatten, squeeze, unsqueeze: the shape of the result decides."""
    value = writer.operand()
    shape = writer.call.types[0].shape
    writer.show(value.node, writer.graph.axes.regroup(value.dims, shape))


def _permute(writer: RuleWriter) -> None:
    value = writer.operand()
    order = permutation(writer.call, value.type.rank)
    writer.show(value.node, tuple(value.dims[dim] for dim in order))


def _expand(writer: RuleWriter) -> None:
    """Dimensions of size 1 become fresh axes, which later operands may share."""
    value, shape = writer.operand(), writer.call.types[0].shape
    old = ((),) * (len(shape) - value.type.rank) + value.dims
    new = writer.graph.axes.new
    writer.show(value.node, tuple(dim or new(size) for dim, size in zip(old, shape, strict=True)))


def _identity(writer: RuleWriter) -> None:
    value = writer.operand()
    writer.show(value.node, value.dims)


def _dropout(writer: RuleWriter) -> None:
    if writer.arg("training"):
        raise NotWritable("dropout draws from the device's generator")
    _identity(writer)


VIEWS: dict[str, Rule] = {
    **dict.fromkeys(RESHAPING, _regroup),
    **dict.fromkeys(PERMUTING, _permute),
    "broadcast_to": _expand,
    "to_layout": _identity,
    "dropout": _dropout,
}
"""Shape operators that cost nothing -> rule."""

"""Where an element of a tile lives: symbolic indices, followed through views, as offset text.

A kernel walks axes: "b" a batch number, "m" rows, "n" columns, "k" the contracted dimension, "i"
flat outputs. The index of a value is one `Term` a dimension, and a term is a slice of an axis:
`axis // inner % size`. Views only rearrange terms, so following one copies nothing, and terms of
one axis that are neighbours in memory join again into a plain `offs_m * stride`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from kernelwright.ops.operator import Layout, TensorType
from kernelwright.teacher.expressions import NotWritable


@dataclass(frozen=True, slots=True)
class Term:
    """Index along one dimension: `axis // inner % size`; the axis "" stands for the constant 0."""

    axis: str = ""
    size: str = "1"
    """Text of the dimension's size: kernel arguments and numbers, multiplied."""
    inner: str = "1"
    """Text of how many steps the axis makes while this index stays."""
    is_outer: bool = True
    """Nothing of the axis lies outside it, so the `%` can go."""


ZERO = Term()
Index = tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class AxisText:
    """How a kernel writes one axis."""

    name: str
    """The variable that holds positions: "offs_m"."""
    suffix: str = ""
    """Its place in the tile: "[:, None]", "[None, :]" or nothing."""
    bound: str = ""
    """Size that loads and stores are masked against; nothing where every position is valid."""


View = Mapping[str, AxisText]
"""The axes a kernel has. A term of any other axis is 0."""


# Texts of sizes


def times(*sizes: str) -> str:
    """Product of size texts with numbers folded: ("2", "H", "3") -> "H * 6"."""
    number, names, quotients = 1, [], []
    for factor in (f for size in sizes for f in size.split(" * ")):
        if factor.isdigit():
            number *= int(factor)
        elif factor.startswith("("):
            quotients.append(factor)
        else:
            names.append(factor)
    for quotient in quotients:  # "(N // 64)" times 64 is N again
        name, divisor = quotient[1:-1].split(" // ")
        if number % int(divisor) == 0:
            number //= int(divisor)
            names.append(name)
        else:
            names.append(quotient)
    return " * ".join([*names, *([str(number)] if number != 1 or not names else [])])


def over(size: str, divisor: int) -> str:
    """Text of `size` split into `divisor` equal parts; the size of one part."""
    if divisor == 1:
        return size
    return str(int(size) // divisor) if size.isdigit() else f"({size} // {divisor})"


def same(a: str, b: str) -> bool:
    """Whether two size texts are the same product."""
    return sorted(a.split(" * ")) == sorted(b.split(" * "))


# Indices through views


def flat_axis(axis: str, sizes: Sequence[str]) -> Index:
    """Index whose dimensions, of these sizes, together walk one axis: rows of a batch of rows."""
    return tuple(
        Term(axis, size, times("1", *sizes[i + 1 :]), i == 0) for i, size in enumerate(sizes)
    )


def align(index: Index, shape: tuple[int, ...]) -> Index:
    """Index of an operand of `shape` that broadcasts, right-aligned, to a value at `index`."""
    if len(shape) > len(index):
        raise NotWritable("an operand has more dimensions than the value it meets")
    tail = index[len(index) - len(shape) :]
    return tuple(ZERO if size == 1 else term for size, term in zip(shape, tail, strict=True))


def reshape(index: Index, old: tuple[int, ...], new: tuple[int, ...]) -> Index:
    """Index into shape `new` of the element at `index` of shape `old`, elements in one order.

    Raises:
        NotWritable: a dimension would mix several axes.
    """
    result: list[Term] = []
    i = j = 0
    while i < len(old) or j < len(new):
        old_is_one, new_is_one = old[i : i + 1] == (1,), new[j : j + 1] == (1,)
        if new_is_one and not old_is_one:
            result.append(ZERO)
            j += 1
        elif old_is_one and not new_is_one:
            i += 1
        else:
            first_i, first_j = i, j
            i, j = i + 1, j + 1
            while (left := prod(old[first_i:i])) != (right := prod(new[first_j:j])):
                i, j = (i + 1, j) if left < right else (i, j + 1)
            result += _regroup(index[first_i:i], new[first_j:j])
    return tuple(result)


def _regroup(terms: Index, new: tuple[int, ...]) -> Sequence[Term]:
    """Join dimensions into one slice of an axis and split it into sizes `new`."""
    if len(terms) == len(new) == 1:
        return terms
    joined = [term for term, _ in placed(terms)]
    if not joined:
        return [ZERO] * len(new)
    if len(joined) > 1:
        raise NotWritable("a view mixes dimensions of different tile axes")
    whole = joined[0]
    sizes = [over(whole.size, prod(new[1:])), *map(str, new[1:])]
    inners = [times(whole.inner, str(prod(new[i + 1 :]))) for i in range(len(new))]
    return [
        Term(whole.axis, size, inner, whole.is_outer and i == 0)
        for i, (size, inner) in enumerate(zip(sizes, inners, strict=True))
    ]


# Indices as offsets


def memory_order(index: Index, layout: Layout) -> Index:
    """The dimensions from the slowest to the fastest in memory."""
    return (index[0], *index[2:], index[1]) if layout is Layout.CHANNELS_LAST else index


def placed(terms: Sequence[Term]) -> list[tuple[Term, str]]:
    """(term, stride) of a dense tensor whose dimensions, slowest first, are `terms`; neighbours
    that are one slice of an axis are joined, constants left out."""
    found: list[tuple[Term, str]] = []
    stride = "1"
    for term in reversed(terms):
        if term.axis:
            inner, inner_stride = found[-1] if found else (ZERO, "")
            if (
                inner.axis == term.axis
                and same(term.inner, times(inner.inner, inner.size))
                and same(stride, times(inner_stride, inner.size))
            ):
                whole = Term(term.axis, times(term.size, inner.size), inner.inner, term.is_outer)
                found[-1] = (whole, inner_stride)
            else:
                found.append((term, stride))
        stride = times(stride, term.size)
    return found[::-1]


def offset(index: Index, made: TensorType, view: View) -> str:
    """Text of the offset, in elements, of the value at `index` of a dense tensor."""
    texts = [
        position(term, view) if stride == "1" else f"{position(term, view)} * {factor(stride)}"
        for term, stride in placed(memory_order(index, made.layout))
        if term.axis in view
    ]
    return " + ".join(texts) or "0"


def position(term: Term, view: View) -> str:
    """Text of a term's value over the tile."""
    axis = view[term.axis]
    text = axis.name
    if term.inner != "1":
        text += f" // {factor(term.inner)}"
    if not term.is_outer:
        text += f" % {factor(term.size)}"
    if text == axis.name:
        return f"{text}{axis.suffix}"
    return f"({text}){axis.suffix}"


def mask(axes: Sequence[str], view: View) -> str:
    """Text that is true where all of `axes` are inside their bounds; nothing if always."""
    bounded = [view[a] for a in axes if a in view and view[a].bound]
    texts = [f"{axis.name}{axis.suffix} < {axis.bound}" for axis in bounded]
    return texts[0] if len(texts) == 1 else " & ".join(f"({text})" for text in texts)


def factor(size: str) -> str:
    """The size text as a factor: in parentheses where it is a product."""
    return f"({size})" if " * " in size else size

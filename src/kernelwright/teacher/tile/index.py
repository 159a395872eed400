"""Where an element of a tile lives: symbolic indices, followed through views, as offset text.

A kernel walks axes: "b" a batch number, "m" rows, "n" columns, "k" the contracted dimension, "i"
flat outputs. A `Term` is a slice of an axis, `axis // inner % size`, and the index along one
dimension is a row of terms, major first: none where it is 0, several where a view has joined
dimensions. Views only rearrange terms, so following one copies nothing, and terms of one axis that
are neighbours in memory join again into a plain `offs_m * stride`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from kernelwright.ops.operator import Layout
from kernelwright.teacher.text.expressions import NotWritable


@dataclass(frozen=True, slots=True)
class Term:
    """Position along a slice of an axis: `axis // inner % size`."""

    axis: str
    size: str
    """Text of the size: kernel arguments and numbers, multiplied."""
    length: int
    """The size in the program at hand."""
    inner: str = "1"
    """Text of how many steps the axis makes while this position stays."""
    is_outer: bool = True
    """Whether no part of the axis lies outside of the slice, so that the `%` can be left out."""

    @property
    def is_whole(self) -> bool:
        """Whether the position is that of the axis itself, without division or remainder."""
        return self.inner == "1" and self.is_outer


Dim = tuple[Term, ...]
Index = tuple[Dim, ...]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class AxisText:
    """Texts of one axis in a kernel: its variable, its place in the tile, its mask, its slices."""

    name: str
    """The variable that holds positions: "offs_m"."""
    suffix: str = ""
    """Its place in the tile: "[:, None]", "[None, :]" or nothing."""
    bound: str = ""
    """Size that loads and stores are masked against; nothing where every position is valid."""
    is_signed: bool = False
    """Positions may lie before the start too."""
    conditions: tuple[str, ...] = ()
    """Texts, of the tile's shape, that are true where positions are valid; instead of a bound."""
    size: str = ""
    """Size of the whole axis as a factor of offsets; without, the product of its parts' sizes."""
    names: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Size of a slice -> name of its variable; other slices are named after their size."""
    parts: dict[str, str] = field(default_factory=dict, compare=False)
    """Variables for slices of the axis, as they are asked for: name -> text."""

    @property
    def tests(self) -> list[str]:
        """Conditions under which positions are valid."""
        if self.conditions:
            return list(self.conditions)
        if not self.bound:
            return []
        below = [f"{self.name}{self.suffix} >= 0"] if self.is_signed else []
        return [*below, f"{self.name}{self.suffix} < {self.bound}"]


View = Mapping[str, AxisText]
"""The axes a kernel has. A term of any other axis is 0."""


# Texts of sizes


@lru_cache(maxsize=1 << 12)
def times(*sizes: str) -> str:
    """Product of size texts with numbers folded: ("2", "H", "3") -> "H * 6"."""
    number, names, quotients = 1, [], []
    for factor in (factor for size in sizes for factor in _factors(size)):
        if factor.isdigit():
            number *= int(factor)
        elif factor.startswith("("):
            quotients.append(factor)
        else:
            names.append(factor)
    for quotient in quotients:  # "(N // 64)" times 64 is N again
        whole, _, divisor = quotient[1:-1].rpartition(" // ")
        whole = f"({whole})" if " // " in whole else whole
        if divisor in names:  # "(N // H)" times H
            names[names.index(divisor)] = whole
        elif divisor.isdigit() and number % int(divisor) == 0:
            number //= int(divisor)
            names.append(whole)
        else:
            names.append(quotient)
    return " * ".join([*names, *([str(number)] if number != 1 or not names else [])])


def over(size: str, divisor: int) -> str:
    """Text of `size` divided by `divisor`, which divides the size without a rest."""
    if divisor == 1:
        return size
    if size.isdigit():
        return str(int(size) // divisor)
    if size.startswith("(") and len(_factors(size)) == 1:
        # "(N // 4)" over 2 is "(N // 8)": a nested quotient would not be recognised by `same`.
        whole, _, earlier = size[1:-1].rpartition(" // ")
        if earlier.isdigit():
            return f"({whole} // {int(earlier) * divisor})"
        if whole:
            return f"({whole} // {earlier} // {divisor})"
    return f"({size} // {divisor})"


@lru_cache(maxsize=1 << 12)
def same(a: str, b: str) -> bool:
    """Whether two size texts are the same product."""
    return sorted(_factors(a)) == sorted(_factors(b))


def _factors(size: str) -> list[str]:
    return re.findall(r"\([^()]*\)|\w+", size)


def is_variable(text: str) -> bool:
    """Whether a text is a variable, brought into the tile's shape or not, or a number."""
    return re.fullmatch(r"\w+(\[[^\]]*\])?", text) is not None


def operand_text(text: str) -> str:
    """The text as an operand: in parentheses where it is more than a variable."""
    return text if is_variable(text) else f"({text})"


def shifted(text: str, by: str | int) -> str:
    """Text of `text` + `by`; a `by` that begins with "-" is subtracted."""
    by = str(by)
    if by == "0":
        return text
    if by.startswith("-"):
        return f"{text} - {by[1:]}"
    return by if text == "0" else f"{text} + {by}"


# Indices through views


def flat_axis(axis: str, names: Sequence[str], lengths: Sequence[int]) -> Index:
    """Index whose dimensions together walk one axis, the last dimension fastest.

    Args:
        axis: name of the axis.
        names: size texts of the dimensions.
        lengths: sizes of the dimensions in the program at hand.
    """
    return tuple(
        (Term(axis, name, length, times("1", *names[i + 1 :]), i == 0),)
        for i, (name, length) in enumerate(zip(names, lengths, strict=True))
    )


def size_of(dim: Dim) -> str:
    """Text of the size of a dimension, the product of its terms' sizes."""
    text = times("1", *(term.size for term in dim))
    # A quotient that stands alone needs no parentheses.
    return text[1:-1] if text.startswith("(") and " * " not in text else text


def axes_of(index: Index) -> set[str]:
    """The axes a value varies along."""
    return {term.axis for dim in index for term in dim}


def align(index: Index, shape: tuple[int, ...]) -> Index:
    """Index of an operand that broadcasts, right-aligned, to a value at `index`.

    Args:
        index: index of the value.
        shape: shape of the operand. Its dimensions of size 1 get an empty index.

    Raises:
        NotWritable: the operand has more dimensions than the value.
    """
    if len(shape) > len(index):
        raise NotWritable("an operand has more dimensions than the value it meets")
    tail = index[len(index) - len(shape) :]
    return tuple(() if size == 1 else dim for size, dim in zip(shape, tail, strict=True))


def reshape(index: Index, shape: tuple[int, ...], sizes: Sequence[str] = ()) -> Index:
    """Index into another shape with the same elements in the same order.

    Args:
        index: index into the present shape.
        shape: the other shape.
        sizes: texts of the other shape's sizes, if they are known.

    Raises:
        NotWritable: a dimension of the other shape holds a part of a term that divides neither.
    """
    # Terms are dealt out from the innermost one, as both shapes agree on the order of elements.
    # A term that is too large for its dimension is cut in two.
    flat = [term for dim in index for term in dim]
    dims: list[Dim] = []
    for at in reversed(range(len(shape))):
        size, dim = shape[at], list[Term]()
        # A dimension of size 1 takes a term of length 1 that comes next. Else the value would lose
        # an axis of the tile, and `store` would refuse the value.
        while size > 1 or (not dim and flat and flat[-1].length == 1):
            term = flat.pop() if flat else None
            if term and size % term.length == 0:
                dim.insert(0, term)
                size //= term.length
            elif term and term.length % size == 0:
                # The dimension's own text is right only if no other term has taken a share of its
                # size.
                is_untouched = sizes and size == shape[at]
                outer, inner = _split(term, size, sizes[at] if is_untouched else str(size))
                flat.append(outer)
                dim.insert(0, inner)
                size = 1
            else:
                raise NotWritable("a view splits dimensions where the tile cannot follow")
        dims.insert(0, tuple(dim))
    return tuple(dims)


def _split(term: Term, size: int, text: str) -> tuple[Term, Term]:
    """The term cut into an outer and an inner one.

    Args:
        size: length of the inner term in the program at hand.
        text: text of that size. If the term's size cannot be divided by this text, the number is
            used.
    """
    # A text follows the inputs at other sizes; a number stays fixed.
    rest = Counter(_factors(term.size)) - Counter(_factors(text))
    if not text.isdigit() and same(times(text, *rest.elements()), term.size):
        left = times("1", *rest.elements())
    elif text.isidentifier() and "(" not in term.size:
        left = f"({term.size} // {text})"
    else:
        text, left = str(size), over(term.size, size)
    outer = Term(term.axis, left, term.length // size, times(term.inner, text), term.is_outer)
    return outer, Term(term.axis, text, size, term.inner, False)


def replaced(given: tuple[_Item, ...], at: int, *new: _Item) -> tuple[_Item, ...]:
    """The tuple with the items `new` in place of the item at position `at`."""
    return (*given[:at], *new, *given[at + 1 :])


# Indices as offsets


def memory_order(dims: tuple[_Item, ...], layout: Layout) -> tuple[_Item, ...]:
    """Items of a tensor's dimensions in memory order, from the slowest to the fastest."""
    # Channels, dimension 1, are the fastest in channels-last memory.
    return (dims[0], *dims[2:], dims[1]) if layout is Layout.CHANNELS_LAST else dims


def placed(index: Index) -> list[tuple[Term, str]]:
    """The terms of a dense tensor's dimensions with their strides, slowest first.

    Neighbours that are one slice of an axis are joined into one term, so an address needs fewer
    divisions.

    Args:
        index: dimensions in memory order.

    Returns:
        (term, text of its stride in elements) for each term.
    """
    terms: list[tuple[Term, str]] = []
    stride = "1"
    for term in reversed([term for dim in index for term in dim]):
        # Two slices join if they are neighbours both along the axis and in memory.
        inner, inner_stride = terms[-1] if terms else (None, "1")
        if (
            inner is not None
            and inner.axis == term.axis
            and same(term.inner, times(inner.inner, inner.size))
            and same(stride, times(inner_stride, inner.size))
        ):
            size, length = times(term.size, inner.size), term.length * inner.length
            terms[-1] = (Term(term.axis, size, length, inner.inner, term.is_outer), inner_stride)
        else:
            terms.append((term, stride))
        stride = times(term.size, stride)
    return terms[::-1]


def offset(index: Index, view: View, layout: Layout = Layout.CONTIGUOUS) -> str:
    """Text of the offset of a tile in a dense tensor, in elements.

    Args:
        index: index of the tensor's dimensions.
        view: the kernel's axes. Terms of other axes count as 0.
    """
    # Horner's form: ((a * B + b) * C + c), so no stride is multiplied out.
    text = ""
    for term, _ in placed(memory_order(index, layout)):
        if text:
            outer = f"({text})" if " + " in text else text
            text = f"{outer} * {factor(stride_size(term, view))}"
        if term.axis in view:
            text = f"{text} + {position(term, view)}" if text else position(term, view)
    return text or "0"


def stride_size(term: Term, view: View) -> str:
    """The size of a term as an offset names it."""
    whole = view[term.axis].size if term.axis in view and term.is_whole else ""
    return whole or term.size


def position(term: Term, view: View) -> str:
    """Text of a term's value over the tile.

    A proper slice of an axis gets a variable, whose name and text are added to the axis's `parts`.
    """
    axis = view[term.axis]
    text = axis.name
    # The text holds `//` and `%`, which are slow: each slice is computed once, in `parts`.
    if term.inner != "1":
        text += f" // {factor(term.inner)}"
    if not term.is_outer:
        text += f" % {factor(term.size)}"
    if text == axis.name:
        return f"{text}{axis.suffix}"
    known = next((name for name, part in axis.parts.items() if part == text), None)
    if known is None:
        # A slice of size W is called w, which readers understand; other slices get a number.
        is_named = all(size.isidentifier() for size in term.size.split(" * "))
        known = term.size.lower().replace(" * ", "_") if is_named else ""
        known = axis.names.get(term.size, known)
        # Slices of two axes must not share a variable.
        if not known or any(known in other.parts for other in view.values()):
            known = f"{term.axis}_part{len(axis.parts)}"
        axis.parts[known] = text
    return f"{known}{axis.suffix}"


def parts(view: View, axes: Iterable[str] | None = None) -> list[str]:
    """Lines that compute the slice variables that `position` added to these axes, or to all."""
    wanted = [view[axis] for axis in (view if axes is None else axes) if axis in view]
    return [f"{name} = {text}" for axis in wanted for name, text in axis.parts.items()]


def mask(axes: Sequence[str], view: View) -> str:
    """Text that is true where positions along all of `axes` are valid; "" if they always are."""
    return all_of([test for axis in axes if axis in view for test in view[axis].tests])


def all_of(tests: Iterable[str]) -> str:
    """Text that is true where all conditions are; "" without conditions."""
    distinct = list(dict.fromkeys(tests))
    if len(distinct) == 1:
        return distinct[0]
    return " & ".join(test if test.isidentifier() else f"({test})" for test in distinct)


def factor(size: str) -> str:
    """The size text as a factor: in parentheses where it is a product."""
    return f"({size})" if " * " in size else size

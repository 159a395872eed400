"""A tile's values pulled through operators that move elements: joins, cuts, picks by index.

For element `i` of its result, such an operator reads an element of its input at an index that the
kernel computes. This index becomes an axis, with the conditions under which it is valid. So only
elements that a result needs are loaded.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from math import prod

from kernelwright.ops.operator import TensorType
from kernelwright.ops.rules import dim_indices, is_float
from kernelwright.programs.fragments.fragment import RESHAPING
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.text.dtypes import triton_dtype
from kernelwright.teacher.text.expressions import NotWritable
from kernelwright.teacher.text.value_sizes import ValueSizes
from kernelwright.teacher.tile.body import TileBody
from kernelwright.teacher.tile.index import (
    AxisText,
    Dim,
    Index,
    Term,
    View,
    axes_of,
    factor,
    is_variable,
    mask,
    offset,
    operand_text,
    parts,
    reshape,
    same,
    size_of,
    times,
)
from kernelwright.teacher.tile.views import is_view, source, source_index


class PullBody(TileBody):
    """A tile body that also follows operands back through operators that move elements.

    An index that such an operator computes becomes a new axis of the body's view. Its `AxisText`
    holds the variable of the positions and the conditions under which they are loaded.
    """

    def __init__(
        self,
        program: Program,
        view: View,
        sizes: ValueSizes,
        rules: "Rules",
        *,
        is_wide: bool,
        inside: str = "",
        loop: Collection[str] = (),
        tag: str = "",
        widens: bool = True,
    ) -> None:
        """A body with nothing on its path.

        Args:
            sizes: size texts of the program's values; symbols that the body needs are added.
            rules: operators that move elements -> how an element is pulled through them.
            is_wide: whether offsets need 64 bits.
            inside, loop, tag, widens: as in `TileBody`.
        """
        # The base class gets this dict as its view, so axes that are added later are in the view.
        self._axes = dict(view)
        super().__init__(
            program, self._axes, inside=inside, loop=loop, tag=tag, widens=widens
        )  # fmt: skip
        moving = [view[axis] for axis in loop if axis in view]
        texts = [text for axis in moving for text in (axis.name, *axis.conditions)]
        self._moving = set(re.findall(r"\w+", " ".join(texts)))
        """Variables that change in the loop."""
        self.num_tiles = 0
        """Loads so far that fill the tile."""
        self.sizes, self.is_wide = sizes, is_wide
        self._rules = rules
        self._given = tuple(view)
        """Axes of the kernel; the others are computed in the body."""
        self._stands_for: dict[str, set[str]] = {}
        """Computed axis -> the kernel's axes that it walks one to one, in another order."""
        self._written: set[str] = set()
        """Slices of computed axes that have their line."""

    def pull(self, name: str, index: Index) -> None:
        """Compute an output at `index`, and put the output on the path."""
        self.place(name, index, self.value(name, index))

    def follow(self, calls: Iterable[Call]) -> None:
        for call in calls:
            if call.op == "flip" and self.operand(call) in self.path:
                name = self.operand(call)
                index = self.reversed(self.path[name], call.arg("dims"))
                self.place(call.outputs[0], index, self.variable(name))
            else:
                super().follow([call])

    def reversed(self, index: Index, dims: int | tuple[int, ...]) -> Index:
        """The index with positions along the dimensions `dims` counted from their ends."""
        moved = list(index)
        for at in dim_indices(dims, len(index)):
            if not (dim := index[at]):
                continue
            text = f"{factor(size_of(dim))} - 1 - {operand_text(self.text(dim))}"
            moved[at] = self.position(text, size_of(dim), _length(dim), self.conditions(dim))
            # `store` asks which axes of the tile a value varies along. A computed axis is none of
            # these by itself.
            if moved[at]:  # else there is one position
                self._stands_for[moved[at][0].axis] = self._walked((dim,))
        return tuple(moved)

    @property
    def is_looped(self) -> bool:
        """Whether some axes move in a loop around the body."""
        return bool(self._loop)

    def slices(self) -> list[str]:
        """Lines that compute the slices of the kernel's axes."""
        return parts(self.view, self._given)

    def operand(self, call: Call, parameter: str = "input") -> str:
        """Name of the value that a parameter names."""
        ref = call.arg(parameter)
        assert isinstance(ref, Ref)
        return ref.name

    def shape(self, value: str) -> tuple[int, ...]:
        """Shape of a value in the program at hand."""
        return self.program.type_of(value).shape

    def text(self, dim: Dim) -> str:
        return self._offset((dim,), TensorType((1,)))

    def flat(self, index: Index) -> str:
        """Text of an element's number in the order of a contiguous tensor, where `index` is."""
        return self._offset(index, TensorType((1,) * len(index)))

    def conditions(self, *dims: Dim) -> tuple[str, ...]:
        """Texts of the conditions under which positions along these dimensions are valid."""
        axes = axes_of(dims)
        tests = [test for axis in self.view if axis in axes for test in self.view[axis].tests]
        return tuple(dict.fromkeys(tests))

    def assign(self, text: str, name: str = "at") -> str:
        """A variable that holds the value of `text`; an earlier line with this text is reused.

        Args:
            name: start of the variable's name, if it is new.
        """
        lines = [*self.before, *self.lines]
        known = next((line for line in lines if line.endswith(f" = {text}")), None)
        if known is not None:
            return known.partition(" = ")[0]
        taken = sum(line.startswith(f"{name}{self._tag}_") for line in lines)
        return self._set(f"{name}{self._tag}_{taken}", text)

    def position(self, text: str, size: str, length: int, conditions: Sequence[str] = ()) -> Dim:
        """A new dimension whose positions are given by a text.

        Args:
            text: positions over the tile.
            size: size text of the dimension; `length` is the size in the program at hand.
            conditions: conditions under which elements at these positions are loaded.
        """
        # A dimension of one element has position 0 and needs no text, unless its load is masked.
        if length == 1 and not conditions:
            return ()
        name = text if is_variable(text) else self.assign(text)
        axis = self._new_axis()
        self._axes[axis] = AxisText(name, conditions=tuple(dict.fromkeys(conditions)))
        return (Term(axis, size, length),)

    def guarded(self, index: Index, condition: str) -> Index:
        """An index with the same positions, which are loaded under one more condition."""
        # The condition holds for this use of the axes alone, so the axes get new names.
        renamed = {}
        for axis in [axis for axis in self.view if axis in axes_of(index)]:
            text = self.view[axis]
            renamed[axis] = self._new_axis()
            self._axes[renamed[axis]] = AxisText(
                text.name, text.suffix, conditions=(*text.tests, condition), parts=text.parts
            )
        return tuple(
            tuple(
                Term(renamed.get(t.axis, t.axis), t.size, t.length, t.inner, t.is_outer)
                for t in dim
            )
            for dim in index
        )

    def _new_axis(self) -> str:
        return f"p{len(self.view) - len(self._given)}{self._tag}"

    def within(self, dim: Dim, value: str, at: int) -> Dim:
        """The positions of `dim` as a dimension of a value, which may be longer there.

        Args:
            at: dimension of the value.
        """
        size, length = self.sizes.of(value)[at], self.shape(value)[at]
        if same(size_of(dim) if dim else "1", size):
            return dim
        return self.position(self.text(dim), size, length, self.conditions(dim))

    def line(self, call: Call, text: str, index: Index, output: int = 0) -> str:
        """A variable that holds the text, named after a result of the call."""
        return self._line(call.outputs[output], text, index)

    def _line(self, wanted: str, text: str, index: Index) -> str:  # noqa: ARG002
        return self._set(self._variable(wanted), text)

    def _set(self, variable: str, text: str) -> str:
        """Write the variable's line: before the loop if nothing in the text changes in the loop."""
        slices = (name for axis in self._loop for name in self.view[axis].parts)
        if self._loop and self._moving.union(slices).isdisjoint(re.findall(r"\w+", text)):
            self.before.append(f"{variable} = {text}")
        else:
            self.lines.append(f"{variable} = {text}")
            self._moving.add(variable)
        return variable

    def as_made(self, call: Call, value: str, text: str) -> str:
        """The text of a value, cast if the value is an integer and the call's result a float."""
        dtype = call.types[0].dtype
        if is_float(dtype) and not is_float(self.program.type_of(value).dtype):
            return f"{text}.to({triton_dtype(dtype)})"
        return text

    def _walked(self, index: Index) -> set[str]:
        axes = axes_of(index)
        return axes.union(*(self._stands_for.get(axis, set()) for axis in axes))

    def _operand(self, name: str, index: Index) -> str:
        at = self._producer.get(name)
        if at is None:
            return super()._operand(name, index)
        call = self.program.calls[at]
        if call.op in self._rules:
            return self._rules[call.op](self, call, index, call.outputs.index(name))
        if is_view(call):
            return self.value(source(call), self._seen(call, index))
        return super()._operand(name, index)

    def _seen(self, call: Call, index: Index) -> Index:
        """Index into a view's source of the element at `index` of the view."""
        # If dimensions do not divide each other, the element's number leads from one to the other.
        value = source(call)
        if call.op not in RESHAPING:
            return source_index(self.program, call, index)
        shape, sizes = self.shape(value), self.sizes.of(value)
        try:
            return reshape(index, shape, sizes)
        except NotWritable:
            return self.unflatten(self.flat(index), value, self.conditions(*index))

    def unflatten(self, text: str, value: str, conditions: Sequence[str]) -> Index:
        """Index into a value of the element with the number `text`, in contiguous order."""
        shape, sizes = self.shape(value), self.sizes.of(value)
        numel = self.program.type_of(value).numel
        whole = self.position(text, times("1", *sizes), numel, conditions)
        return reshape((whole,), shape, sizes)

    def _load(self, name: str, index: Index) -> str:
        if self.program.type_of(name).dtype == "float64":
            raise NotWritable("float64 is left to PyTorch")
        self.num_tiles += not self._is_vector(index)
        return super()._load(name, index)

    def _is_vector(self, index: Index) -> bool:
        """Whether a value at the index varies along fewer dimensions than the tile has."""
        met = axes_of(index)
        sides = {axis for axis in self._given if self.view[axis].suffix}
        return met <= set(self._given) and not sides <= met

    def _address(self, name: str, index: Index) -> str:
        return f"{name}_ptr + {self._offset(index, self.program.type_of(name))}"

    def _offset(self, index: Index, made: TensorType) -> str:
        """Text of the offset in elements; slices of computed axes get their lines here."""
        text = offset(index, made, self.view)
        for axis in [axis for axis in self.view if axis not in self._given]:
            for name, part in self.view[axis].parts.items():
                # A guarded axis shares the slices of the kernel's axis that it stands for.
                is_of_kernel = any(name in self.view[a].parts for a in self._given)
                if name not in self._written and not is_of_kernel:
                    self._written.add(name)
                    self._set(name, part)
        return text

    def _mask(self, index: Index) -> str:
        """The mask of a load or store at the index: a condition, a variable, or ""."""
        met = axes_of(index)
        text = mask([axis for axis in self.view if axis in met], self.view)
        if text == self._inside:
            return "inside" if text else ""
        return self.assign(text, "inside") if " & " in text else text


def _length(dim: Dim) -> int:
    return prod(term.length for term in dim)


Rules = dict[str, Callable[[PullBody, Call, Index, int], str]]
"""Operator -> what gives the variable of a result of the call, by its place, at an index."""

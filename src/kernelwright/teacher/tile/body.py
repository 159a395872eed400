"""The straight-line part of a tile kernel: values as text, operands loaded where first needed.

For element `i` of its result, an operator that moves elements reads an element of its input at an
index that the kernel computes. This index becomes an axis, with the conditions under which it is
valid. So only elements that a result needs are loaded.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from math import prod

from kernelwright.ops.operator import Layout
from kernelwright.ops.rules import dim_indices, is_float
from kernelwright.ops.traits import Trait
from kernelwright.programs.fragments.fragment import RESHAPING
from kernelwright.programs.program import Call, Program, Ref
from kernelwright.teacher.text.divisions import rounded_values
from kernelwright.teacher.text.dtypes import triton_dtype
from kernelwright.teacher.text.expressions import SELECTORS, NotWritable, expression
from kernelwright.teacher.text.value_sizes import ValueSizes
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
from kernelwright.teacher.tile.views import (
    is_elementwise,
    is_view,
    operands,
    source,
    source_index,
    view_index,
)

TRIANGLES = ("tril", "triu")
_WIDENED = ("float16", "bfloat16")


class TileBody:
    """Lines of a kernel that compute values of a tile.

    Values on the path, such as a product and all values computed from it, are followed forwards.
    All other values are operands, which are followed back through views, pointwise calls and
    operators that move elements to loads. An index that an operator computes becomes a new axis of
    the body's view. Its `AxisText` holds the variable of the positions and the conditions under
    which they are loaded.
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
            inside: text of the mask that the kernel's variable `inside` already holds.
            loop: the axes that move in a loop around the body.
            tag: suffix of the names of the body's variables.
            widens: whether 16-bit floats are loaded as fp32.
        """
        self.program, self.view = program, dict(view)
        self.lines: list[str] = []
        self.before: list[str] = []
        """Lines that do not change in the loop."""
        self.num_tiles = 0
        """Loads so far that fill the tile."""
        self.path: dict[str, Index] = {}
        self.sizes, self.is_wide, self.loop = sizes, is_wide, set(loop)
        self._rules, self._inside, self._tag, self._widens = rules, inside, tag, widens
        moving = [view[axis] for axis in loop if axis in view]
        texts = [text for axis in moving for text in (axis.name, *axis.conditions)]
        self._moving = set(re.findall(r"\w+", " ".join(texts)))
        """Variables that change in the loop."""
        self._texts: dict[tuple[str, Index], str] = {}
        self._producer = program.producer()
        self._rounded = rounded_values(program)
        self._own = tuple(view)
        """Axes of the kernel; the others are computed in the body."""
        self._stands_for: dict[str, set[str]] = {}
        """Computed axis -> the kernel's axes that it walks one to one, in another order."""
        self._written: set[str] = set()
        """Slices of computed axes that have their line."""

    def slices(self) -> list[str]:
        """Lines that compute the slices of the kernel's axes."""
        return parts(self.view, self._own)

    def operand(self, call: Call, parameter: str = "input") -> str:
        """Name of the value that a parameter names."""
        ref = call.arg(parameter)
        assert isinstance(ref, Ref)
        return ref.name

    def shape(self, value: str) -> tuple[int, ...]:
        """Shape of a value in the program at hand."""
        return self.program.type_of(value).shape

    # Values on the path

    def place(self, name: str, index: Index, variable: str) -> None:
        """Put a value on the path, and record the variable that holds the value at `index`."""
        self.path[name] = index
        self._texts[name, index] = variable

    def pull(self, name: str, index: Index) -> None:
        """Compute an output at `index`, and put the output on the path."""
        self.place(name, index, self.value(name, index))

    def variable(self, name: str) -> str:
        """Variable that holds a value on the path."""
        return self._texts[name, self.path[name]]

    def follow(self, calls: Iterable[Call]) -> None:
        """Write the lines of those calls that use a value on the path.

        Args:
            calls: in program order. Calls that use no value on the path are skipped.

        Raises:
            NotWritable: a call is neither a view, a flip, a triangle nor pointwise, or changes the
                shape of the tile.
        """
        for call in calls:
            met = [name for name in dict.fromkeys(call.refs()) if name in self.path]
            # Calls off the path are operands: they are written where the path needs them, or not at
            # all.
            if not met:
                continue
            name, index, variable = call.outputs[0], self.path[met[0]], self.variable(met[0])
            if call.op == "flip":
                self.place(name, self.reversed(index, call.arg("dims")), variable)
            elif is_view(call):
                self.place(name, view_index(self.program, call, index), variable)
            elif call.op in TRIANGLES:
                zero = "0.0" if is_float(call.types[0].dtype) else "0"
                text = f"tl.where({self.kept(call, index)}, {variable}, {zero})"
                self.place(name, index, self._line(name, text, index))
            else:
                # The tile holds as many elements as the product makes. A call that broadcasts the
                # product to a larger shape needs another tile.
                same = [self.path[m] for m in met if self.shape(m) == call.types[0].shape]
                if not same:
                    raise NotWritable(f"{call.op} makes the tile larger")
                self.place(name, same[0], self._compute(call, same[0]))

    def store(self, pointer: str, name: str) -> str:
        """Line that stores a value on the path to a dense tensor of its type.

        Raises:
            NotWritable: a view has dropped one of the tile's dimensions.
        """
        index, result_type = self.path[name], self.program.type_of(name)
        # Without the axis every row of the tile would write the same addresses.
        if {axis for axis, text in self.view.items() if text.bound} - self._walked(index):
            raise NotWritable(f"{name} has lost a dimension of the tile, of size 1")
        where = self._mask(index)
        masked = f", mask={where}" if where else ""
        at = offset(index, self.view, result_type.layout)
        return f"tl.store({pointer} + {at}, {self.variable(name)}{masked})"

    def _walked(self, index: Index) -> set[str]:
        """The axes that a value varies along."""
        axes = axes_of(index)
        return axes.union(*(self._stands_for.get(axis, set()) for axis in axes))

    # Operands

    def value(self, name: str, index: Index) -> str:
        """Variable that holds the value at `index` over the tile.

        If no line holds the value yet, lines that load or compute the value are added.

        Raises:
            NotWritable: the value is on the path at another index, or has no kernel text.
        """
        # A value on the path exists at its own place only: no program of the grid holds another
        # place.
        if name in self.path and index != self.path[name]:
            raise NotWritable(f"{name} meets itself at another index")
        if (name, index) not in self._texts:
            self._texts[name, index] = self._operand(name, index)
        return self._texts[name, index]

    def _operand(self, name: str, index: Index) -> str:
        at = self._producer.get(name)
        if at is None:
            if self.program.type_of(name).dtype == "float64":
                raise NotWritable("float64 is left to PyTorch")
            # Vectors take little shared memory beside the tiles.
            self.num_tiles += not self._is_vector(index)
            return self._load(name, index)
        call = self.program.calls[at]
        if call.op in self._rules:
            return self._rules[call.op](self, call, index, call.outputs.index(name))
        if is_view(call):
            return self.value(source(call), self._seen(call, index))
        return self._compute(call, index)

    def _seen(self, call: Call, index: Index) -> Index:
        """Index into a view's source of the element at `index` of the view."""
        # If dimensions do not divide each other, the element's number leads from one to the other.
        value = source(call)
        if call.op not in RESHAPING:
            return source_index(self.program, call, index)
        try:
            return reshape(index, self.shape(value), self.sizes.of(value))
        except NotWritable:
            return self.unflatten(self.flat(index), value, self.conditions(*index))

    def _compute(self, call: Call, index: Index) -> str:
        if not is_elementwise(call):
            raise NotWritable(f"{call.op} cannot be computed element by element")
        texts = {}
        for key, side in operands(self.program, call, index).items():
            text = self.value(side.value, side.index)
            # Integers become fp32 before they meet floats, as PyTorch promotes them; masks must
            # stay truth values.
            widen = is_float(call.types[0].dtype) and key not in SELECTORS
            widen = widen and not is_float(self.program.type_of(side.value).dtype)
            texts[key] = f"{text}.to(tl.float32)" if widen else text
        if call.op == "batch_norm":
            return self._batch_norm(call, index, texts)
        return self._line(call.outputs[0], expression(call, texts, self._rounded), index)

    def _batch_norm(self, call: Call, index: Index, texts: dict[str, str]) -> str:
        """Write an inference batch norm: statistics are operands, so each channel is scaled."""
        # One multiplication an element: scale and statistics vary with the channel alone, so Triton
        # keeps them out of the element's arithmetic.
        scale = f"tl.rsqrt({texts['running_var']} + {call.arg('eps')})"
        if "weight" in texts:
            scale += f" * {texts['weight']}"
        # Statistics have one dimension, the channels, which is dimension 1 of the value.
        scale = self._line(f"{call.outputs[0]}_scale", scale, index[1:2])
        shift = f" + {texts['bias']}" if "bias" in texts else ""
        text = f"({texts['input']} - {texts['running_mean']}) * {scale}{shift}"
        return self._line(call.outputs[0], text, index)

    def _load(self, name: str, index: Index) -> str:
        where, address = self._mask(index), self._address(name, index)
        text = f"tl.load({address}{f', mask={where}, other=0' if where else ''})"
        if self.program.type_of(name).dtype in _WIDENED and self._widens:
            text += ".to(tl.float32)"
        return self._line(name, text, index)

    def _is_vector(self, index: Index) -> bool:
        """Whether a value at the index varies along fewer dimensions than the tile has."""
        met = axes_of(index)
        sides = {axis for axis in self._own if self.view[axis].suffix}
        return met <= set(self._own) and not sides <= met

    # Positions

    def text(self, dim: Dim) -> str:
        """Text of the position along a dimension, over the tile."""
        return self._offset((dim,))

    def flat(self, index: Index) -> str:
        """Text of an element's number in the order of a contiguous tensor, where `index` is."""
        return self._offset(index)

    def kept(self, call: Call, index: Index) -> str:
        """Text of the condition that an element is inside the triangle that a call keeps."""
        rows, columns = (operand_text(self.text(dim)) for dim in index[-2:])
        sign = "<=" if call.has(Trait.KEEPS_LOWER_TRIANGLE) else ">="
        return f"{columns} - {rows} {sign} {call.arg('diagonal')}"

    def conditions(self, *dims: Dim) -> tuple[str, ...]:
        """Texts of the conditions under which positions along these dimensions are valid."""
        axes = axes_of(dims)
        tests = [test for axis in self.view if axis in axes for test in self.view[axis].tests]
        return tuple(dict.fromkeys(tests))

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
        axis = self._new_axis(AxisText(name, conditions=tuple(dict.fromkeys(conditions))))
        return (Term(axis, size, length),)

    def guarded(self, index: Index, condition: str) -> Index:
        """An index with the same positions, which are loaded under one more condition."""
        # The condition holds for this use of the axes alone, so the axes get new names.
        renamed = {}
        for axis in [axis for axis in self.view if axis in axes_of(index)]:
            text = self.view[axis]
            # `tests` holds the bound too, so the new axis has conditions alone.
            conditions = (*text.tests, condition)
            renamed[axis] = self._new_axis(
                AxisText(text.name, text.suffix, conditions=conditions, parts=text.parts)
            )
        return tuple(
            tuple(replace(term, axis=renamed.get(term.axis, term.axis)) for term in dim)
            for dim in index
        )

    def _new_axis(self, text: AxisText) -> str:
        axis = f"p{len(self.view) - len(self._own)}{self._tag}"
        self.view[axis] = text
        return axis

    def reversed(self, index: Index, dims: int | tuple[int, ...]) -> Index:
        """The index with positions along the dimensions `dims` counted from their ends."""
        moved = list(index)
        for at in dim_indices(dims, len(index)):
            if not (dim := index[at]):
                continue
            text = f"{factor(size_of(dim))} - 1 - {operand_text(self.text(dim))}"
            length = prod(term.length for term in dim)
            moved[at] = self.position(text, size_of(dim), length, self.conditions(dim))
            # `store` asks which axes of the tile a value varies along. A computed axis is none of
            # these by itself.
            if moved[at]:  # else there is one position
                self._stands_for[moved[at][0].axis] = self._walked((dim,))
        return tuple(moved)

    def within(self, dim: Dim, value: str, at: int) -> Dim:
        """The positions of `dim` as a dimension of a value, which may be longer there.

        Args:
            at: dimension of the value.
        """
        size, length = self.sizes.of(value)[at], self.shape(value)[at]
        # Equal sizes keep the plain term, which offsets can join with its neighbours.
        if same(size_of(dim) if dim else "1", size):
            return dim
        return self.position(self.text(dim), size, length, self.conditions(dim))

    def unflatten(self, text: str, value: str, conditions: Sequence[str]) -> Index:
        """Index into a value of the element with the number `text`, in contiguous order."""
        shape, sizes = self.shape(value), self.sizes.of(value)
        numel = self.program.type_of(value).numel
        whole = self.position(text, times("1", *sizes), numel, conditions)
        return reshape((whole,), shape, sizes)

    def _address(self, name: str, index: Index) -> str:
        return f"{name}_ptr + {self._offset(index, self.program.type_of(name).layout)}"

    def _offset(self, index: Index, layout: Layout = Layout.CONTIGUOUS) -> str:
        """Text of the offset in elements; slices of computed axes get their lines here."""
        text = offset(index, self.view, layout)
        for axis in [axis for axis in self.view if axis not in self._own]:
            for name, part in self.view[axis].parts.items():
                # A guarded axis shares the slices of the kernel's axis that it stands for.
                is_of_kernel = any(name in self.view[a].parts for a in self._own)
                if name not in self._written and not is_of_kernel:
                    self._written.add(name)
                    self._set(name, part)
        return text

    def _mask(self, index: Index) -> str:
        """The mask of a load or store at the index: a condition, a variable, or ""."""
        text = self._tests(index)
        if text == self._inside:
            # The kernel has computed this mask already.
            return "inside" if text else ""
        return self.assign(text, "inside") if " & " in text else text

    def _tests(self, index: Index) -> str:
        """Text of the condition that the index is valid; "" if it always is."""
        met = axes_of(index)
        return mask([axis for axis in self.view if axis in met], self.view)

    # Lines

    def assign(self, text: str, name: str = "at") -> str:
        """A variable that holds the value of `text`; an earlier line with this text is reused.

        Args:
            name: start of the variable's name, if it is new.
        """
        lines = [*self.before, *self.lines]
        # A variable is assigned once, so equal texts have equal values.
        known = next((line for line in lines if line.endswith(f" = {text}")), None)
        if known is not None:
            return known.partition(" = ")[0]
        taken = sum(line.startswith(f"{name}{self._tag}_") for line in lines)
        return self._set(f"{name}{self._tag}_{taken}", text)

    def line(self, call: Call, text: str, index: Index) -> str:
        """A variable that holds the text, named after the first result of the call."""
        return self._line(call.outputs[0], text, index)

    def _line(self, wanted: str, text: str, index: Index) -> str:  # noqa: ARG002
        """Write `variable = text` and return the variable, named after the value `wanted`."""
        return self._set(self._variable(wanted), text)

    def _set(self, variable: str, text: str) -> str:
        """Write the variable's line: before the loop if nothing in the text changes in the loop."""
        # Slices of moving axes are computed inside the loop, so they move too.
        slices = (name for axis in self.loop for name in self.view[axis].parts)
        if self.loop and self._moving.union(slices).isdisjoint(re.findall(r"\w+", text)):
            self.before.append(f"{variable} = {text}")
        else:
            self.lines.append(f"{variable} = {text}")
            self._moving.add(variable)
        return variable

    def _variable(self, wanted: str, role: str = "") -> str:
        """A new variable name for the value `wanted`, which may be needed at several indices."""
        taken = sum(1 for key, _ in self._texts if key == wanted)
        return f"{wanted}{self._tag}{role}" + (f"_{taken}" if taken else "")

    def as_made(self, call: Call, value: str, text: str) -> str:
        """The text of a value, cast if the value is an integer and the call's result a float."""
        dtype = call.types[0].dtype
        if is_float(dtype) and not is_float(self.program.type_of(value).dtype):
            return f"{text}.to({triton_dtype(dtype)})"
        return text


Rules = dict[str, Callable[[TileBody, Call, Index, int], str]]
"""Operator -> what gives the variable of a result of the call, by its place, at an index."""

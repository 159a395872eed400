"""The straight-line part of a tile kernel: values as text, operands loaded where first needed."""

from collections.abc import Collection, Iterable

from kernelwright.ops.operator import TensorType
from kernelwright.ops.rules import is_float
from kernelwright.ops.traits import Trait
from kernelwright.programs.program import Call, Program
from kernelwright.teacher.text.divisions import rounded_values
from kernelwright.teacher.text.expressions import NotWritable, expression
from kernelwright.teacher.tile.index import (
    Dim,
    Index,
    View,
    axes_of,
    mask,
    offset,
    operand_text,
    parts,
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
_SELECTORS = ("condition", "mask")
"""Parameters that choose rather than compute: never widened."""


class TileBody:
    """Lines of a kernel that compute values of a tile.

    Values on the path, such as a product and all values computed from it, are followed forwards.
    All other values are operands, which are followed back through views and pointwise calls to
    loads.
    """

    def __init__(
        self,
        program: Program,
        view: View,
        *,
        inside: str = "",
        loop: Collection[str] = (),
        tag: str = "",
        walk: tuple[View, View] | None = None,
        widens: bool = True,
    ) -> None:
        """A body with nothing on its path.

        Args:
            inside: text of the mask that the kernel's variable `inside` already holds.
            loop: the axes that move in a loop around the body.
            tag: suffix of the names of the body's variables.
            walk: views of where each axis starts, and of how far each axis has moved in the loop.
                Start pointers are computed before the loop; the loop adds only the moved offset.
                So most of an address is computed once, on fewer dimensions than the tile has.
            widens: whether 16-bit floats are loaded as fp32.
        """
        self.program, self.view = program, view
        self.lines: list[str] = []
        self.before: list[str] = []
        """Lines that do not change in the loop."""
        self._loop, self._tag = set(loop), tag
        self._walk, self._widens = walk, widens
        self.path: dict[str, Index] = {}
        self._texts: dict[tuple[str, Index], str] = {}
        self._producer = program.producer()
        self._rounded = rounded_values(program)
        self._inside = inside

    def slices(self) -> list[str]:
        """Lines that compute the slices of the kernel's axes."""
        return parts(self.view)

    def place(self, name: str, index: Index, variable: str) -> None:
        """Put a value on the path, and record the variable that holds the value at `index`."""
        self.path[name] = index
        self._texts[name, index] = variable

    def variable(self, name: str) -> str:
        """Variable that holds a value on the path."""
        return self._texts[name, self.path[name]]

    def follow(self, calls: Iterable[Call]) -> None:
        """Write the lines of those calls that use a value on the path.

        Args:
            calls: in program order. Calls that use no value on the path are skipped.

        Raises:
            NotWritable: a call is neither a view, a triangle nor pointwise, or changes the shape
                of the tile.
        """
        for call in calls:
            met = [name for name in dict.fromkeys(call.refs()) if name in self.path]
            # Calls off the path are operands: they are written where the path needs them, or not at
            # all.
            if not met:
                continue
            if is_view(call):
                index = view_index(self.program, call, self.path[met[0]])
                self.place(call.outputs[0], index, self.variable(met[0]))
                continue
            if call.op in TRIANGLES:
                index = self.path[met[0]]
                text = self._triangle(call, index, self.variable(met[0]))
                self.place(call.outputs[0], index, self._line(call.outputs[0], text, index))
                continue
            shape = call.types[0].shape
            # The tile holds as many elements as the product makes. A call that broadcasts the
            # product to a larger shape needs another tile.
            same = [self.path[m] for m in met if self.program.type_of(m).shape == shape]
            if not same:
                raise NotWritable(f"{call.op} makes the tile larger")
            index = same[0]
            self.place(call.outputs[0], index, self._compute(call, index))

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

    def text(self, dim: Dim) -> str:
        """Text of the position along a dimension, over the tile."""
        return offset((dim,), TensorType((1,)), self.view)

    def kept(self, call: Call, index: Index) -> str:
        """Text of the condition that an element is inside the triangle that a call keeps."""
        rows, columns = (operand_text(self.text(dim)) for dim in index[-2:])
        sign = "<=" if call.has(Trait.KEEPS_LOWER_TRIANGLE) else ">="
        return f"{columns} - {rows} {sign} {call.arg('diagonal')}"

    def _triangle(self, call: Call, index: Index, variable: str) -> str:
        zero = "0.0" if is_float(call.types[0].dtype) else "0"
        return f"tl.where({self.kept(call, index)}, {variable}, {zero})"

    def store(self, pointer: str, name: str) -> str:
        """Line that stores a value on the path to a dense tensor of its type.

        Raises:
            NotWritable: a view has dropped one of the tile's dimensions.
        """
        index, result_type = self.path[name], self.program.type_of(name)
        # Without the axis every row of the tile would write the same addresses.
        if {axis for axis, text in self.view.items() if text.bound} - self._walked(index):
            raise NotWritable(f"{name} has lost a dimension of the tile, of size 1")
        where = _masked(self._mask(index))
        at = offset(index, result_type, self.view)
        return f"tl.store({pointer} + {at}, {self.variable(name)}{where})"

    def _walked(self, index: Index) -> set[str]:
        """The axes that a value varies along."""
        return axes_of(index)

    def _operand(self, name: str, index: Index) -> str:
        position = self._producer.get(name)
        if position is None:
            return self._load(name, index)
        call = self.program.calls[position]
        if is_view(call):
            return self.value(source(call), source_index(self.program, call, index))
        return self._compute(call, index)

    def _compute(self, call: Call, index: Index) -> str:
        if not is_elementwise(call):
            raise NotWritable(f"{call.op} cannot be computed element by element")
        texts = {}
        for key, side in operands(self.program, call, index).items():
            text = self.value(side.value, side.index)
            dtype = self.program.type_of(side.value).dtype
            # Integers become fp32 before they meet floats, as PyTorch promotes them; masks must
            # stay truth values.
            widen = is_float(call.types[0].dtype) and not is_float(dtype)
            widen = widen and key not in _SELECTORS
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
        scale = self._line(f"{call.outputs[0]}_scale", scale, index[1:2])
        shift = f" + {texts['bias']}" if "bias" in texts else ""
        text = f"({texts['input']} - {texts['running_mean']}) * {scale}{shift}"
        return self._line(call.outputs[0], text, index)

    def _load(self, name: str, index: Index) -> str:
        result_type = self.program.type_of(name)
        where = self._mask(index)
        address = self._address(name, index)
        text = f"tl.load({address}{_masked(where, other=True)})"
        if result_type.dtype in _WIDENED and self._widens:
            text += ".to(tl.float32)"
        return self._line(name, text, index)

    def _address(self, name: str, index: Index) -> str:
        result_type = self.program.type_of(name)
        if self._walk is None or self._is_fixed(index):
            return f"{name}_ptr + {offset(index, result_type, self.view)}"
        starts, moves = self._walk
        both = starts.keys() & moves.keys()
        # Start and move are added as offsets. A division or remainder of their sum is not the sum
        # of two divisions.
        if any(term.axis in both and not term.is_whole for dim in index for term in dim):
            raise NotWritable("a view takes apart an axis that a window slides along")
        start, move = (offset(index, result_type, view) for view in self._walk)
        if start == "0":
            return f"{name}_ptr + {move}"
        pointer = self._variable(name, "_start")
        self.before.append(f"{pointer} = {name}_ptr + {start}")
        return pointer if move == "0" else f"{pointer} + {move}"

    def _mask(self, index: Index) -> str:
        met = axes_of(index)
        text = mask([axis for axis in self.view if axis in met], self.view)
        # A mask of several terms is computed once and shared by all loads and the store. In a loop
        # the mask may move, so the text stays where the mask is used.
        if " & " in text and not self._inside and not self._loop:
            self._inside = text
            self.lines.append(f"inside = {text}")
        return "inside" if text and text == self._inside else text

    def _line(self, wanted: str, text: str, index: Index) -> str:
        """Write `variable = text` and return the variable, named after the value `wanted`."""
        variable = self._variable(wanted)
        (self.before if self._is_fixed(index) else self.lines).append(f"{variable} = {text}")
        return variable

    def _variable(self, wanted: str, role: str = "") -> str:
        """A new variable name for the value `wanted`, which may be needed at several indices."""
        taken = sum(1 for key, _ in self._texts if key == wanted)
        return f"{wanted}{self._tag}{role}" + (f"_{taken}" if taken else "")

    def _is_fixed(self, index: Index) -> bool:
        """Whether a value at `index` is the same in every step of the loop."""
        return bool(self._loop) and self._loop.isdisjoint(axes_of(index))


def _masked(where: str, other: bool = False) -> str:
    if not where:
        return ""
    return f", mask={where}" + (", other=0" if other else "")

"""Forms of convolutions, always with a batch: groups of channels, also of one each."""

from collections.abc import Iterator, Mapping

from kernelwright.ops.convolution import OPERATORS
from kernelwright.ops.forms.form import Choice, Form, Shape
from kernelwright.ops.forms.maker import Attributes, Maker, Writer, operand, parameter, sizes
from kernelwright.ops.sizes import Size, Var

DEPTHWISE = "depthwise"
"""Value of the menu "groups": as many as there are channels."""
_GROUPS = (1, 2, 4, DEPTHWISE)
_KERNEL_SIZES = {1: (1, 3, 5, 7), 2: (1, 3, 5, 7), 3: (1, 3)}
"""Spatial dimensions -> sizes of kernels that are as large in each of them."""
_OBLONG = {1: (), 2: ((1, 3), (3, 1), (1, 7), (3, 5)), 3: ((1, 3, 3), (3, 1, 1))}
_BATCH, _IN, _OUT = Var("b"), Var("c"), Var("o")


def _convolution(maker: Maker) -> Iterator[Form]:
    name = maker.operator.name
    spatial, is_transposed = int(name[-2]), "transpose" in name
    square = ((size,) * spatial for size in _KERNEL_SIZES[spatial])
    menus = maker.menu("kernel_size", *square, *_OBLONG[spatial]) | maker.menu("groups", *_GROUPS)

    def operands(choice: Choice) -> tuple[tuple[Shape, ...], Attributes]:
        """Shapes where a group takes `c` channels to `o`.

        The weight of a transposed convolution has the input's channels first.
        """
        groups: Size = _IN if choice["groups"] == DEPTHWISE else choice["groups"]
        taken: Size = 1 if choice["groups"] == DEPTHWISE else _IN
        x = (_BATCH, groups * taken, *sizes("s", spatial))
        channels = (groups * taken, _OUT) if is_transposed else (groups * _OUT, taken)
        return (x, (*channels, *choice["kernel_size"]), (groups * _OUT,)), {"groups": groups}

    for dtype in maker.space.floats:
        slots = (
            operand("input", spatial + 2, dtype),
            parameter("weight", spatial + 2, dtype),
            parameter("bias", 1, dtype),
        )
        yield from maker.form(slots, operands, menus)
        yield from maker.form(slots[:2], operands, menus)


WRITERS: Mapping[str, Writer] = {op.name: _convolution for op in OPERATORS}

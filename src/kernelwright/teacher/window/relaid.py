"""A convolution over a contiguous image, with copies of image and weights in channels-last.

Along pixels a window may start anywhere, so loads of a contiguous image are narrow and unaligned.
Along channels loads are wide and aligned. Also, tensor cores take TF32 along the summed dimension
only. The copies take little time beside the sum, and the result keeps the layout of the program.
"""

from dataclasses import replace

from kernelwright.ops.operator import Layout
from kernelwright.programs.program import Input, Program
from kernelwright.teacher.tile.program import the_only
from kernelwright.teacher.window.find import is_convolution


def relaid(program: Program) -> Program | None:
    """The program with the convolution's image and weights as inputs in channels-last.

    The wrapper then copies both. The results of the calls keep their layouts.

    Returns:
        None if copies gain nothing, or if image and weights are not contiguous inputs.
    """
    call = the_only(program, is_convolution, "convolutions")
    factors = [call.arg(name).name for name in ("input", "weight")]
    types = {value.name: value.type for value in program.inputs}
    if not all(name in types and _is_worth_turning(types[name].shape) for name in factors):
        return None
    if any(types[name].layout is not Layout.CONTIGUOUS for name in factors):
        return None

    def turned(value: Input) -> Input:
        if value.name not in factors:
            return value
        return replace(value, type=replace(value.type, layout=Layout.CHANNELS_LAST))

    inputs = tuple(turned(value) for value in program.inputs)
    return Program(inputs, program.calls, program.outputs)


def _is_worth_turning(shape: tuple[int, ...]) -> bool:
    """Whether an image or weights gain by channels-last: there are several channels and several
    pixels."""
    return len(shape) in (4, 5) and shape[1] > 1 and any(size > 1 for size in shape[2:])

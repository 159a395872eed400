"""The canonical text of a program: flat functional PyTorch, one operator a line.

    def get_inputs():            makes inputs and parameters
    def fused_operator(...):     computes, returns a list

`to_text` prints it, `parse` (programs/parsing.py) reads it back to the identical program.
"""

import json
from typing import Any

from kernelwright.ops.operator import ALL_DTYPE_BYTES, Layout
from kernelwright.programs import extern
from kernelwright.programs.build import returns_sequence, spelled_args
from kernelwright.programs.parsing import parse
from kernelwright.programs.program import Call, Input, Program, Ref
from kernelwright.programs.tensors import MEMORY_FORMATS, drawn_as, memory_format

__all__ = ["parse", "statement", "to_text"]


def to_text(program: Program, *, says_types: bool = False) -> str:
    """The program as a Python module that defines `get_inputs` and `fused_operator`.

    Args:
        says_types: behind each call, as a comment, the shape and type of what it makes.
    """
    names = ", ".join(value.name for value in program.inputs)
    lines = [
        "import torch",
        "import torch.nn.functional as F",
        "",
        "",
        "def get_inputs():",
        *(f"    {value.name} = {draw(value)}" for value in program.inputs),
        f"    return [{names}]",
        "",
        "",
        f"def fused_operator({names}):",
        *(
            f"    {statement(call)}" + (f"  # {types_text(call)}" if says_types else "")
            for call in program.calls
        ),
        f"    return [{', '.join(program.outputs)}]",
        "",
    ]
    return "\n".join(lines)


def types_text(call: Call) -> str:
    """Shape and type of each value that the call makes, those of like values once."""
    texts = [f"{result_type.shape} {result_type.dtype}" for result_type in call.types]
    return ", ".join(dict.fromkeys(texts))


def statement(call: Call, like: str = "") -> str:
    """The line of `fused_operator` that makes the call.

    Args:
        like: a tensor; a call that makes one of nothing makes it on that one's device, not on
            PyTorch's default.
    """
    targets = ", ".join(_targets(call))
    if returns_sequence(call) and len(call.outputs) == 1:
        targets = f"[{targets}]"
    return f"{targets} = {expression(call, like)}"


def _targets(call: Call) -> list[str]:
    """Names for all results of the call, also for those that are None."""
    mask = extern.computed(call.op, dict(call.args)) if call.is_extern else ()
    names = iter(call.outputs)
    return [next(names) if is_tensor else "_" for is_tensor in mask] or list(names)


def expression(call: Call, like: str = "") -> str:
    """Leading tensors by position, the rest by keyword."""
    head = f"torch.ops.{call.op}" if call.is_extern else call.operator.call
    by_position, by_keyword = spelled_args(call)
    rank = call.types[0].rank
    parts = [attribute_text(name, value, rank) for name, value in by_position]
    parts += [f"{name}={attribute_text(name, value, rank)}" for name, value in by_keyword]
    if like and call.makes_of_nothing:
        parts.append(f"device={like}.device")
    return f"{head}({', '.join(parts)})"


def attribute_text(name: str, value: Any, rank: int) -> str:
    """A parameter's value as Python text; dtypes and memory formats as torch spells them."""
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, tuple):
        inside = ", ".join(attribute_text(name, item, rank) for item in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, str) and value in ALL_DTYPE_BYTES and "dtype" in name:
        return f"torch.{value}"
    if isinstance(value, str) and value in MEMORY_FORMATS and name == "memory_format":
        return str(memory_format(value, rank))
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, float) and value - value != 0:  # infinities and NaN have no literal
        return f'float("{value}")'
    return repr(value)


def draw(value: Input) -> str:
    """The expression that draws an input, as `get_inputs` spells it."""
    input_type, init = value.type, value.init
    dtype = drawn_as(input_type.dtype)
    end = f"{input_type.shape}, dtype=torch.{dtype})"
    low, high = float(init.low), float(init.high)
    match init.kind:
        case "randn":
            text = _affine(f"torch.randn({end}", "" if high == 1 else repr(high), low)
        case "rand":
            span = "" if (low, high) == (0, 1) else f"({high} - {low})" if low else repr(high)
            text = _affine(f"torch.rand({end}", span, low)
        case "randint":
            text = f"torch.randint({int(low)}, {int(high)}, {end}"
        case "sign":
            text = f"2 * torch.randint(0, 2, {end} - 1"
        case _:
            text = f"torch.{init.kind}({end}"
    if dtype != input_type.dtype:
        text = f"({text}).to(torch.{input_type.dtype})"
    if input_type.layout is Layout.CHANNELS_LAST:
        is_call = text.startswith("torch.") and text.endswith(")")
        order = memory_format(input_type.layout.value, input_type.rank)
        text = f"{text if is_call else f'({text})'}.contiguous(memory_format={order})"
    return text


def _affine(text: str, scale: str, shift: float) -> str:
    text = f"{scale} * {text}" if scale else text
    return f"{text} {'+' if shift > 0 else '-'} {abs(shift)}" if shift else text

"""Reading Python text without running it: constants, dotted names, errors that name the line."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import ALL_DTYPE_BYTES

_MOST_BITS = 4096
"""The longest whole number that a constant may be: `10**10**10` would take gigabytes."""
_MOST_ITEMS = 1 << 16
"""The longest text or tuple that a constant may be."""


def _product(left: Any, right: Any) -> Any:
    for items, count in ((left, right), (right, left)):
        if isinstance(items, str | tuple) and isinstance(count, int):
            _see_short(len(items) * count <= _MOST_ITEMS)
    return left * right


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, str | bytes):
        raise TypeError("text is not formatted")
    return left % right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        _see_short(base.bit_length() * exponent <= _MOST_BITS)
    return base**exponent


def _see_short(is_short: bool) -> None:
    if not is_short:
        raise OverflowError("too large for a constant")


_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _product,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: _remainder,
    ast.Pow: _power,
}
_SPELLED = {
    **{f"torch.{name}": name for name in ALL_DTYPE_BYTES},
    "torch.float": "float32", "torch.double": "float64", "torch.half": "float16",
    "torch.long": "int64", "torch.int": "int32", "torch.channels_last": "channels_last",
    "torch.channels_last_3d": "channels_last", "torch.contiguous_format": "contiguous",
    "torch.preserve_format": "preserve", "math.inf": math.inf, "torch.inf": math.inf,
    "math.pi": math.pi, "torch.pi": math.pi, "math.e": math.e,
}  # fmt: skip
"""Names that stand for constants, as a program holds them."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """Where text came from; makes the errors about it."""

    file: str

    def fail(self, node: ast.AST | None, message: str, remedy: str) -> NoReturn:
        raise UsageError(message, file=self.file, line=getattr(node, "lineno", None), remedy=remedy)


class NotConstant(ValueError):
    """An expression has no value that can be read off the text."""


def dotted(node: ast.expr) -> str | None:
    """ "torch.float16" for a name or a chain of attributes on one; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return None


def constant(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """Value of an expression over numbers, strings, tuples and `names`.

    Raises:
        NotConstant: it involves anything else.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Tuple(elts=items) | ast.List(elts=items):
            return tuple(constant(item, names) for item in items)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _compute(operator.neg, constant(operand, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            values = (constant(left, names), constant(right, names))
            return _compute(_ARITHMETIC[type(op)], *values)
        case ast.Call(func=ast.Name(id="float"), args=[argument]):
            return _compute(float, constant(argument, names))
        case ast.Call(func=ast.Attribute(), args=[argument]) if dotted(node.func) == "math.sqrt":
            return _compute(math.sqrt, constant(argument, names))
    spelled = dotted(node)
    if spelled in _SPELLED:
        return _SPELLED[spelled]
    raise NotConstant(f"{ast.unparse(node)!r} is not a constant")


def _compute(function: Callable[..., Any], *values: Any) -> Any:
    try:
        value = function(*values)
        if isinstance(value, int):
            _see_short(value.bit_length() <= _MOST_BITS)
        elif isinstance(value, str | tuple):
            _see_short(len(value) <= _MOST_ITEMS)
        return value
    except (TypeError, ValueError, ArithmeticError) as error:
        raise NotConstant(str(error)) from error

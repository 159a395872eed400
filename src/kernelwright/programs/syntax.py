"""Reading Python text without running it: constants, dotted names, errors that name the line."""

import ast
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from kernelwright.core.errors import UsageError
from kernelwright.ops.operator import ALL_DTYPE_BYTES

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
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
            return float(constant(argument, names))
        case ast.Call(func=ast.Attribute(), args=[argument]) if dotted(node.func) == "math.sqrt":
            return math.sqrt(constant(argument, names))
    spelled = dotted(node)
    if spelled in _SPELLED:
        return _SPELLED[spelled]
    raise NotConstant(f"{ast.unparse(node)!r} is not a constant")


def _compute(function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except (TypeError, ArithmeticError) as error:
        raise NotConstant(str(error)) from error

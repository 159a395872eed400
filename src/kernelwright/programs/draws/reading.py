"""Reads `get_inputs`: random draws with constant shapes, scaled and shifted by constants."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from kernelwright.ops.operator import ALL_DTYPE_BYTES, Layout, TensorType
from kernelwright.programs.program import Init
from kernelwright.programs.syntax import NotConstant, SourceText, constant, dotted

_REMEDY = (
    "draw each input with torch.randn, rand, randint, ones or zeros and constant sizes, "
    "scaled and shifted by constants at most"
)
_DRAWS = {f"torch.{kind}": kind for kind in ("randn", "rand", "randint", "ones", "zeros")}


@dataclass(frozen=True, slots=True)
class DrawnInput:
    """scale * draw + shift."""

    type: TensorType
    kind: str
    bounds: tuple[float, float] = (0, 1)
    """The bounds of randint."""
    scale: float = 1.0
    shift: float = 0.0
    span: tuple[float, float] | None = None
    """(high, low) where the last factor is written as their difference."""

    @property
    def init(self) -> Init:
        """The draw as data.

        Raises:
            ValueError: an `Init` cannot express the draw.
        """
        is_plain = (self.scale, self.shift) == (1, 0)
        if self.kind == "randn":
            return Init("randn", self.shift, self.scale)
        if self.kind == "rand":
            # (high - low) + low may differ from high in the last digit. The bounds as written read
            # back exactly, where nothing else scales or shifts the draw.
            high = self.scale + self.shift
            if self.span is not None and self.span[1] == self.shift:
                spanned = self.span[0] - self.span[1] == self.scale
                high = self.span[0] if spanned else high
            return Init("rand", self.shift, high)
        if self.kind == "randint" and (*self.bounds, self.scale, self.shift) == (0, 2, 2, -1):
            return Init("sign")
        if self.kind == "randint" and self.scale == 1 and float(self.shift).is_integer():
            return Init("randint", self.bounds[0] + self.shift, self.bounds[1] + self.shift)
        if is_plain:
            return Init(self.kind)
        raise ValueError(f"{self.kind} is not scaled or shifted in a program")


def read_inputs(
    function: ast.FunctionDef, constants: Mapping[str, Any], source: SourceText
) -> list[DrawnInput]:
    """The tensors that `get_inputs` returns, in order.

    Raises:
        UsageError: the function does more than draw; the error names the line.
    """
    reader = _DrawReader(source, dict(constants))
    for node in function.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                reader.assign(name, value)
            case ast.Return(value=ast.List(elts=items) | ast.Tuple(elts=items)):
                return [reader.draw(item) for item in items]
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                reader.refuse(node)
    return source.fail(function, "get_inputs returns no list", _REMEDY)


class _DrawReader:
    def __init__(self, source: SourceText, names: dict[str, Any]) -> None:
        self.source, self.names = source, names

    def refuse(self, node: ast.AST, why: str = "") -> NoReturn:
        text = ast.unparse(node).splitlines()[0]
        self.source.fail(node, f"{text!r} in get_inputs{why and ': ' + why}", _REMEDY)

    def assign(self, name: str, node: ast.expr) -> None:
        try:
            self.names[name] = constant(node, self.names)
        except NotConstant:
            self.names[name] = self.draw(node)

    def draw(self, node: ast.expr) -> DrawnInput:
        drawn = self._draw(node)
        try:
            _ = drawn.init
        except ValueError as error:
            self.refuse(node, str(error))
        return drawn

    def _draw(self, node: ast.expr) -> DrawnInput:
        match node:
            case ast.Name(id=name) if isinstance(self.names.get(name), DrawnInput):
                drawn: DrawnInput = self.names[name]
                return drawn
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                if (factor := self._number(left)) is not None:
                    return self._scaled(self._draw(right), factor, left)
                if (factor := self._number(right)) is not None:
                    return self._scaled(self._draw(left), factor, right)
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                if divisor := self._number(right):
                    return self._scaled(self._draw(left), 1 / divisor, right)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                if (shift := self._number(right)) is not None:
                    inner = self._draw(left)
                    signed = shift if isinstance(op, ast.Add) else -shift
                    return replace(inner, shift=inner.shift + signed)
            case ast.Call(func=ast.Attribute(value=tensor, attr="contiguous" | "to" | "cuda")):
                if dotted(node.func) not in _DRAWS:
                    return self._converted(self._draw(tensor), node)
            case ast.Call() if dotted(node.func) in _DRAWS:
                return self._call(node, _DRAWS[dotted(node.func) or ""])
        return self.refuse(node)

    def _number(self, node: ast.expr) -> float | None:
        try:
            value = constant(node, self.names)
        except NotConstant:
            return None
        return value if isinstance(value, int | float) else None

    def _scaled(self, inner: DrawnInput, factor: float, node: ast.expr) -> DrawnInput:
        span = None
        match node:
            case ast.BinOp(left=high, op=ast.Sub(), right=low):
                span = (constant(high, self.names), constant(low, self.names))
        return replace(inner, scale=inner.scale * factor, shift=inner.shift * factor, span=span)

    def _converted(self, inner: DrawnInput, node: ast.Call) -> DrawnInput:
        """`.contiguous(memory_format=...)`, `.to(...)`, `.cuda()`: devices are not a program's."""
        converted = inner.type
        for value in (*node.args, *(k.value for k in node.keywords)):
            try:
                wanted = constant(value, self.names)
            except NotConstant:
                continue
            if wanted in ALL_DTYPE_BYTES:
                converted = replace(converted, dtype=wanted)
            elif wanted in ("channels_last", "contiguous"):
                converted = replace(converted, layout=Layout(wanted))
        return replace(inner, type=converted)

    def _call(self, node: ast.Call, kind: str) -> DrawnInput:
        try:
            args = [constant(arg, self.names) for arg in node.args]
            keywords = {k.arg: k.value for k in node.keywords}
            dtype = constant(keywords["dtype"], self.names) if "dtype" in keywords else None
            if "size" in keywords:
                args.append(constant(keywords["size"], self.names))
        except NotConstant as error:
            self.refuse(node, str(error))
        bounds: tuple[float, float] = (0, 1)
        if kind == "randint":
            if len(args) not in (2, 3):
                self.refuse(node, "give low, high and a shape")
            bounds, shape = (0 if len(args) == 2 else args[0], args[-2]), args[-1]
        else:
            shape = args[0] if len(args) == 1 and isinstance(args[0], tuple) else tuple(args)
        if not (isinstance(shape, tuple) and all(type(size) is int for size in shape)):
            self.refuse(node, "sizes must be integers")
        if any(size < 0 for size in shape):
            self.refuse(node, "sizes must not be negative")
        if dtype is not None and dtype not in ALL_DTYPE_BYTES:
            self.refuse(node, f"no such dtype: {dtype!r}")
        if not (all(type(bound) is int for bound in bounds) and bounds[0] < bounds[1]):
            self.refuse(node, "low and high must be integers, low below high")
        default = "int64" if kind == "randint" else "float32"
        return DrawnInput(TensorType(shape, dtype or default), kind, bounds)

"""Rewrites a kernel of Inductor so that it needs neither Inductor's runtime nor its names."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.data.inductor.reading import InductorKernel

_NAN_SAFE = "propagate_nan=tl.PropagateNan.ALL"
_TAKES_NUMBERS = frozenset({"tl.where", "tl.maximum", "tl.minimum"})
_JIT = ast.parse("triton.jit", mode="eval").body


@dataclass(slots=True)
class Rewritten:
    """A kernel that stands alone, and what its launches need to know."""

    function: ast.FunctionDef
    parameters: list[str]
    """Those that are left of Inductor's, by its names, in order; blocks are not among them."""
    combines: tuple[ast.FunctionDef, ...]
    """Functions that it hands to scans and reductions."""
    helpers: set[str]
    """The names of `triton_helpers` that the kernel calls."""
    constants: dict[str, int]
    """Numbers of elements that the kernel holds itself, by its names."""

    @property
    def stores(self) -> bool:
        return any(ast.unparse(n.func) in _STORES for n in _calls(self.function))


_STORES = frozenset({"tl.store", "tl.atomic_add"})


def rewrite_kernel(kernel: InductorKernel, name: str, names: Mapping[str, str]) -> Rewritten:
    """Rewrite a copy of the kernel.

    Args:
        name: of the new function.
        names: parameter or local name -> its new name.
    """
    function, *combines = map(_copied, (kernel.function, *kernel.combines))
    function.name, function.decorator_list = name, [_JIT]
    helpers = set().union(*map(_Plain.helpers_of, (function, *combines)))
    _inline_numbers(function)
    constants = _take_constants(function)
    _drop_unread(function)
    blocks = {a.arg for a in function.args.args if a.annotation is not None}
    parameters = [a.arg for a in function.args.args if a.arg not in blocks]
    _Renamed(names).visit(function)
    ast.fix_missing_locations(function)
    return Rewritten(function, parameters, tuple(combines), helpers, constants)


def _copied(function: ast.FunctionDef) -> ast.FunctionDef:
    copy = ast.parse(ast.unparse(function)).body[0]
    assert isinstance(copy, ast.FunctionDef)
    return copy


class _Plain(ast.NodeTransformer):
    """Replaces calls of Inductor's modules by Triton's, or by calls of helpers by their bare names.

    Device asserts and hints about cache eviction are dropped: neither changes a result.
    """

    def __init__(self) -> None:
        self.helpers: set[str] = set()

    @classmethod
    def helpers_of(cls, function: ast.FunctionDef) -> set[str]:
        plain = cls()
        function.body = [
            statement for node in function.body if (statement := plain.visit(node)) is not None
        ]
        return plain.helpers

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | None:
        is_check = isinstance(node.value, ast.Call) and "device_assert" in ast.unparse(node.value)
        statement: ast.stmt = self._visited(node)
        return None if is_check else statement

    def visit_Call(self, node: ast.Call) -> ast.expr:
        node.keywords = [k for k in node.keywords if k.arg != "eviction_policy"]
        module, _, name = ast.unparse(node.func).rpartition(".")
        # Inductor's helpers propagate NaN, as PyTorch does. Triton's functions do so only if asked.
        if module == "triton_helpers" and name in ("maximum", "minimum"):
            arguments = ", ".join(ast.unparse(self.visit(arg)) for arg in node.args)
            return ast.parse(f"tl.{name}({arguments}, {_NAN_SAFE})", mode="eval").body
        expression: ast.expr = self._visited(node)
        return expression

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        module = node.value.id if isinstance(node.value, ast.Name) else ""
        if module == "triton_helpers":
            self.helpers.add(node.attr)
            return ast.Name(node.attr, ast.Load())
        if module == "tl_math":
            return ast.Attribute(ast.Name("tl", ast.Load()), node.attr, ast.Load())
        expression: ast.expr = self._visited(node)
        return expression

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """The value itself, if the index is `[:]`."""
        is_all = isinstance(node.slice, ast.Slice) and ast.unparse(node.slice) == ":"
        expression: ast.expr = self.visit(node.value) if is_all else self._visited(node)
        return expression

    def _visited(self, node: ast.AST) -> Any:
        return self.generic_visit(node)


def _inline_numbers(function: ast.FunctionDef) -> None:
    """Replace names such as `tmp1 = tl.full([1], 0.5, tl.float32)` by a plain 0.5.

    A name stays if one of its uses needs a tensor, such as a use that asks for its shape.
    """
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    for node in function.body:
        number = _number(node)
        if number is None:
            continue
        name, value = number
        uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
        reads = [n for n in uses if isinstance(n.ctx, ast.Load)]
        # The name must be bound once: after a second assignment, reads mean another value.
        if len(uses) != len(reads) + 1 or not all(_takes_number(parents[n]) for n in reads):
            continue
        _Substituted(name, value).visit(function)


def _number(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """(name, number) of a statement that makes a tensor of one float32; None for others."""
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        return None
    call = node.value
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "tl.full" or len(call.args) != 3:
        return None
    shape, value, dtype = call.args
    is_one = ast.unparse(shape) in ("[1]", "[1, 1]") and ast.unparse(dtype) == "tl.float32"
    is_plain = isinstance(value, ast.Constant | ast.UnaryOp)
    return (node.targets[0].id, value) if is_one and is_plain else None


def _takes_number(node: ast.AST) -> bool:
    """Whether a plain number means the same there as a tensor of one."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in _TAKES_NUMBERS
    return isinstance(node, ast.BinOp | ast.Compare)


class _Substituted(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_read = node.id == self.name and isinstance(node.ctx, ast.Load)
        return self.value if is_read else node


def _take_constants(function: ast.FunctionDef) -> dict[str, int]:
    """Remove parameters that the body overwrites with a constant; returns their values by name."""
    constants = {}
    parameters = {a.arg for a in function.args.args}
    for node in function.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        name = node.targets[0].id
        if name in parameters and isinstance(node.value, ast.Constant):
            constants[name] = int(ast.literal_eval(node.value))
    function.args.args = [a for a in function.args.args if a.arg not in constants]
    return constants


def _drop_unread(function: ast.FunctionDef) -> None:
    """Remove assignments to names that nothing reads, and parameters that nothing reads."""
    # Again and again: a removed assignment may have held the last read of another name.
    while True:
        read = _read(function)
        dropped = _Dropped(read)
        dropped.visit(function)
        if not dropped.num:
            break
    function.args.args = [a for a in function.args.args if a.arg in read or a.annotation]


def _read(function: ast.FunctionDef) -> set[str]:
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Load)}


class _Dropped(ast.NodeTransformer):
    def __init__(self, read: set[str]) -> None:
        self.read, self.num = read, 0

    def visit_Assign(self, node: ast.Assign) -> ast.stmt | None:
        targets = ast.walk(node.targets[0])
        return self._kept(node, {n.id for n in targets if isinstance(n, ast.Name)})

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt | None:
        return self._kept(node, {ast.unparse(node.target)})

    def _kept(self, node: ast.stmt, names: set[str]) -> ast.stmt | None:
        if names & self.read:
            return node
        self.num += 1
        return None


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.names.get(node.id, node.id), node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(self.names.get(node.arg, node.arg), node.annotation)


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
